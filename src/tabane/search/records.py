"""Shapes of collections, records and their rules, and filters over them; pure.

A shape declares the texts that are searched and the fields for filters. A record consists of a key,
texts, fields, and a payload. The payload is returned byte for byte, and no engine reads it.

Filters: conditions on the fields and texts of records, as values. A condition is true or false for a
record, never unknown. If a field is absent, every condition on it is false, and its negation is true.
:func:`matches` is the reference. Engines may be faster, but must agree.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec
from msgspec import Struct, structs

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.analysis import substring_spelling

LONGEST_KEY = 1024  # bytes
LONGEST_STRING = 4096  # bytes of a field's string
MOST_STRINGS = 1000  # of a list
LONGEST_RECORD = 4_000_000  # bytes of texts, fields and payload together, as JSON
MOST_FIELDS = 64
LARGEST_DIMENSION = 8192
LONGEST_MODEL = 1024  # bytes of a fingerprint
EXACT = 2**53  # numbers are float64: whole ones are exact up to here

Scalar = str | int | float | bool
Value = str | int | float | bool | tuple[str, ...]


class Kind(Enum):
    """The type of a field, and how its values are compared.

    NUMBER is a finite float64. DATE is the same, in seconds since 1970 UTC. STRING compares by code
    point, exactly as given. STRINGS is a list, and matches if any of its elements does.
    """

    STRING = "string"
    NUMBER = "number"
    DATE = "date"
    BOOLEAN = "boolean"
    STRINGS = "strings"

    @property
    def numeric(self) -> bool:
        """Return whether values are numbers: a number or a date."""
        return self in (Kind.NUMBER, Kind.DATE)

    @property
    def textual(self) -> bool:
        """Return whether values are strings, or lists of them."""
        return self in (Kind.STRING, Kind.STRINGS)


class TextField(Struct, frozen=True):
    """A text that is searched. ``weight`` multiplies its part of the score."""

    name: str
    weight: float = 1.0


class Field(Struct, frozen=True):
    """A value that records may be filtered, ordered and counted by."""

    name: str
    kind: Kind


class EmbeddingSpace(Struct, frozen=True):
    """The space of vectors of one model for one purpose. A record has at most one vector in it.

    ``model`` is the fingerprint of the model that made the vectors, "" if it is unknown.
    """

    name: str
    dimension: int
    model: str = ""

    def takes(self, other: EmbeddingSpace) -> bool:
        """Return whether vectors for the other space fit into this one. A model that is not named fits."""
        return self.dimension == other.dimension and other.model in ("", self.model)

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension}, {self.model or '?'})"


@dataclass(frozen=True, slots=True)
class Shape:
    """The declaration of a collection. ``name`` is its name. All names are identifiers."""

    name: str
    texts: tuple[TextField, ...] = ()
    fields: tuple[Field, ...] = ()
    spaces: tuple[EmbeddingSpace, ...] = ()

    def __post_init__(self) -> None:
        members = [*(text.name for text in self.texts), *(field.name for field in self.fields)]
        for names in (members, [space.name for space in self.spaces]):
            if len(set(names)) < len(names):
                raise ValueError(f"a shape names each text, field and space once: {names}")
            valid = all(name.isidentifier() and name.isascii() for name in [self.name, *names])
            if not valid or len(names) > MOST_FIELDS:
                raise ValueError(f"the names in a shape are at most {MOST_FIELDS} ASCII identifiers: {names}")
        if not all(0 < space.dimension <= LARGEST_DIMENSION for space in self.spaces):
            raise ValueError(f"a space has 1 to {LARGEST_DIMENSION} dimensions")

    def holds_same(self, other: Shape) -> bool:
        """Return whether records of the other shape fit: all but the spaces is equal."""
        return (self.name, self.texts, self.fields) == (other.name, other.texts, other.fields)

    def space(self, name: str) -> EmbeddingSpace:
        """Return the space of that name. Raises :class:`BadArguments` with the names of all spaces."""
        for space in self.spaces:
            if space.name == name:
                return space
        raise BadArguments(
            say(
                "{collection} has no vectors {field}. Vectors: {known}",
                collection=self.name,
                field=name,
                known=", ".join(space.name for space in self.spaces) or "–",
            ),
            name,
        )

    def field(self, name: str) -> Field:
        """Return the field of that name. Raises :class:`BadArguments` with the names of all fields."""
        for field in self.fields:
            if field.name == name:
                return field
        raise BadArguments(
            say(
                "{collection} has no field {field}. Fields: {known}",
                collection=self.name,
                field=name,
                known=", ".join(field.name for field in self.fields) or "–",
            ),
            name,
        )

    def text_names(self, names: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the requested texts; None: all of them. Raises :class:`BadArguments` for an unknown one."""
        declared = tuple(text.name for text in self.texts)
        for name in names or ():
            if name not in declared:
                raise BadArguments(
                    say(
                        "{collection} has no text {field}. Texts: {known}",
                        collection=self.name,
                        field=name,
                        known=", ".join(declared) or "–",
                    ),
                    name,
                )
        return declared if names is None else names


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record that can be found: a post, a chunk of a document, a page.

    ``texts`` and ``fields`` may lack some that the shape declares. An absent field matches no condition.
    ``payload`` belongs to the caller, and is usually JSON. ``vectors``: space → float32, little-endian, of
    any length but zero, because cosines are compared. Vectors are stored with the record, but not returned
    with it, because they are several times as large as the rest.
    """

    key: str
    texts: dict[str, str] = {}
    fields: dict[str, Value] = {}
    payload: bytes = b""
    vectors: dict[str, bytes] = {}


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record in an engine. ``row`` is its dense number, which changes when the record is replaced.

    ``epoch`` changes when rows are numbered again. The pair of both never names another record.
    """

    record: Record
    row: int
    epoch: int = 0


