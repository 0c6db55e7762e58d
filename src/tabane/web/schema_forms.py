"""Forms for a tool's arguments: fields from a JSON schema, and values between fields and arguments; pure.

A value is a text under the path of its field. Beside it there are names for what a text cannot say:
``i:PATH`` has the numbers of the items of a list, ``v:PATH`` the number of the chosen option, ``o:PATH`` is
``1`` if an optional object is there, ``m:PATH`` has the other members of an object as JSON, and ``e:PATH``
is an explicit ``""``, ``[]`` or ``null``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tabane.messages import Message, say

MOST_FIELDS = 200
DEEPEST = 6
MOST_CHOICES = 200
MOST_VARIANTS = 20

_MOST_REFERENCES = 20
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9{}]")
_LONGEST_HINT = 600
_LONGEST_LABEL = 120
_LONGEST_DEFAULT = 20_000

FieldKind = Literal["text", "integer", "number", "choice", "constant", "group", "list", "variants", "json"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """One of the values that a field may have: as JSON, and as a person reads it."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class FieldLimits:
    """The limits of a number, a text or a list. ``above`` and ``below`` are not included themselves."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    multiple: int | None = None
    shortest: int = 0
    longest: int | None = None


_UNLIMITED = FieldLimits()


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a form.

    ``path`` is its name in the form, unique there. A part ``{0}`` of it is the number of an item of a list,
    ``{1}`` that of a list in this list. ``key`` is the name of the member; empty for an item and for the
    whole. ``format`` is that of a text (date, email …). ``choices`` are the allowed values, of a constant its
    only one. ``default`` is JSON; empty without one. ``fields`` are the members of a group, the options of
    variants, or the one item of a list. ``open``: a group takes other members too. A group has them as JSON.
    ``unique``: a list has no item twice.
    """

    path: str
    key: str
    kind: FieldKind
    label: str = ""
    hint: str = ""
    required: bool = False
    nullable: bool = False
    format: str = ""
    pattern: str = ""
    default: str = ""
    choices: tuple[FieldChoice, ...] = ()
    limits: FieldLimits = _UNLIMITED
    fields: tuple[SchemaField, ...] = ()
    open: bool = False
    unique: bool = False
    level: int = 0

    @property
    def id(self) -> str:
        """Return the path as an id of HTML. The marks of lists stay."""
        return "a" + _NOT_IN_IDS.sub(lambda found: f"_{ord(found[0]):x}_", self.path)


def read_schema(schema: object) -> SchemaField:
    """Return the whole form of a tool's arguments: a group, variants of groups, or a field for JSON."""
    root = schema if isinstance(schema, dict) else {}
    untyped = not root.keys() & _SHAPING
    return _SchemaReader(root).field(
        {**root, "type": "object"} if untyped else root, _FieldPlace(required=True)
    )


def escaped(key: str) -> str:
    """Return a name as a part of a path: without slashes and braces, which have a meaning there."""
    return key.replace("~", "~0").replace("/", "~1").replace("{", "~2")


@dataclass(frozen=True, slots=True)
class _FieldPlace:
    """The place of a field: its path, its name, its depth, and the number of lists around it."""

    path: str = ""
    key: str = ""
    required: bool = False
    depth: int = 0
    lists: int = 0

    def member(self, key: str, required: bool) -> _FieldPlace:
        return _FieldPlace(f"{self.path}/{escaped(key)}", key, required, self.depth + 1, self.lists)

    def item(self) -> _FieldPlace:
        return _FieldPlace(f"{self.path}/{{{self.lists}}}", "", True, self.depth + 1, self.lists + 1)

    def variant(self, number: int) -> _FieldPlace:
        return _FieldPlace(f"{self.path}/~v{number}", "", True, self.depth + 1, self.lists)


