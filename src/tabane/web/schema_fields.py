"""Fields of a form, read from a JSON Schema; pure.

Whatever a schema says, reading it ends soon and never fails: a part that is not understood becomes a field
for JSON. A form has at most 200 fields, six levels deep. Members beyond that are written as JSON too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

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
                schema = _merged(schema, self._referenced(schema["$ref"]), "$ref")
            elif _only(schema.get("allOf")) is not None:
                schema = _merged(schema, _only(schema["allOf"]), "allOf")
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
                merged = _merged(schema, self._resolved(left[0]), name)
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
        if constants := _constants(schema):
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
        merged = [_merged(rest, self._resolved(option), "") for option in options]
        if not all(isinstance(option, dict) for option in merged):
            return _leaf(schema, place, "json")
        # Reserved before they are read: what is in the first option must not use up the others.
        self.left -= len(options)
        fields = tuple(
            _titled(self._reserved(option, place.variant(number)), given, number)
            for number, (option, given) in enumerate(zip(merged, options, strict=True))
        )
        return _leaf(schema, place, "variants", fields=fields)

    def _reserved(self, schema: object, place: _FieldPlace) -> SchemaField:
        self.left += 1
        return self.field(schema, place)

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
        limits = FieldLimits(
            shortest=_count(schema.get("minItems")) or 0, longest=_count(schema.get("maxItems"))
        )
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
                limits=FieldLimits(
                    shortest=_count(schema.get("minLength")) or 0, longest=_count(schema.get("maxLength"))
                ),
            )
        if kind == "integer" or kind == "number":
            return _leaf(schema, place, kind, limits=_number_limits(schema))
        if kind == "null":
            return _leaf(schema, place, "constant", choices=_choices([None]))
        return _leaf(schema, place, "json")


_SHAPING = frozenset(("type", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"))
_NOT_UNDERSTOOD = frozenset(
    ("allOf", "not", "if", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "dependentSchemas")
)


def _leaf(schema: JsonObject, place: _FieldPlace, kind: FieldKind, **more: Any) -> SchemaField:
    return SchemaField(
        path=place.path,
        key=place.key,
        kind=kind,
        label=_text(schema.get("title"), _LONGEST_LABEL) or place.key,
        hint=_text(schema.get("description"), _LONGEST_HINT),
        required=place.required,
        default=_default(schema),
        **more,
    )


def _titled(made: SchemaField, option: object, number: int) -> SchemaField:
    """Return an option under its own title; else under its type, or its number."""
    schema = option if isinstance(option, dict) else {}
    title = _text(schema.get("title"), _LONGEST_LABEL)
    if not title and isinstance(schema.get("$ref"), str):
        title = schema["$ref"].rpartition("/")[2][:_LONGEST_LABEL]
    if not title and made.kind == "constant" and made.choices:
        title = made.choices[0].label
    return replace(
        made,
        label=title or _kind_of(schema) or str(number + 1),
        hint=_text(schema.get("description"), _LONGEST_HINT),
    )


def _kind_of(schema: JsonObject) -> str:
    kind = schema.get("type")
    return kind[:_LONGEST_LABEL] if isinstance(kind, str) else ""


def _merged(schema: JsonObject, other: object, without: str) -> object:
    """Return what both schemas say, the first more than the second, with the members of both."""
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


def _only(parts: object) -> object:
    return parts[0] if isinstance(parts, list) and len(parts) == 1 else None


def _choices(values: Sequence[object]) -> tuple[FieldChoice, ...]:
    return tuple(FieldChoice(as_json(value), _label(value)) for value in values)


def _constants(schema: JsonObject) -> tuple[FieldChoice, ...]:
    """Return the choices of a schema whose options are all constants, under their titles."""
    options = schema.get("oneOf") or schema.get("anyOf")
    if not isinstance(options, list) or not 0 < len(options) <= MOST_CHOICES:
        return ()
    if not all(isinstance(option, dict) and option.keys() <= _TITLED for option in options):
        return ()
    if not all("const" in option for option in options):
        return ()
    return tuple(
        FieldChoice(
            as_json(option["const"]), _text(option.get("title"), _LONGEST_LABEL) or _label(option["const"])
        )
        for option in options
    )


_TITLED = frozenset(("const", "title", "description", "type"))


def _label(value: object) -> str:
    return _text(value if isinstance(value, str) else as_json(value), _LONGEST_LABEL) or as_json(value)


def as_json(value: object) -> str:
    """Return a value as JSON on one line, as :mod:`json` writes it."""
    return json.dumps(value, ensure_ascii=False)


def _default(schema: JsonObject) -> str:
    if "default" not in schema:
        return ""
    text = as_json(schema["default"])
    return text if len(text) <= _LONGEST_DEFAULT else ""


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _number_limits(schema: JsonObject) -> FieldLimits:
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    return FieldLimits(
        _number(schema.get("minimum")),
        _number(schema.get("maximum")),
        _number(above),
        _number(below),
        _multiple(schema.get("multipleOf")),
    )


def _number(value: object) -> float | None:
    return (
        value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else None
    )


def _multiple(value: object) -> int | None:
    """Return the whole number that a number has to be a multiple of. Fractions are left to the server."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 2**53 else None
