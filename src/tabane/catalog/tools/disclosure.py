"""Tools as text for a model: a line for choosing one, and a page for calling it, in few tokens.

Pure: takes tools and hits, returns text, JSON values or JSON bytes. A line reads ``server__tool(arg: type,
opt?: type) [read-only]: first sentence``. The lines of a search are shorter: they leave out the type string,
the types of optional arguments, and these if any is required.

A page has the description, then one line for each parameter. ``path — Absolute path.`` is a required string,
``limit?: integer 1..1000 = 100 — …`` is optional with its range and default. Members of objects are indented
below them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from tabane.catalog.tools.app_metadata import NO_APP, app_members
from tabane.catalog.tools.schemas import (
    BRIEF,
    BRIEFEST,
    FLAT,
    WHOLE,
    Schema,
    SchemaParameter,
    SchemaRoot,
    TypeDetail,
    parameters,
    resolved,
    type_of,
    word_or_literal,
)
from tabane.messages import say
from tabane.search.snippets import first_sentence, first_sentences, one_line
from tabane.text.cutting import shortened
from tabane.text.nearest_names import nearest_qualified
from tabane.wire.json import InvalidJson, decode, encode, fields

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool
    from tabane.messages import Lang, Message

_MOST_REQUIRED = 8
_MOST_OPTIONAL = 4
_FULL_SHARE = 0.6  # of the tools that a search finds: the others are only named
_FULL_SHARE_OF_STEP = 0.5
_SENTENCE = 160
_CLAUSE = 60  # characters of a sentence that is shown whole in a search
_LEAST_CLAUSE = 30
_LONGEST_CLAUSE = 90
_CLAUSE_MARKS = (", ", "; ", ": ", " (", " — ", " - ", "、", "，", "；", "（")
_LIGHT_SENTENCE = 140
_MOST_NAMES = 12
_QUERY = 80
_MOST_FAILED, _FAILURE = 3, 400


DOUBTFUL = say("Perhaps none of these fits. If so, search once more with other words.")
"""The head of results that may not be what was asked for."""


def signature(tool: Tool, *, typed: bool = True) -> str:
    """Describe a tool in one line. Required arguments come first; after four optional ones comes ``…``.

    If ``typed`` is False, the line is as short as it can be to choose a tool: without the type string,
    types of optional arguments, and optional arguments if any is required.
    """
    sentence = shortened(first_sentence(tool.description) or tool.title, _SENTENCE)
    if not typed:
        sentence = _main_clause(sentence)
    return f"{tool.alias}({_arguments(tool, typed)}){_marks(tool)}{': ' if sentence else ''}{sentence}"


def search_text(
    found: Sequence[Tool],
    query: str,
    names: Iterable[str],
    lang: Lang = "en",
    *,
    total: int | None = None,
    doubtful: bool = False,
    of_step: bool = False,
) -> str:
    """Format the result of a search: one line per tool, below a head with the total if it is given.

    ``doubtful``: perhaps none fits, and the head says so. ``of_step``: the query is one of several, so there
    are fewer lines. If nothing was found, those of ``names`` (all tools) with a similar name are named.
    """
    if not found:
        return _nothing(query, nearest_qualified(query, names)).render(lang)
    lines = _found_lines(found, _FULL_SHARE_OF_STEP if of_step else _FULL_SHARE, lang)
    if doubtful:
        lines.insert(0, DOUBTFUL.render(lang))
    elif total is not None:
        lines.insert(0, say("{shown} of {total}:", shown=len(found), total=total).render(lang))
    return "\n".join(lines)


def unlisted_lines(waiting: Collection[str], failed: Sequence[str], lang: Lang) -> list[str]:
    """Return lines about servers that are starting, and about those that have listed nothing."""
    lines = [shortened(one_line(why), _FAILURE) for why in failed[:_MOST_FAILED]]
    if not waiting:
        return lines
    names = sorted(waiting)
    servers = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    starting = say("Still starting: {servers}. Search again in a moment.", servers=servers)
    return [starting.render(lang), *lines]


def describe(tool: Tool, detail: Literal["compact", "full"] = "compact", *, named: bool = True) -> str:
    """Return all that is needed to call a tool: as a page, or as the upstream's definition.

    A page that is not ``named`` begins with the description: whoever asked for one tool knows its name.
    """
    if detail == "full":
        return tool.definition.decode("utf-8", "replace")
    return tool_page(tool, named=named)


def light_definition(tool: Tool) -> bytes:
    """Return the definition of light mode: name, first sentence, and that arguments are an object.

    What it says of apps stays, so that a host shows the page of the tool and hides from its model what only
    an app may call.
    """
    shown: dict[str, Any] = {
        "name": tool.alias,
        "description": shortened(first_sentence(tool.description) or tool.title, _LIGHT_SENTENCE),
        "inputSchema": {"type": "object"},
    }
    if tool.app != NO_APP:
        shown["_meta"] = app_members(tool.definition)
    return encode(shown)


def _found_lines(tools: Sequence[Tool], share: float, lang: Lang) -> list[str]:
    """Return a line for each tool of the better share, and one line with the names of the others."""
    best = max(1, round(len(tools) * share))
    lines = [signature(tool, typed=False) for tool in tools[:best]]
    if others := ", ".join(tool.alias for tool in tools[best:]):
        lines.append(say("Also: {names}", names=others).render(lang))
    return lines


def _main_clause(sentence: str) -> str:
    """Return a sentence, or the beginning of a long one, which ends with a clause if possible."""
    if len(sentence) <= _CLAUSE:
        return sentence
    end = max(sentence.rfind(mark, _LEAST_CLAUSE, _CLAUSE) for mark in _CLAUSE_MARKS)
    return sentence[:end].rstrip() if end > 0 else shortened(sentence, _LONGEST_CLAUSE)


def _marks(tool: Tool) -> str:
    """Return what a caller must know before calling: `` [read-only]``, `` [destructive]`` or nothing."""
    return " [read-only]" if tool.read_only else " [destructive]" if tool.destructive else ""


def _arguments(tool: Tool, typed: bool) -> str:
    root = SchemaRoot(tool.schema)
    found = parameters(tool.schema, root)
    required = [parameter for parameter in found if parameter.required]
    optional = [parameter for parameter in found if not parameter.required]
    most = 0 if required and not typed else _MOST_OPTIONAL
    shown = [_argument(parameter, root, typed) for parameter in required[:_MOST_REQUIRED] + optional[:most]]
    if len(required) > _MOST_REQUIRED or len(optional) > most > 0:
        shown.append("…")
    return ", ".join(shown)


def _argument(parameter: SchemaParameter, root: SchemaRoot, typed: bool) -> str:
    # An optional enum is shown by its first value: to choose a tool, it is enough that there is a choice.
    name = _in_one_line(parameter.name)
    if parameter.required:
        kind = type_of(parameter.schema, root, BRIEF)
        return name if kind == "string" and not typed else f"{name}: {kind}"
    if not typed:
        return f"{name}?"
    return f"{name}?: {type_of(parameter.schema, root, BRIEFEST)}"


def _in_one_line(name: str) -> str:
    """Return the name of a parameter with line breaks and other control characters escaped."""
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def _nothing(query: str, near: Sequence[str]) -> Message:
    wanted = shortened(one_line(query), _QUERY)
    if near:
        return say(
            "No tool matches “{query}”. Similar names: {names}. Call describe_tools with the one you mean.",
            query=wanted,
            names=", ".join(near),
        )
    return say("No tool matches “{query}”. Search with other words for what it should do.", query=wanted)


# -- the page of a tool ------------------------------------------------------------------------------

_DESCRIPTION = 300
_READING = 120  # characters of the description of a read-only tool: a wrong call of it does no harm
_HINT = 180
_LONGEST_HINT = 4_000
_BRIEF_HINT = 90  # of a tool with many parameters, and of nested members
_MANY = 16
_DEEPEST = 3
_MOST_LINES = 80
_TYPE = 600
_RESULT = 300
_LONGEST_RESULT = 100_000  # bytes of JSON that are read for it
# Generators write JavaScript's largest safe integer for "no limit".
_SAFE_INTEGER = 2**53 - 1
_MORE = "(more: detail full)"
_FAR = 10  # a limit so many times the default is not reached by accident
_LONG = 1_000  # characters: so long a text is not reached by accident


def tool_page(tool: Tool, *, named: bool = True) -> str:
    """Return a tool as text, some 100 tokens: what a model needs to call it right the first time."""
    traits = _traits(tool)
    lines = [f"{tool.alias}{traits}"] if named else []
    if description := one_line(tool.description or tool.title):
        most = _READING if tool.read_only else _DESCRIPTION
        kept = shortened(first_sentences(description, most), _DESCRIPTION)
        beginning = kept if kept == description else f"{kept} {_MORE}"
        lines.append(beginning if named else f"{traits} {beginning}".strip())
    elif not named and traits:
        lines.append(traits.strip())
    # References may produce endless members: only those that are shown are read.
    members = list(islice(_members(tool.schema, SchemaRoot(tool.schema), 0), _MOST_LINES + 1))
    if len(members) > _MOST_LINES:
        members[-1] = f"… {_MORE}"
    elif not members:
        members = ["(any arguments)" if tool.schema.get("additionalProperties") else "(no arguments)"]
    lines.extend(members)
    if result := _result(tool):
        lines.append(result)
    return "\n".join(lines)


def _traits(tool: Tool) -> str:
    if tool.read_only:
        return " [read-only]"
    try:
        raw = fields(tool.definition).get("annotations", b"null")
        annotations = decode(raw) if len(raw) <= _LONGEST_RESULT else None
    except InvalidJson:
        annotations = None
    idempotent = isinstance(annotations, dict) and annotations.get("idempotentHint") is True
    traits = [name for name, has in (("destructive", tool.destructive), ("idempotent", idempotent)) if has]
    return f" [{', '.join(traits)}]" if traits else ""


def _members(schema: Any, root: SchemaRoot, level: int) -> Iterator[str]:
    found = parameters(schema, root)
    most = _BRIEF_HINT if level or len(found) > _MANY else _HINT
    for parameter in found:
        inner = _inner(parameter.schema, root) if level < _DEEPEST else None
        detail = WHOLE if level < _DEEPEST else FLAT
        if inner is None:
            kind = shortened(type_of(parameter.schema, root, detail), _TYPE)
        else:
            kind = "object[]" if isinstance(parameter.schema.get("items"), dict) else "object"
        yield "  " * level + _line(parameter, kind, most)
        if inner is not None:
            yield from _members(inner, root, level + 1)


def _inner(schema: Schema, root: SchemaRoot) -> Schema | None:
    """Return the object whose members are shown below a parameter: its own, or those of its items."""
    if isinstance(schema.get("items"), dict):
        schema = resolved(schema["items"], root)
    return schema if isinstance(schema.get("properties"), dict) and schema["properties"] else None


def _line(parameter: SchemaParameter, kind: str, most: int) -> str:
    schema = parameter.schema
    usual = schema.get("default")
    form = f"{kind}{limits(schema)}"
    text = f"{parameter.name}{'' if parameter.required else '?'}{'' if form == 'string' else f': {form}'}"
    if usual is not None:
        text += f" = {word_or_literal(usual)}"
    hint = schema.get("description")
    hint = shortened(one_line(hint[:_LONGEST_HINT]), most) if isinstance(hint, str) else ""
    return f"{text} — {hint}" if hint else text


def limits(schema: Schema) -> str:
    """Return the limits: `` 1..1000``, `` ≥ 0``, `` (≤ 40000 chars)``, `` /^[A-Z]{2}$/``, `` <uri>``."""
    shortest, longest = schema.get("minLength"), schema.get("maxLength")
    far = isinstance(longest, int | float) and longest >= _LONG
    found = [
        _range(*_reached(schema)),
        _range(schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"), strict=True),
        _range_of_units(None if shortest == 1 else shortest, None if far else longest, "chars"),
        _range_of_units(schema.get("minItems"), schema.get("maxItems"), "items"),
    ]
    if isinstance(step := schema.get("multipleOf"), int | float) and abs(step) < _SAFE_INTEGER:
        found.append(f"multiple of {step}")
    if isinstance(pattern := schema.get("pattern"), str):
        found.append(f"/{shortened(pattern, 120)}/")
    if isinstance(form := schema.get("format"), str):
        found.append(f"<{shortened(form, 40)}>")
    return "".join(f" {part}" for part in found if part)


def _reached(schema: Schema) -> tuple[Any, Any]:
    """Return minimum and maximum, without one that is so far from the default that nobody comes near."""
    low, high, usual = schema.get("minimum"), schema.get("maximum"), schema.get("default")
    if isinstance(usual, bool) or not isinstance(usual, int | float):
        return low, high
    far = isinstance(high, int | float) and high >= max(usual, 1) * _FAR
    return None if low in (0, 1) else low, None if far else high


def _range(low: Any, high: Any, *, strict: bool = False) -> str:
    low, high = _bound(low), _bound(high)
    if low and high and not strict:
        return f"{low}..{high}"
    equal = "" if strict else "="
    return " ".join(part for part in (low and f">{equal}{low}", high and f"<{equal}{high}") if part)


def _bound(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return ""
    return "" if abs(value) >= _SAFE_INTEGER else str(value)


def _range_of_units(low: Any, high: Any, unit: str) -> str:
    text = _range(low or None, high)
    return f"({text} {unit})" if text else ""


def _result(tool: Tool) -> str:
    """Return the description of the result, if the upstream gives one."""
    try:
        raw = fields(tool.definition).get("outputSchema", b"null")
        schema = decode(raw) if len(raw) <= _LONGEST_RESULT else None
    except InvalidJson:
        return ""
    if not isinstance(schema, dict) or not schema:
        return ""
    return "→ " + shortened(type_of(schema, SchemaRoot(schema), WHOLE), _RESULT)


_DETAIL = TypeDetail(values=60, levels=3, quoted=False)
_LONGEST = 600


class LearnedResult(Struct, frozen=True):
    """A JSON Schema of results, and the number of results that it was learned from. It is only a hint."""

    schema: dict[str, Any]
    results: int

    def line(self) -> str:
        """Return the line for a model."""
        kind = shortened(type_of(self.schema, SchemaRoot(self.schema), _DETAIL), _LONGEST)
        return f"→ {kind} (learned from {self.results} results; others may differ)"

    def row(self) -> dict[str, Any]:
        """Return the values for programs."""
        return {"schema": self.schema, "results": self.results}