@dataclass(slots=True)
class _SchemaReader:
    """Reads the fields of one schema. ``left`` is the number of fields that it may still have."""

    root: JsonObject
    left: int = MOST_FIELDS

    def field(self, schema: object, place: _FieldPlace) -> SchemaField:
        self.left -= 1
        found = self._resolved(schema)
        if found is None or place.depth > DEEPEST:
            return _leaf(found or (schema if isinstance(schema, dict) else {}), place, "json")
        nullable, found = self._without_null(found)
        made = self._valued(found, place) or self._structured(found, place) or self._scalar(found, place)
        return replace(made, nullable=nullable) if nullable else made

    # -- what a schema is ------------------------------------------------------------------------

    def _resolved(self, schema: object) -> JsonObject | None:
        """Return a schema without reference and without a single allOf; None if that is impossible."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, dict):
                return None
            if isinstance(schema.get("$ref"), str):
                schema = _merge_schemas(schema, self._referenced(schema["$ref"]), "$ref")
            elif _single_part(schema.get("allOf")) is not None:
                schema = _merge_schemas(schema, _single_part(schema["allOf"]), "allOf")
            else:
                return None if schema.keys() & _NOT_UNDERSTOOD else schema
        return None

    def _referenced(self, reference: str) -> object:
        if not reference.startswith("#"):
            return None
        found: object = self.root
        for part in reference.lstrip("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def _without_null(self, schema: JsonObject) -> tuple[bool, JsonObject]:
        """Return whether null is allowed beside something else, and the schema without it."""
        kinds = schema.get("type")
        if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1:
            left = [kind for kind in kinds if kind != "null"]
            return True, {**schema, "type": left[0] if len(left) == 1 else left}
        for name in ("anyOf", "oneOf"):
            options = schema.get(name)
            if isinstance(options, list) and {"type": "null"} in options and len(options) > 1:
                left = [option for option in options if option != {"type": "null"}]
                if len(left) > 1:
                    return True, {**schema, name: left}
                merged = _merge_schemas(schema, self._resolved(left[0]), name)
                return (True, merged) if isinstance(merged, dict) else (False, schema)
        return False, schema

    # -- fields ----------------------------------------------------------------------------------

    def _valued(self, schema: JsonObject, place: _FieldPlace) -> SchemaField | None:
        """Return the field of a schema that names its values: a constant, or a choice."""
        if "const" in schema:
            kind: FieldKind = "constant" if place.required else "choice"
            return _leaf(schema, place, kind, choices=_choices([schema["const"]]))
        values = schema.get("enum")
        if isinstance(values, list) and 0 < len(values) <= MOST_CHOICES:
            return _leaf(schema, place, "choice", choices=_choices(values))
        if isinstance(values, list):
            return _leaf(schema, place, "json")
        if constants := _constant_choices(schema):
            return _leaf(schema, place, "choice", choices=constants)
        if schema.get("type") == "boolean":
            return _leaf(schema, place, "choice", choices=_choices([True, False]))
        return None

    def _structured(self, schema: JsonObject, place: _FieldPlace) -> SchemaField | None:
        options = schema.get("oneOf") or schema.get("anyOf")
        if isinstance(options, list) and options:
            return self._variants(schema, options, place)
        if isinstance(schema.get("type"), list):
            kinds = [{**schema, "type": kind} for kind in schema["type"]]
            return self._variants(schema, kinds, place)
        if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
            return self._group(schema, place)
        if schema.get("type") == "array":
            return self._list(schema, place)
        return None

    def _variants(self, schema: JsonObject, options: Sequence[object], place: _FieldPlace) -> SchemaField:
        if not 0 < len(options) <= min(MOST_VARIANTS, self.left):
            return _leaf(schema, place, "json")
        rest = {key: value for key, value in schema.items() if key not in ("oneOf", "anyOf", "default")}
        merged = [_merge_schemas(rest, self._resolved(option), "") for option in options]
        if not all(isinstance(option, dict) for option in merged):
            return _leaf(schema, place, "json")
        # All are reserved before the first is read, whose fields must not use up those of the others.
        self.left -= len(options)
        fields = []
        for number, (option, given) in enumerate(zip(merged, options, strict=True)):
            self.left += 1
            fields.append(_with_title(self.field(option, place.variant(number)), given, number))
        return _leaf(schema, place, "variants", fields=tuple(fields))

    def _group(self, schema: JsonObject, place: _FieldPlace) -> SchemaField:
        properties = schema.get("properties")
        named = properties if isinstance(properties, dict) else {}
        given = schema.get("required")
        required = [key for key in given if isinstance(key, str)] if isinstance(given, list) else []
        others = schema.get("additionalProperties") not in (None, False) or bool(
            schema.get("patternProperties")
        )
        if not named and place.depth:
            return _leaf(schema, place, "json")
        fields = tuple(self._members(named, frozenset(required), place))
        left_out = len(fields) < len(named) or not set(required) <= set(named)
        return _leaf(schema, place, "group", fields=fields, open=others or left_out)

    def _members(
        self, named: Mapping[str, Any], required: frozenset[str], place: _FieldPlace
    ) -> Iterator[SchemaField]:
        for key in sorted(named, key=lambda key: key not in required):
            if self.left <= 0:
                return
            yield self.field(named[key], place.member(key, key in required))

    def _list(self, schema: JsonObject, place: _FieldPlace) -> SchemaField:
        items = schema.get("items")
        if not isinstance(items, dict) or not items or "prefixItems" in schema or self.left <= 0:
            return _leaf(schema, place, "json")
        item = self.field(items, place.item())
        limits = _length_limits(schema, "minItems", "maxItems")
        unique = schema.get("uniqueItems") is True
        return _leaf(schema, place, "list", fields=(item,), limits=limits, unique=unique, level=place.lists)

    def _scalar(self, schema: JsonObject, place: _FieldPlace) -> SchemaField:
        kind = schema.get("type")
        if kind == "string":
            text, pattern = schema.get("format"), schema.get("pattern")
            return _leaf(
                schema,
                place,
                "text",
                format=text if isinstance(text, str) else "",
                pattern=pattern[:_LONGEST_LABEL] if isinstance(pattern, str) else "",
                limits=_length_limits(schema, "minLength", "maxLength"),
            )
        if kind == "integer" or kind == "number":
            multiple = schema.get("multipleOf")  # fractions are left to the server
            is_whole = isinstance(multiple, int) and not isinstance(multiple, bool) and multiple > 0
            limits = FieldLimits(
                _number(schema.get("minimum")),
                _number(schema.get("maximum")),
                _number(schema.get("exclusiveMinimum")),
                _number(schema.get("exclusiveMaximum")),
                multiple if is_whole else None,
            )
            return _leaf(schema, place, kind, limits=limits)
        if kind == "null":
            return _leaf(schema, place, "constant", choices=_choices([None]))
        return _leaf(schema, place, "json")


_SHAPING = frozenset(("type", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"))
_NOT_UNDERSTOOD = frozenset(
    ("allOf", "not", "if", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "dependentSchemas")
)


def _leaf(schema: JsonObject, place: _FieldPlace, kind: FieldKind, **more: Any) -> SchemaField:
    default = as_json(schema["default"]) if "default" in schema else ""
    return SchemaField(
        path=place.path,
        key=place.key,
        kind=kind,
        label=_cut_text(schema.get("title"), _LONGEST_LABEL) or place.key,
        hint=_cut_text(schema.get("description"), _LONGEST_HINT),
        required=place.required,
        default=default if len(default) <= _LONGEST_DEFAULT else "",
        **more,
    )


def _with_title(made: SchemaField, option: object, number: int) -> SchemaField:
    """Return an option under its own title; else under its type, or its number."""
    schema = option if isinstance(option, dict) else {}
    title = _cut_text(schema.get("title"), _LONGEST_LABEL)
    if not title and isinstance(schema.get("$ref"), str):
        title = schema["$ref"].rpartition("/")[2][:_LONGEST_LABEL]
    if not title and made.kind == "constant" and made.choices:
        title = made.choices[0].label
    kind = schema.get("type")
    title = title or (kind[:_LONGEST_LABEL] if isinstance(kind, str) else "")
    return replace(
        made,
        label=title or str(number + 1),
        hint=_cut_text(schema.get("description"), _LONGEST_HINT),
    )


def _merge_schemas(schema: JsonObject, other: object, without: str) -> object:
    """Return both schemas as one. The first one has precedence."""
    if not isinstance(other, dict):
        return None
    own = {key: value for key, value in schema.items() if key != without}
    merged = {**other, **own}
    for key in ("properties", "$defs"):
        if isinstance(own.get(key), dict) and isinstance(other.get(key), dict):
            merged[key] = {**other[key], **own[key]}
    if isinstance(own.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*own["required"], *other["required"]]
    return merged


def _single_part(parts: object) -> object:
    return parts[0] if isinstance(parts, list) and len(parts) == 1 else None


def _choices(values: Sequence[object]) -> tuple[FieldChoice, ...]:
    return tuple(FieldChoice(as_json(value), _value_label(value)) for value in values)


def _constant_choices(schema: JsonObject) -> tuple[FieldChoice, ...]:
    """Return the choices of a schema whose options are all constants, under their titles."""
    options = schema.get("oneOf") or schema.get("anyOf")
    if not isinstance(options, list) or not 0 < len(options) <= MOST_CHOICES:
        return ()
    if not all(isinstance(option, dict) and option.keys() <= _TITLED for option in options):
        return ()
    if not all("const" in option for option in options):
        return ()
    titles = (_cut_text(option.get("title"), _LONGEST_LABEL) for option in options)
    return tuple(
        FieldChoice(as_json(option["const"]), title or _value_label(option["const"]))
        for option, title in zip(options, titles, strict=True)
    )


_TITLED = frozenset(("const", "title", "description", "type"))


def _value_label(value: object) -> str:
    return _cut_text(value if isinstance(value, str) else as_json(value), _LONGEST_LABEL) or as_json(value)


def as_json(value: object) -> str:
    """Return a value as JSON on one line, as :mod:`json` writes it."""
    return json.dumps(value, ensure_ascii=False)


def _cut_text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _number(value: object) -> float | None:
    return (
        value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else None
    )


def _length_limits(schema: JsonObject, shortest: str, longest: str) -> FieldLimits:
    return FieldLimits(
        shortest=_read_count(schema.get(shortest)) or 0, longest=_read_count(schema.get(longest))
    )


def _read_count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 2**53 else None


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
    """Return the arguments of a form, with an error for each field that is wrong."""
    reader = _ValueReader(values)
    found = reader.read(form)
    if not isinstance(found, dict):
        if not isinstance(found, _Absent) and not reader.errors:
            reader.errors[form.path] = say("The arguments must be a JSON object.")
        found = {}
    return FormArguments(found, reader.errors)


def values_of(form: SchemaField, arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the values of a form for these arguments, as far as it can hold them."""
    found: dict[str, list[str]] = {}
    _write_value(form, dict(arguments), found)
    return found