def checked(
    record: Record, shape: Shape, fit: Callable[[bytes, EmbeddingSpace], bytes] | None = None
) -> Record:
    """Return the record in normal form. Raises :class:`BadArguments` that names the wrong part.

    The key is in NFC, whole numbers are int, lists are tuples. Fields that are None and empty texts are left
    out. Two records with the same meaning are equal afterwards. ``fit`` replaces :func:`checked_vector`.
    """
    fit = fit or checked_vector
    key = checked_key(record.key)
    shape.text_names(tuple(record.texts))
    texts = {name: encodable(text, name) for name, text in record.texts.items() if text}
    members: Mapping[str, object] = record.fields
    fields = {
        name: checked_value(value, shape.field(name)) for name, value in members.items() if value is not None
    }
    vectors = {name: fit(vector, shape.space(name)) for name, vector in record.vectors.items()}
    size = len(record.payload) + len(msgspec.json.encode((texts, fields)))
    if size > LONGEST_RECORD:
        message = say(
            "{key} has {size} {size:byte|bytes}, more than the limit of {most} for one record. Split "
            "its text into several",
            key=key,
            size=size,
            most=LONGEST_RECORD,
        )
        raise BadArguments(message, key)
    return Record(key=key, texts=texts, fields=fields, payload=record.payload, vectors=vectors)


def checked_key(key: str) -> str:
    """Return the key in NFC. Raises :class:`BadArguments` unless it has 1 to 1,024 bytes."""
    if not key.isascii():
        key = unicodedata.normalize("NFC", encodable(key, "key"))
    if not 0 < len(key.encode()) <= LONGEST_KEY:
        raise BadArguments(say("a key has 1 to {most} {most:byte|bytes}", most=LONGEST_KEY), "key")
    return key


def checked_vector(vector: bytes, space: EmbeddingSpace) -> bytes:
    """Return the vector. Raises BadArguments unless its length fits and its numbers are finite, not all 0."""
    numbers = array("f")
    if len(vector) == numbers.itemsize * space.dimension:
        numbers.frombytes(vector)
        if sys.byteorder == "big":
            numbers.byteswap()
        if 0 < math.hypot(*numbers) < math.inf:
            return bytes(vector)
    raise unfit_vector(space)


def unfit_vector(space: EmbeddingSpace) -> BadArguments:
    """Return the error for a vector of another length, or without a direction."""
    message = say(
        "{space} needs vectors of {dimension} finite numbers that are not all 0 (float32, little-endian)",
        space=space.name,
        dimension=space.dimension,
    )
    return BadArguments(message, space.name)


def checked_space(space: EmbeddingSpace) -> EmbeddingSpace:
    """Return the space. Raises :class:`BadArguments` if a collection cannot have it."""
    if not (space.name.isidentifier() and space.name.isascii()):
        raise BadArguments(say("a space name must be an ASCII identifier: {name}", name=space.name), "name")
    if not 0 < space.dimension <= LARGEST_DIMENSION:
        message = say("{field} must be {least} to {most}", field="dimension", least=1, most=LARGEST_DIMENSION)
        raise BadArguments(message, "dimension")
    if len(encodable(space.model, "model").encode()) > LONGEST_MODEL:
        wanted = say("a string of at most {most} {most:byte|bytes}", most=LONGEST_MODEL)
        raise BadArguments(say("{field} must be {wanted}", field="model", wanted=wanted), "model")
    return space


