"""Shapes of collections, records, and the rules for a record; pure.

A shape declares the texts that are searched and the fields for filters. A record consists of a key, texts,
fields, and a payload. The payload is returned byte for byte, and no engine reads it.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec
from msgspec import Struct

from tabane.errors import BadArguments
from tabane.messages import say

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
        return self in (Kind.NUMBER, Kind.DATE)

    @property
    def textual(self) -> bool:
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
        self._check_spaces()
        names = [self.name, *(text.name for text in self.texts), *(field.name for field in self.fields)]
        if not all(name.isidentifier() and name.isascii() for name in names) or len(names) > MOST_FIELDS:
            raise ValueError(f"a shape's names are at most {MOST_FIELDS} ASCII identifiers: {names}")
        if len(set(names[1:])) < len(names) - 1:
            raise ValueError(f"a shape names each text and field once: {names[1:]}")

    def _check_spaces(self) -> None:
        names = [space.name for space in self.spaces]
        if not all(name.isidentifier() and name.isascii() for name in names) or len(names) > MOST_FIELDS:
            raise ValueError(f"spaces have at most {MOST_FIELDS} names, ASCII identifiers: {names}")
        if len(set(names)) < len(names):
            raise ValueError(f"a shape names each space once: {names}")
        if not all(0 < space.dimension <= LARGEST_DIMENSION for space in self.spaces):
            raise ValueError(f"a space has 1 to {LARGEST_DIMENSION} dimensions")

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
        known = tuple(text.name for text in self.texts)
        for name in names or ():
            if name not in known:
                raise BadArguments(
                    say(
                        "{collection} has no text {field}. Texts: {known}",
                        collection=self.name,
                        field=name,
                        known=", ".join(known) or "–",
                    ),
                    name,
                )
        return known if names is None else names


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
    given: Mapping[str, object] = record.fields
    fields = {
        name: checked_value(value, shape.field(name)) for name, value in given.items() if value is not None
    }
    vectors = {name: fit(vector, shape.space(name)) for name, vector in record.vectors.items()}
    whole = Record(key=key, texts=texts, fields=fields, payload=record.payload, vectors=vectors)
    _check_size(whole)
    return whole


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
            raise _unfit(field, say("a list of at most {most} {most:string|strings}", most=MOST_STRINGS))
        return tuple(_string(element, field) for element in value)
    return checked_scalar(value, field)


def checked_scalar(value: object, field: Field) -> Scalar:
    """Return the value that a condition compares with. For a list, it is one element."""
    if field.kind.textual:
        return _string(value, field)
    if field.kind is Kind.BOOLEAN:
        if not isinstance(value, bool):
            raise _unfit(field, say("true or false"))
        return value
    return _number(value, field)


def _string(value: object, field: Field) -> str:
    if not isinstance(value, str) or len(encodable(value, field.name).encode()) > LONGEST_STRING:
        raise _unfit(field, say("a string of at most {most} {most:byte|bytes}", most=LONGEST_STRING))
    return value


def _number(value: object, field: Field) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        wanted = say("seconds since 1970") if field.kind is Kind.DATE else say("a finite number")
        raise _unfit(field, wanted)
    if abs(value) > EXACT and isinstance(value, int):
        # A rounded id would find another record.
        raise _unfit(field, say("a number up to 2**53; longer ids are strings"))
    return int(value) if value == int(value) and abs(value) <= EXACT else float(value)


def _unfit(field: Field, wanted: object) -> BadArguments:
    return BadArguments(say("{field} must be {wanted}", field=field.name, wanted=wanted), field.name)


def encodable(text: str, name: str) -> str:
    """Return the text. Raises BadArguments if it has half a surrogate pair, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadArguments(say("{field} contains half of a surrogate pair", field=name), name) from None
    return text


def _check_size(record: Record) -> None:
    size = len(record.payload) + len(msgspec.json.encode((record.texts, record.fields)))
    if size > LONGEST_RECORD:
        raise BadArguments(
            say(
                "{key} has {size} {size:byte|bytes}, more than the limit of {most} for one record. Split "
                "its text into several",
                key=record.key,
                size=size,
                most=LONGEST_RECORD,
            ),
            record.key,
        )
