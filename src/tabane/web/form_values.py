"""Values of a form for a tool's arguments: from arguments to values, back, and as fields to show; pure.

A value is a text under the path of its field. Beside it there are names for what a text cannot say:
``i:PATH`` has the numbers of the items of a list, ``v:PATH`` the number of the chosen option, ``o:PATH`` is
``1`` if an optional object is there, ``m:PATH`` has the other members of an object as JSON, and ``e:PATH`` is
an explicit ``""``, ``[]`` or ``null``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tabane.messages import Message, say
from tabane.web.schema_fields import SchemaField, as_json

MOST_ITEMS = 200
"""Items of a list in a form."""

LONGEST_JSON = 1 << 20

_INTEGER = re.compile(r"[+-]?\d{1,400}")
_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?")
_KINDS = {'""': "text", "[]": "list"}

FormValues = Mapping[str, Sequence[str]]
"""Texts by name, as a form sends them."""


@dataclass(frozen=True, slots=True)
class FormArguments:
    """Arguments of a tool, as far as they could be read, and what is wrong by path of the field."""

    arguments: dict[str, Any]
    errors: Mapping[str, Message]


@dataclass(frozen=True, slots=True)
class FilledField:
    """A field with what is in it, for a template. ``others`` is JSON of further members of a group.

    ``item`` is an empty item of a list, to be copied; its paths have ``mark`` instead of a number.
    ``explicit`` is an explicit empty value, as JSON. ``there``: the object is there.
    """

    field: SchemaField
    value: str = ""
    error: Message | None = None
    fields: tuple[FilledField, ...] = ()
    item: FilledField | None = None
    mark: str = ""
    chosen: int = 0
    others: str = ""
    explicit: str = ""
    there: bool = True


class _Absent:
    """No value: the member is left out."""


_ABSENT = _Absent()


def arguments_of(form: SchemaField, values: FormValues) -> FormArguments:
    """Return the arguments that a form says, with an error for each field that is wrong."""
    reader = _ValueReader(values)
    found = reader.read(form)
    if not isinstance(found, dict):
        if not isinstance(found, _Absent) and not reader.errors:
            reader.errors[form.path] = say("The arguments must be a JSON object.")
        found = {}
    return FormArguments(found, reader.errors)


def values_of(form: SchemaField, arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the values of a form that says these arguments, as far as it can."""
    found: dict[str, list[str]] = {}
    _write(form, dict(arguments), found)
    return found


def shows(form: SchemaField, arguments: Mapping[str, Any]) -> bool:
    """Return whether a form can show these arguments without a loss."""
    read = arguments_of(form, values_of(form, arguments))
    text = as_json(read.arguments)
    # A browser changes line ends in a field. A backslash that is escaped itself begins no escape.
    changes = "\\r" in text.replace("\\\\", "")
    return not read.errors and not changes and text == as_json(_ordered_like(arguments, read.arguments))


def _ordered_like(value: Any, other: Any) -> Any:
    """Return a value with the members of objects in the order of another value: that has no meaning."""
    if isinstance(value, dict) and isinstance(other, dict) and value.keys() == other.keys():
        return {key: _ordered_like(value[key], other[key]) for key in other}
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [_ordered_like(part, same) for part, same in zip(value, other, strict=True)]
    return value


# -- from a form to arguments ------------------------------------------------------------------------