def shows(form: SchemaField, arguments: Mapping[str, Any]) -> bool:
    """Return whether a form can show these arguments without a loss."""
    read = arguments_of(form, values_of(form, arguments))
    text = as_json(read.arguments)
    # A browser changes line ends in a field. A backslash that is escaped itself begins no escape.
    changes = "\\r" in text.replace("\\\\", "")
    return not read.errors and not changes and text == as_json(_in_same_order(arguments, read.arguments))


def _in_same_order(value: Any, other: Any) -> Any:
    """Return a value with the members of objects in the order of another value: that has no meaning."""
    if isinstance(value, dict) and isinstance(other, dict) and value.keys() == other.keys():
        return {key: _in_same_order(value[key], other[key]) for key in other}
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [_in_same_order(part, same) for part, same in zip(value, other, strict=True)]
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
                chosen = self._first(f"v:{at.path}")
                if not chosen.isdecimal() or int(chosen) >= len(at.fields):
                    return self._empty_value(at)
                return self.read(at.fields[int(chosen)])
            case "constant":
                return json.loads(at.choices[0].value)
        text = self._first(at.path)
        if text == "":
            return self._empty_value(at)
        found = _PARSERS[at.kind](at, text)
        if isinstance(found, Message):
            self.errors[at.path] = found
            return _ABSENT
        return found

    def _first(self, path: str) -> str:
        return next(iter(self.values.get(path, ())), "")

    def _empty_value(self, at: SchemaField) -> Any:
        """Return the value of an empty field. Records an error if it must have one."""
        explicit = self._first(f"e:{at.path}")
        if at.nullable if explicit == "null" else explicit in _KINDS and at.kind == _KINDS[explicit]:
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
        if is_optional(at) and self._first(f"o:{at.path}") != "1":
            return self._empty_value(at)
        found = {each.key: value for each in at.fields if (value := self.read(each)) is not _ABSENT}
        return found | self._others(at)

    def _others(self, at: SchemaField) -> dict[str, Any]:
        text = self._first(f"m:{at.path}")
        if not text.strip():
            return {}
        found = _parse_json(at, text)
        if isinstance(found, dict):
            taken = [each.key for each in at.fields if each.key in found]
            if not taken:
                return found
            found = say("{name} has a field of its own.", name=taken[0])
        self.errors[f"m:{at.path}"] = found if isinstance(found, Message) else say("Enter a JSON object.")
        return {}

    def _list(self, at: SchemaField) -> Any:
        items = list(_list_items(at, self.values))
        if not items:
            return self._empty_value(at)
        if not at.limits.shortest <= len(items) <= (at.limits.longest or MOST_ITEMS):
            self.errors[at.path] = _count_error(at)
        return [value for each in items if (value := self.read(each)) is not _ABSENT]


