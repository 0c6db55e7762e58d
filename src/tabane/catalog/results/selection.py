"""Queries of a document: JMESPath, lines, regular expressions, aggregates; pure.

An expression can be made so that it takes forever. So this runs in a process that is killed then.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tabane.catalog.results.result_query import Aggregate, QueryAnswer, ResultQuery, outline
from tabane.messages import Message, say
from tabane.wire import json
from tabane.wire.json import InvalidJson

_RANGE = re.compile(r"\s*(-?\d{1,12})?\s*(?:(-|:|\.\.|,|–|to)\s*(-?\d{1,12})?)?\s*")


class InvalidRange(ValueError):
    """A text that is no range of lines."""


def line_range(given: str, count: int) -> range:
    """Return the lines of a range, from 1 to ``count``; empty if it is beyond them.

    A negative number counts from the end: ``-20`` is the last 20 lines, ``-20--10`` is from the 20th to the
    10th from the end. Both ends belong to the range. Raises InvalidRange.
    """
    found = _RANGE.fullmatch(given)
    if found is None or (found[1] is None and found[3] is None):
        raise InvalidRange(given)
    first = _line(found[1], 1, count)
    if found[2] is None:
        last = count if found[1].startswith("-") else first
    else:
        last = _line(found[3], count, count)
    if first > last and found[1] is not None and found[3] is not None and first <= count:
        raise InvalidRange(given)
    return range(max(first, 1), min(last, count) + 1)


def _line(number: str | None, usual: int, count: int) -> int:
    if number is None:
        return usual
    return count + 1 + int(number) if number.startswith("-") else int(number)


MOST_FOUND = 16 << 20
"""Bytes of what a query returns."""

MOST_GROUPS = 200
_LONGEST_SHOWN = 80

_FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)


class QueryFailed(Exception):
    """A query that cannot be answered. The message says what to write instead."""

    def __init__(self, message: Message) -> None:
        super().__init__(str(message))
        self.message = message


def answer(query: ResultQuery) -> QueryAnswer:
    """Return what a query finds, or why it finds nothing."""
    try:
        found = _of_json(query) if query.of_json else _of_text(query)
    except QueryFailed as failed:
        return QueryAnswer(failure=failed.message)
    if len(found.found) > MOST_FOUND:
        text = say("The query finds {found} MiB. Select less: the limit is {most} MiB.",
                   found=len(found.found) >> 20, most=MOST_FOUND >> 20)  # fmt: skip
        return QueryAnswer(failure=text)
    return found


# -- JSON --------------------------------------------------------------------------------------------


def _of_json(query: ResultQuery) -> QueryAnswer:
    shape = outline(query.document, of_json=True)
    if query.lines is not None:
        raise QueryFailed(
            say(
                "lines is for texts, and the result is {shape}. Use select, for example: {example}",
                shape=shape.shape,
                example=shape.select,
            )
        )
    try:
        value = json.decode(query.document)
    except InvalidJson as error:
        raise QueryFailed(say("The result cannot be read as JSON: {reason}", reason=str(error))) from None
    if query.select is not None:
        value = _selected(query.select, value, shape.shape, shape.select)
    if query.regex is not None:
        pattern = _compiled(query.regex)
        if not isinstance(value, list):
            raise QueryFailed(
                say(
                    "regex searches the items of a list, and this is of type {kind}. The result is {shape}. "
                    "Add a select that returns a list, for example: {example}",
                    kind=_kind(value),
                    shape=shape.shape,
                    example=shape.select,
                )
            )
        value = [item for item in value if pattern.search(_text_of(item))]
    if query.aggregate is not None:
        value = _aggregated(query.aggregate, value)
    try:
        found = json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise QueryFailed(say("select: the expression returns no value. Remove the &.")) from None
    note = None
    if value in ([], {}) and query.aggregate is None:
        note = say("Nothing fits. The result is {shape}.", shape=shape.shape)
    return QueryAnswer(found, of_json=True, note=note)


def _selected(expression: str, value: Any, shape: str, example: str) -> Any:
    import jmespath  # 0.03 s, and no query without select needs it

    try:
        found = jmespath.search(_as_jmespath(expression), value)
    except _FAULTS as error:
        raise QueryFailed(
            say(
                "select is not valid JMESPath: {reason}. The result is {shape}. An example: {example}",
                reason=_first_line(error),
                shape=shape,
                example=example,
            )
        ) from None
    if found is None:
        quotes = say('Write texts in single quotes, not in "…".') if '"' in expression else ""
        raise QueryFailed(
            say(
                "select finds nothing. The result is {shape}. An example: {example} {quotes}",
                shape=shape,
                example=example,
                quotes=quotes,
            )
        )
    return found


def _as_jmespath(expression: str) -> str:
    """Return an expression without the beginning that JSONPath and jq have."""
    written = expression.strip()
    for beginning in ("$.", "."):
        written = written.removeprefix(beginning)
    if written == "$":
        return "@"
    return written[1:] if written.startswith("$[") else written


def _text_of(item: Any) -> str:
    return item if isinstance(item, str) else json.encode(item).decode("utf-8", "replace")


# -- texts -------------------------------------------------------------------------------------------


def _of_text(query: ResultQuery) -> QueryAnswer:
    lines = query.document.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    if len(lines) > 1 and not lines[-1]:
        del lines[-1]
    if query.select is not None:
        raise QueryFailed(
            say(
                "select is for JSON, and the result is a text of {count:,} {count:line|lines}. Use "
                'lines ("120-180", "-20") or regex.',
                count=len(lines),
            )
        )
    count = len(lines)
    shown = range(1, count + 1)
    if query.lines is not None:
        try:
            shown = line_range(query.lines, count)
        except InvalidRange:
            raise QueryFailed(
                say(
                    'lines is "120-180", "120", or "-20" for the last 20 lines, not "{given}".',
                    given=query.lines,
                )
            ) from None
        if not shown:
            raise QueryFailed(say("The result has only {count:,} {count:line|lines}.", count=count))
    if query.regex is None:
        if query.aggregate is None:
            return QueryAnswer("\n".join(lines[number - 1] for number in shown).encode())
        return _of_values(query.aggregate, [lines[number - 1] for number in shown])
    pattern = _compiled(query.regex)
    if query.aggregate is not None:
        matches = (each for number in shown for each in pattern.finditer(lines[number - 1]))
        if query.aggregate == "count":
            return _json(sum(1 for number in shown if pattern.search(lines[number - 1])))
        return _of_values(query.aggregate, [each[1] if pattern.groups else each[0] for each in matches])
    return _matching_lines(pattern, lines, shown, query.context)


def _matching_lines(
    pattern: re.Pattern[str], lines: Sequence[str], shown: range, context: int
) -> QueryAnswer:
    """Return the lines that match with their numbers, as grep -n does."""
    matching = [number for number in shown if pattern.search(lines[number - 1])]
    written: list[str] = []
    last = 0
    hits = frozenset(matching)
    for number in matching:
        first = max(number - context, last + 1, 1)
        if context and last and first > last + 1:
            written.append("--")
        for each in range(first, min(number + context, len(lines)) + 1):
            written.append(f"{each}{':' if each in hits else '-'} {lines[each - 1]}")
            last = each
    note = say(
        "{count:,} of {all:,} {all:line|lines} {count:matches|match}.", count=len(matching), all=len(shown)
    )
    return QueryAnswer("\n".join(written).encode(), note=note)


def _compiled(expression: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise QueryFailed(
            say("regex is not valid (syntax of Python's re): {reason}", reason=_first_line(error))
        ) from None


# -- aggregates --------------------------------------------------------------------------------------


def _of_values(aggregate: Aggregate, values: list[str]) -> QueryAnswer:
    if aggregate in ("sum", "min", "max", "avg"):
        return _json(_aggregated(aggregate, [_number(value) for value in values]))
    return _json(_aggregated(aggregate, values))


def _json(value: Any) -> QueryAnswer:
    return QueryAnswer(json.encode(value), of_json=True)


def _number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text.replace(",", ""))
        except ValueError:
            continue
    return text


def _aggregated(aggregate: Aggregate, value: Any) -> Any:
    if aggregate == "count":
        return len(value) if isinstance(value, list | dict) else 1
    if aggregate == "keys":
        return _keys(value)
    if not isinstance(value, list):
        raise QueryFailed(
            say(
                "aggregate {aggregate} needs a list, and this is of type {kind}. Select a list: items[].size",
                aggregate=aggregate,
                kind=_kind(value),
            )
        )
    if aggregate in ("group", "unique"):
        groups = Counter(map(_text_of, value))
        if aggregate == "unique":
            return _unique(value)
        return dict(groups.most_common(MOST_GROUPS))
    known = [each for each in value if each is not None]
    numbers = [each for each in known if isinstance(each, int | float) and not isinstance(each, bool)]
    if aggregate in ("min", "max") and known and all(isinstance(each, str) for each in known):
        return min(known) if aggregate == "min" else max(known)
    if len(numbers) != len(known):
        odd = next(each for each in known if isinstance(each, bool) or not isinstance(each, int | float))
        raise QueryFailed(
            say(
                "aggregate {aggregate} needs numbers, and the list has this {kind}: {item}",
                aggregate=aggregate,
                kind=_kind(odd),
                item=_text_of(odd)[:_LONGEST_SHOWN],
            )
        )
    if aggregate == "sum":
        return sum(numbers)
    if not numbers:
        raise QueryFailed(say("aggregate {aggregate}: the list has no numbers.", aggregate=aggregate))
    if aggregate == "avg":
        return sum(numbers) / len(numbers)
    return min(numbers) if aggregate == "min" else max(numbers)


def _unique(value: Iterable[Any]) -> list[Any]:
    seen: dict[str, Any] = {}
    for each in value:
        seen.setdefault(json.encode(each).decode("utf-8", "replace"), each)
    return list(seen.values())


def _keys(value: Any) -> dict[str, Any] | list[str]:
    """Return the keys of an object with the kinds of their values; those of the objects of a list."""
    objects = value if isinstance(value, list) else [value]
    found: dict[str, dict[str, None]] = {}
    for each in objects:
        if isinstance(each, dict):
            for key, member in each.items():
                found.setdefault(key, {})[_kind(member)] = None
    if not found:
        raise QueryFailed(say("aggregate keys needs an object or a list of objects, not {kind}.",
                              kind=_kind(value)))  # fmt: skip
    return {key: " | ".join(kinds) for key, kinds in found.items()}


def _kind(value: Any) -> str:
    """Return the type of a value of JSON."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return f"array[{len(value):,}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    first = (lines[0] if lines else type(error).__name__).rstrip(".:")[:200]
    return first.encode("utf-8", "replace").decode()