def checked_value(value: object, field: Field) -> Value:
    """Return a field's value in normal form. Raises :class:`BadArguments` that names field and kind."""
    if field.kind is Kind.STRINGS:
        if not isinstance(value, list | tuple) or len(value) > MOST_STRINGS:
            raise _unfit_value(
                field, say("a list of at most {most} {most:string|strings}", most=MOST_STRINGS)
            )
        return tuple(_checked_string(element, field) for element in value)
    return checked_scalar(value, field)


def checked_scalar(value: object, field: Field) -> Scalar:
    """Return the value that a condition compares with. For a list, it is one element."""
    if field.kind.textual:
        return _checked_string(value, field)
    if field.kind is Kind.BOOLEAN:
        if not isinstance(value, bool):
            raise _unfit_value(field, say("true or false"))
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        wanted = say("seconds since 1970") if field.kind is Kind.DATE else say("a finite number")
        raise _unfit_value(field, wanted)
    if abs(value) > EXACT and isinstance(value, int):
        # A rounded id would find another record.
        raise _unfit_value(field, say("a number up to 2**53; longer ids are strings"))
    return int(value) if value == int(value) and abs(value) <= EXACT else float(value)


def _checked_string(value: object, field: Field) -> str:
    if not isinstance(value, str) or len(encodable(value, field.name).encode()) > LONGEST_STRING:
        raise _unfit_value(field, say("a string of at most {most} {most:byte|bytes}", most=LONGEST_STRING))
    return value


def _unfit_value(field: Field, rule: object) -> BadArguments:
    return BadArguments(say("{field} must be {wanted}", field=field.name, wanted=rule), field.name)