def is_optional(at: SchemaField) -> bool:
    """Return whether an object may be left out, so that a person has to say whether it is there."""
    return at.kind == "group" and (not at.required or at.nullable)


def _list_items(at: SchemaField, values: FormValues) -> Iterator[SchemaField]:
    """Return the items of a list, with their numbers in the paths."""
    numbers = [number for number in values.get(f"i:{at.path}", ()) if number.isdecimal() and len(number) < 6]
    for number in dict.fromkeys(numbers[:MOST_ITEMS]):
        yield _with_number(at.fields[0], f"{{{at.level}}}", number)


def _with_number(at: SchemaField, mark: str, number: str) -> SchemaField:
    path = "/".join(number if part == mark else part for part in at.path.split("/"))
    return replace(at, path=path, fields=tuple(_with_number(each, mark, number) for each in at.fields))


def _count_error(at: SchemaField) -> Message:
    if at.limits.longest is None:
        return say("Enter at least {count} {count:item|items}.", count=at.limits.shortest)
    return say(
        "Enter {shortest} to {longest} {longest:item|items}.",
        shortest=at.limits.shortest,
        longest=at.limits.longest,
    )


def _parse_text(at: SchemaField, text: str) -> str | Message:
    if len(text) < at.limits.shortest:
        return say("Enter at least {count} {count:character|characters}.", count=at.limits.shortest)
    if at.limits.longest is not None and len(text) > at.limits.longest:
        return say("Enter at most {count} {count:character|characters}.", count=at.limits.longest)
    return text