@dataclass(slots=True)
class _ValueReader:
    """Reads the values of a form. ``errors`` are by path."""

    values: FormValues
    errors: dict[str, Message] = field(default_factory=dict)

    def read(self, at: SchemaField) -> Any:
        """Return the value of a field, or that it is absent."""
        match at.kind:
            case "group":
                return self._group(at)
            case "list":
                return self._list(at)
            case "variants":
                return self._variant(at)
            case "constant":
                return json.loads(at.choices[0].value)
        text = self._text(at.path)
        if text == "":
            return self._empty(at)
        return self._wrong(at, _PARSERS[at.kind](at, text))

    def _text(self, path: str) -> str:
        return next(iter(self.values.get(path, ())), "")

    def _wrong(self, at: SchemaField, found: Any) -> Any:
        if isinstance(found, Message):
            self.errors[at.path] = found
            return _ABSENT
        return found

    def _empty(self, at: SchemaField) -> Any:
        """Return what a field without a value says. Records an error if it has to have one."""
        explicit = self._text(f"e:{at.path}")
        if _takes(at, explicit):
            return json.loads(explicit)
        if not at.required:
            return _ABSENT
        if at.nullable:
            return None
        if at.kind == "list" and not at.limits.shortest:
            return []
        self.errors[at.path] = _count_error(at) if at.kind == "list" else say("This is required.")
        return _ABSENT

    def _group(self, at: SchemaField) -> Any:
        if is_optional(at) and self._text(f"o:{at.path}") != "1":
            return self._empty(at)
        found = {each.key: value for each in at.fields if (value := self.read(each)) is not _ABSENT}
        return found | self._others(at)

    def _others(self, at: SchemaField) -> dict[str, Any]:
        text = self._text(f"m:{at.path}")
        if not text.strip():
            return {}
        found = _json(at, text)
        if isinstance(found, dict):
            taken = [each.key for each in at.fields if each.key in found]
            if not taken:
                return found
            found = say("{name} has a field of its own.", name=taken[0])
        self.errors[f"m:{at.path}"] = found if isinstance(found, Message) else say("Enter a JSON object.")
        return {}

    def _list(self, at: SchemaField) -> Any:
        items = list(_items(at, self.values))
        if not items:
            return self._empty(at)
        if not at.limits.shortest <= len(items) <= (at.limits.longest or MOST_ITEMS):
            self.errors[at.path] = _count_error(at)
        return [value for each in items if (value := self.read(each)) is not _ABSENT]

    def _variant(self, at: SchemaField) -> Any:
        chosen = self._text(f"v:{at.path}")
        if not chosen.isdecimal() or int(chosen) >= len(at.fields):
            return self._empty(at)
        return self.read(at.fields[int(chosen)])


def is_optional(at: SchemaField) -> bool:
    """Return whether an object may be left out, so that a person has to say whether it is there."""
    return at.kind == "group" and (not at.required or at.nullable)


def _items(at: SchemaField, values: FormValues) -> Iterator[SchemaField]:
    """Return the items of a list, with their numbers in the paths."""
    numbers = [number for number in values.get(f"i:{at.path}", ()) if number.isdecimal() and len(number) < 6]
    for number in dict.fromkeys(numbers[:MOST_ITEMS]):
        yield _numbered(at.fields[0], f"{{{at.level}}}", number)


def _numbered(at: SchemaField, mark: str, number: str) -> SchemaField:
    path = "/".join(number if part == mark else part for part in at.path.split("/"))
    return replace(at, path=path, fields=tuple(_numbered(each, mark, number) for each in at.fields))


def _takes(at: SchemaField, explicit: str) -> bool:
    """Return whether a field may have an explicit empty value."""
    if explicit == "null":
        return at.nullable
    return explicit in _KINDS and at.kind == _KINDS[explicit]


def _count_error(at: SchemaField) -> Message:
    if at.limits.longest is None:
        return say("Enter at least {count} {count:item|items}.", count=at.limits.shortest)
    return say(
        "Enter {shortest} to {longest} {longest:item|items}.",
        shortest=at.limits.shortest,
        longest=at.limits.longest,
    )


def _parsed_text(at: SchemaField, text: str) -> str | Message:
    if len(text) < at.limits.shortest:
        return say("Enter at least {count} {count:character|characters}.", count=at.limits.shortest)
    if at.limits.longest is not None and len(text) > at.limits.longest:
        return say("Enter at most {count} {count:character|characters}.", count=at.limits.longest)
    return text


def _parsed_integer(at: SchemaField, text: str) -> Any:
    if not _INTEGER.fullmatch(text.strip()):
        return say("Enter a whole number.")
    return _limited(at, int(text))


def _parsed_number(at: SchemaField, text: str) -> Any:
    if not _NUMBER.fullmatch(text.strip()):
        return say("Enter a number.")
    if _INTEGER.fullmatch(text.strip()):
        return _limited(at, int(text))
    number = float(text)
    return _limited(at, number) if math.isfinite(number) else say("Enter a number.")


def _limited(at: SchemaField, number: Any) -> Any:
    limits = at.limits
    if limits.least is not None and number < limits.least:
        return say("Enter {limit} or more.", limit=limits.least)
    if limits.most is not None and number > limits.most:
        return say("Enter {limit} or less.", limit=limits.most)
    if limits.above is not None and number <= limits.above:
        return say("Enter more than {limit}.", limit=limits.above)
    if limits.below is not None and number >= limits.below:
        return say("Enter less than {limit}.", limit=limits.below)
    if limits.multiple is not None and isinstance(number, int) and number % limits.multiple:
        return say("Enter a multiple of {number}.", number=limits.multiple)
    return number


def _chosen(at: SchemaField, text: str) -> Any:
    if any(choice.value == text for choice in at.choices):
        return json.loads(text)
    return say("Choose one of the values.")


def _json(at: SchemaField, text: str) -> Any:
    found = read_json(text)
    return found if not isinstance(found, JsonFault) else found.message