def encodable(text: str, name: str) -> str:
    """Return the text. Raises BadArguments if it has half a surrogate pair, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadArguments(say("{field} contains half of a surrogate pair", field=name), name) from None
    return text


DEEPEST = 32
MOST_VALUES = 100_000  # values and conditions of one filter together
LONGEST_NEEDLE = 1000  # characters


class Everything(Struct, frozen=True):
    """True for every record."""


class Equal(Struct, frozen=True):
    """The field has this value. A list has it as an element."""

    field: str
    value: Scalar


class In(Struct, frozen=True):
    """The field has one of these values. Without values, it is true for no record."""

    field: str
    values: tuple[Scalar, ...]


class Range(Struct, frozen=True):
    """The value is between the bounds, which are included by default. None is no bound.

    Strings are in order of code points. Without bounds, the field must exist. Not for booleans.
    """

    field: str
    low: str | int | float | None = None
    high: str | int | float | None = None
    include_low: bool = True
    include_high: bool = True


class Prefix(Struct, frozen=True):
    """The string begins with this text, exactly as given."""

    field: str
    text: str


class Contains(Struct, frozen=True):
    """One of the texts contains these characters. Case and width are ignored.

    Hiragana and katakana are different. ``fields`` names texts; None: all of them.
    """

    text: str
    fields: tuple[str, ...] | None = None


class Not(Struct, frozen=True):
    """True if the other filter is false."""

    of: Filter


class And(Struct, frozen=True):
    """True if all filters are. Without filters, it is true for every record."""

    of: tuple[Filter, ...]


class Or(Struct, frozen=True):
    """True if any filter is. Without filters, it is true for no record."""

    of: tuple[Filter, ...]


Filter = Everything | Equal | In | Range | Prefix | Contains | Not | And | Or
Condition = Equal | In | Range | Prefix

EVERYTHING = Everything()
NOTHING = Not(EVERYTHING)


def matches(where: Filter, record: Record) -> bool:
    """Return whether the record matches. ``where`` is a result of :func:`checked`."""
    match where:
        case Everything():
            return True
        case Not(of):
            return not matches(of, record)
        case And(of):
            return all(matches(each, record) for each in of)
        case Or(of):
            return any(matches(each, record) for each in of)
        case Contains(text, fields):
            names = record.texts if fields is None else fields
            return contains((record.texts.get(name, "") for name in names), substring_spelling(text))
        case _:
            return any(_meets(where, value) for value in values_of(record, where.field))


def contains(texts: Iterable[str], needle: str) -> bool:
    """Return whether one of the texts contains the needle, which is already normalized."""
    return any(needle in substring_spelling(text) for text in texts)


def values_of(record: Record, field: str) -> tuple[Scalar, ...]:
    """Return the values of a field: none if it is absent, all elements of a list."""
    value = record.fields.get(field)
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def _meets(condition: Condition, value: Scalar) -> bool:
    match condition:
        case Equal(_, wanted):
            return value == wanted
        case In(_, wanted_values):
            return value in wanted_values
        case Prefix(_, text):
            return isinstance(value, str) and value.startswith(text)
        case Range(_, low, high, include_low, include_high):
            above = low is None or value > low or (include_low and value == low)  # type: ignore[operator]
            below = high is None or value < high or (include_high and value == high)  # type: ignore[operator]
            return above and below


def checked_filter(where: Filter, shape: Shape) -> Filter:
    """Return the filter in normal form. Raises :class:`BadArguments` that names the field and its type.

    Values are in the normal form of records. The depth is at most 32, with at most 100,000 values.
    """
    depth, level, size = 0, [where], 0
    while level:
        depth += 1
        size += sum(len(each.values) if isinstance(each, In) else 1 for each in level)
        if depth > DEEPEST:
            raise BadArguments(
                say("a filter is at most {most} {most:level|levels} deep", most=DEEPEST), "filter"
            )
        if size > MOST_VALUES:
            raise BadArguments(
                say("a filter has at most {most} {most:value|values}", most=MOST_VALUES), "filter"
            )
        level = [part for each in level for part in parts(each)]
    return normal(_fitted(where, shape))


def parts(where: Filter) -> tuple[Filter, ...]:
    """Return the filters inside this one, none if it is a condition."""
    if isinstance(where, Not):
        return (where.of,)
    return where.of if isinstance(where, And | Or) else ()


def unconditional(where: Filter) -> bool:
    """Return whether the filter is obviously true for every record."""
    return isinstance(where, Everything) or (isinstance(where, And) and all(map(unconditional, where.of)))


def leaves(where: Filter) -> Iterator[Filter]:
    """Yield the conditions in a filter, from the left."""
    inside = parts(where)
    if not inside and not isinstance(where, And | Or):
        yield where
    for part in inside:
        yield from leaves(part)


def _fitted(where: Filter, shape: Shape) -> Filter:
    match where:
        case Everything():
            return where
        case Not(of):
            return Not(_fitted(of, shape))
        case And(of):
            return And(tuple(_fitted(each, shape) for each in of))
        case Or(of):
            return Or(tuple(_fitted(each, shape) for each in of))
        case Contains():
            if not substring_spelling(encodable(where.text, "contains")) or len(where.text) > LONGEST_NEEDLE:
                message = say(
                    "the text to contain must have 1 to {most} {most:character|characters}",
                    most=LONGEST_NEEDLE,
                )
                raise BadArguments(message, "contains")
            return Contains(where.text, where.fields and shape.text_names(where.fields))
        case _:
            return _fitted_condition(where, shape.field(where.field))


def _fitted_condition(where: Condition, field: Field) -> Condition:
    match where:
        case Equal():
            return structs.replace(where, value=checked_scalar(where.value, field))
        case In():
            return structs.replace(
                where, values=tuple(checked_scalar(value, field) for value in where.values)
            )
        case Prefix():
            if not field.kind.textual:
                raise _unfit_condition(field, "prefix")
            return structs.replace(where, text=str(checked_scalar(where.text, field)))
        case Range():
            if field.kind is Kind.BOOLEAN:
                raise _unfit_condition(field, "range")
            return structs.replace(
                where, low=_checked_bound(where.low, field), high=_checked_bound(where.high, field)
            )


def _checked_bound(value: str | int | float | None, field: Field) -> str | int | float | None:
    return None if value is None else checked_scalar(value, field)


def _unfit_condition(field: Field, condition: str) -> BadArguments:
    return BadArguments(
        say(
            "{field} is of type {kind}, so the condition {condition} cannot be used",
            field=field.name,
            kind=field.kind.value,
            condition=condition,
        ),
        field.name,
    )


def normal(where: Filter) -> Filter:
    """Return the same filter in its simplest form, which caches and engines compare.

    And in And and Or in Or become one level. Double negation and parts that are always or never true are
    removed. A set of one value becomes an equality. Sets have each value once, in the given order.
    """
    match where:
        case Not(of):
            inner = normal(of)
            return inner.of if isinstance(inner, Not) else Not(inner)
        case And(of):
            return _join_filters(of, And, EVERYTHING, NOTHING)
        case Or(of):
            return _join_filters(of, Or, NOTHING, EVERYTHING)
        case In(field, values):
            values = tuple(dict.fromkeys(values))
            if len(values) == 1:
                return Equal(field, values[0])
            return In(field, values) if values else NOTHING
        case _:
            return where


def _join_filters(
    of: tuple[Filter, ...], join: type[And] | type[Or], neutral: Filter, absorbing: Filter
) -> Filter:
    joined: dict[Filter, None] = {}
    for each in map(normal, of):
        if isinstance(each, join):
            joined |= dict.fromkeys(each.of)
        elif each != neutral:
            joined[each] = None
    if absorbing in joined:
        return absorbing
    if len(joined) == 1:
        return next(iter(joined))
    return join(tuple(joined)) if joined else neutral