def _parse_integer(at: SchemaField, text: str) -> Any:
    if not _INTEGER.fullmatch(text.strip()):
        return say("Enter a whole number.")
    return _within_limits(at, int(text))


def _parse_number(at: SchemaField, text: str) -> Any:
    if not _NUMBER.fullmatch(text.strip()):
        return say("Enter a number.")
    if _INTEGER.fullmatch(text.strip()):
        return _within_limits(at, int(text))
    number = float(text)
    return _within_limits(at, number) if math.isfinite(number) else say("Enter a number.")


def _within_limits(at: SchemaField, number: Any) -> Any:
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


def _parse_choice(at: SchemaField, text: str) -> Any:
    if any(choice.value == text for choice in at.choices):
        return json.loads(text)
    return say("Choose one of the values.")


def _parse_json(at: SchemaField, text: str) -> Any:
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
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return JsonFault(
            say("This is not JSON: line {line}, column {column}.", line=error.lineno, column=error.colno)
        )
    except (ValueError, RecursionError):
        return JsonFault(say("This is not JSON that can be sent."))


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_PARSERS = {
    "text": _parse_text,
    "integer": _parse_integer,
    "number": _parse_number,
    "choice": _parse_choice,
    "json": _parse_json,
}


# -- from arguments to a form ------------------------------------------------------------------------