@dataclass(frozen=True, slots=True)
class JsonFault:
    """Why a text is not JSON."""

    message: Message


def read_json(text: str) -> Any:
    """Return the value that a text of JSON has, or a JsonFault with line and column."""
    if len(text) > LONGEST_JSON:
        return JsonFault(say("This JSON is too long."))
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return JsonFault(
            say("This is not JSON: line {line}, column {column}.", line=error.lineno, column=error.colno)
        )
    except (ValueError, RecursionError):
        return JsonFault(say("This is not JSON that can be sent."))


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_PARSERS = {
    "text": _parsed_text,
    "integer": _parsed_integer,
    "number": _parsed_number,
    "choice": _chosen,
    "json": _json,
}


# -- from arguments to a form ------------------------------------------------------------------------


def _write(at: SchemaField, value: Any, found: dict[str, list[str]]) -> None:
    if value is None and at.nullable:
        found[f"e:{at.path}"] = ["null"]
    elif at.kind == "group" and isinstance(value, dict):
        _write_group(at, value, found)
    elif at.kind == "list" and isinstance(value, list):
        _write_list(at, value, found)
    elif at.kind == "variants":
        _write_variant(at, value, found)
    elif at.kind == "text" and isinstance(value, str):
        found[at.path] = [value]
        if not value:
            found[f"e:{at.path}"] = ['""']
    else:
        found[at.path] = [_written(at, value)]


def _written(at: SchemaField, value: Any) -> str:
    text = as_json(value)
    return json.dumps(value, ensure_ascii=False, indent=2) if at.kind == "json" and len(text) > 60 else text


def _write_group(at: SchemaField, value: dict[str, Any], found: dict[str, list[str]]) -> None:
    if is_optional(at):
        found[f"o:{at.path}"] = ["1"]
    fields = {each.key: each for each in at.fields}
    for key, part in value.items():
        if key in fields:
            _write(fields[key], part, found)
    others = {key: part for key, part in value.items() if key not in fields}
    if others:
        found[f"m:{at.path}"] = [json.dumps(others, ensure_ascii=False, indent=2)]


def _write_list(at: SchemaField, value: list[Any], found: dict[str, list[str]]) -> None:
    if not value:
        found[f"e:{at.path}"] = ["[]"]
        return
    found[f"i:{at.path}"] = [str(number) for number in range(min(len(value), MOST_ITEMS))]
    for number, part in enumerate(value[:MOST_ITEMS]):
        _write(_numbered(at.fields[0], f"{{{at.level}}}", str(number)), part, found)


def _write_variant(at: SchemaField, value: Any, found: dict[str, list[str]]) -> None:
    """Write a value as the first option that can show it; as the first one if none can."""
    chosen = next((number for number, option in enumerate(at.fields) if _fits(option, value)), 0)
    found[f"v:{at.path}"] = [str(chosen)]
    _write(at.fields[chosen], value, found)


def _fits(option: SchemaField, value: Any) -> bool:
    tried: dict[str, list[str]] = {}
    _write(option, value, tried)
    reader = _ValueReader(tried)
    read = reader.read(option)
    return not reader.errors and read is not _ABSENT and as_json(read) == as_json(_ordered_like(value, read))


# -- fields to show ----------------------------------------------------------------------------------


def filled(
    form: SchemaField, values: FormValues | None = None, errors: Mapping[str, Message] | None = None
) -> FilledField:
    """Return a form with its values and what is wrong with them, for a template."""
    return _filled(form, values or {}, errors or {})


def _filled(at: SchemaField, values: FormValues, errors: Mapping[str, Message]) -> FilledField:
    def first(name: str) -> str:
        return next(iter(values.get(name, ())), "")

    shown = FilledField(at, first(at.path), errors.get(at.path), explicit=first(f"e:{at.path}"))
    if at.kind == "list":
        items = tuple(_filled(each, values, errors) for each in _items(at, values))
        return replace(shown, fields=items, item=_filled(at.fields[0], {}, {}), mark=f"{{{at.level}}}")
    fields = tuple(_filled(each, values, errors) for each in at.fields)
    if at.kind == "variants":
        chosen = first(f"v:{at.path}")
        known = chosen.isdecimal() and len(chosen) < 4 and int(chosen) < len(fields)
        return replace(shown, fields=fields, chosen=int(chosen) if known else -1)
    if at.kind == "group":
        there = not is_optional(at) or first(f"o:{at.path}") == "1"
        others, wrong = first(f"m:{at.path}"), errors.get(f"m:{at.path}") or shown.error
        return replace(shown, fields=fields, others=others, error=wrong, there=there)
    return shown