def _write_value(at: SchemaField, value: Any, found: dict[str, list[str]]) -> None:
    if value is None and at.nullable:
        found[f"e:{at.path}"] = ["null"]
    elif at.kind == "group" and isinstance(value, dict):
        _write_group(at, value, found)
    elif at.kind == "list" and isinstance(value, list):
        _write_list(at, value, found)
    elif at.kind == "variants":
        # The first option that can show the value, or the first one if none can.
        chosen = next((number for number, option in enumerate(at.fields) if _can_show(option, value)), 0)
        found[f"v:{at.path}"] = [str(chosen)]
        _write_value(at.fields[chosen], value, found)
    elif at.kind == "text" and isinstance(value, str):
        found[at.path] = [value]
        if not value:
            found[f"e:{at.path}"] = ['""']
    else:
        text = as_json(value)
        if at.kind == "json" and len(text) > 60:
            text = json.dumps(value, ensure_ascii=False, indent=2)
        found[at.path] = [text]


def _write_group(at: SchemaField, value: dict[str, Any], found: dict[str, list[str]]) -> None:
    if is_optional(at):
        found[f"o:{at.path}"] = ["1"]
    fields = {each.key: each for each in at.fields}
    for key, part in value.items():
        if key in fields:
            _write_value(fields[key], part, found)
    others = {key: part for key, part in value.items() if key not in fields}
    if others:
        found[f"m:{at.path}"] = [json.dumps(others, ensure_ascii=False, indent=2)]


def _write_list(at: SchemaField, value: list[Any], found: dict[str, list[str]]) -> None:
    if not value:
        found[f"e:{at.path}"] = ["[]"]
        return
    found[f"i:{at.path}"] = [str(number) for number in range(min(len(value), MOST_ITEMS))]
    for number, part in enumerate(value[:MOST_ITEMS]):
        _write_value(_with_number(at.fields[0], f"{{{at.level}}}", str(number)), part, found)


def _can_show(option: SchemaField, value: Any) -> bool:
    tried: dict[str, list[str]] = {}
    _write_value(option, value, tried)
    reader = _ValueReader(tried)
    read = reader.read(option)
    return not reader.errors and read is not _ABSENT and as_json(read) == as_json(_in_same_order(value, read))


# -- fields to show ----------------------------------------------------------------------------------


def filled(
    form: SchemaField, values: FormValues | None = None, errors: Mapping[str, Message] | None = None
) -> FilledField:
    """Return a form with its values and what is wrong with them, for a template."""
    return _filled_field(form, values or {}, errors or {})


def _filled_field(at: SchemaField, values: FormValues, errors: Mapping[str, Message]) -> FilledField:
    def first(name: str) -> str:
        return next(iter(values.get(name, ())), "")

    shown = FilledField(at, first(at.path), errors.get(at.path), explicit=first(f"e:{at.path}"))
    if at.kind == "list":
        items = tuple(_filled_field(each, values, errors) for each in _list_items(at, values))
        return replace(shown, fields=items, item=_filled_field(at.fields[0], {}, {}), mark=f"{{{at.level}}}")
    fields = tuple(_filled_field(each, values, errors) for each in at.fields)
    if at.kind == "variants":
        chosen = first(f"v:{at.path}")
        known = chosen.isdecimal() and len(chosen) < 4 and int(chosen) < len(fields)
        return replace(shown, fields=fields, chosen=int(chosen) if known else -1)
    if at.kind == "group":
        there = not is_optional(at) or first(f"o:{at.path}") == "1"
        others, wrong = first(f"m:{at.path}"), errors.get(f"m:{at.path}") or shown.error
        return replace(shown, fields=fields, others=others, error=wrong, there=there)
    return shown
