"""Checks of what callers pass to a collection: vectors, records, requests, and cursors of a selection.

Cursors of a selection. They contain values and a key, so writes do not shift them. A cursor has the name
of the order, and the values of the order's fields and the key of the last record of the page. The next
page continues after that position, whatever is written meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import (
    DEEPEST_OFFSET,
    LARGEST_EXCHANGE,
    LARGEST_VECTORS,
    MOST_AT_ONCE,
    MOST_EXCHANGED,
    Order,
)
from tabane.search.records import (
    MOST_FIELDS,
    EmbeddingSpace,
    Field,
    Kind,
    Record,
    Scalar,
    Shape,
    checked,
    checked_key,
)
from tabane.search.records import checked_vector as checked_slowly
from tabane.wire.cursors import CursorCodec

T = TypeVar("T")

MOST_ROWS = 100  # of a commit, so that others wait for one at most; a job with more rows has its own commit
ALONE = MOST_ROWS + 1  # rows of a job that shares its commit with no other
_CHECKED_AT_ONCE = 50  # in less than a millisecond


async def checked_records(records: Sequence[Record], shape: Shape, models: Mapping[str, str]) -> list[Record]:
    """Check records, in a thread if they are many, and in slices with pauses for others.

    Vectors of other ``models`` than the spaces of the shape have are left out, whatever their length.
    """
    current = {space.name: space.model for space in shape.spaces}

    def slice_from(first: int) -> list[Record]:
        part = list(records[first : first + _CHECKED_AT_ONCE])
        if models:
            part = [without_other_models(record, models, current) for record in part]
        valid = {space.name for space in shape.spaces if _all_valid(part, space)}

        def fit(vector: bytes, space: EmbeddingSpace) -> bytes:
            return vector if space.name in valid else checked_vector(vector, space)

        return [checked(record, shape, fit) for record in part]

    def slices() -> list[Record]:
        ready: list[Record] = []
        for first in range(0, len(records), _CHECKED_AT_ONCE):
            ready += slice_from(first)
            time.sleep(0)  # a thread that waits for the interpreter gets it now, not 5 ms later
        return ready

    return slice_from(0) if len(records) <= _CHECKED_AT_ONCE else await asyncio.to_thread(slices)


async def checked_exchange(records: Sequence[Record], gone: Sequence[str]) -> tuple[list[str], int]:
    """Check an exchange of checked records. Return the keys to delete, and the rows for the writer.

    A large exchange gets its own commit. Raises :class:`BadArguments` if it is too large, or if it writes and
    deletes a key.
    """

    def sized() -> tuple[list[str], int]:
        keys = [checked_key(key) for key in gone]
        twice = {record.key for record in records}.intersection(keys)
        if twice:
            raise BadArguments(
                say("{key} is given both to be saved and to be removed", key=min(twice)), "gone"
            )
        size = sum(
            len(each.payload) + len(msgspec.json.encode((each.texts, each.fields))) for each in records
        )
        vectors = sum(map(_vectors, records))
        for bytes_of_part, most in ((vectors, LARGEST_VECTORS), (size, LARGEST_EXCHANGE)):
            if bytes_of_part > most:
                message = say(
                    "an exchange of {size} {size:byte|bytes} is too large: at most {most}",
                    size=bytes_of_part,
                    most=most,
                )
                raise BadArguments(message, "records")
        rows = len(records) + len(keys)
        return keys, rows if size + vectors <= MOST_BYTES else max(rows, ALONE)

    is_short = len(records) + len(gone) <= _CHECKED_AT_ONCE
    return sized() if is_short else await asyncio.to_thread(sized)


def without_other_models(record: Record, models: Mapping[str, str], current: Mapping[str, str]) -> Record:
    """Return the record without vectors for spaces that were dropped or have another model by now.

    ``models``: space → the model that made its vectors; ``current``: space → its model now. Vectors of spaces
    without an entry in ``models`` are kept.
    """
    kept = {
        name: vector
        for name, vector in record.vectors.items()
        if name not in models or current.get(name) == models[name]
    }
    return record if len(kept) == len(record.vectors) else msgspec.structs.replace(record, vectors=kept)


def _all_valid(records: Sequence[Record], space: EmbeddingSpace) -> bool:
    """Return whether all vectors of a space pass the quick check of :func:`checked_vector`."""
    vectors = [record.vectors[space.name] for record in records if space.name in record.vectors]
    if not vectors or any(type(each) is not bytes or len(each) != 4 * space.dimension for each in vectors):
        return False
    import numpy as np  # a store without vectors does without it

    numbers = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), space.dimension)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", numbers, numbers)
    return bool(((squares > 0) & (squares < np.inf)).all())


def checked_vector(vector: bytes, space: EmbeddingSpace) -> bytes:
    """Return the vector, if it has the length of its space and finite numbers, not all 0.

    If the sum of squares is neither 0 nor infinite as float32, all numbers are valid. Otherwise the numbers
    may be very small or very large, and the slower check decides.
    """
    if len(vector) == 4 * space.dimension:
        import numpy as np  # a store without vectors does without it

        numbers = np.frombuffer(vector, dtype="<f4")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.dot(numbers, numbers)
        if 0 < squares < np.inf:
            return bytes(vector)
    return checked_slowly(vector, space)


def checked_attachment(
    vectors: Mapping[int, Mapping[str, bytes]], shape: Shape, model: str
) -> dict[int, dict[str, bytes]]:
    """Return vectors for rows, without those of spaces that have another model than this one, if known."""
    taken = {space.name for space in shape.spaces if space.model == model}
    return {
        row: {
            name: checked_vector(vector, shape.space(name))
            for name, vector in of_row.items()
            if not model or name in taken
        }
        for row, of_row in vectors.items()
    }


MOST_BYTES = 1_000_000  # of a commit that others share


def is_long(records: Sequence[Record]) -> bool:
    """Return whether records are too many, or too large, for a commit that others share."""
    return len(records) > MOST_ROWS or sum(map(_weight, records)) > MOST_BYTES


def cut(records: Sequence[Record], rows: int, size_of_part: int) -> Iterator[list[Record]]:
    """Yield the records in order, in parts of at most so many rows and bytes.

    A larger record is its own part.
    """
    part: list[Record] = []
    size = 0
    for record in records:
        weight = _weight(record)
        if part and (len(part) == rows or size + weight > size_of_part):
            yield part
            part, size = [], 0
        part.append(record)
        size += weight
    if part:
        yield part


def _weight(record: Record) -> int:
    return len(record.payload) + sum(map(len, record.texts.values())) + _vectors(record)


def check_count(records: Sequence[Record], gone: Sequence[str]) -> None:
    """Raise :class:`BadArguments` if an exchange has too many records and keys."""
    if len(records) + len(gone) > MOST_EXCHANGED:
        message = say("an exchange has at most {most} {most:record|records} and keys", most=MOST_EXCHANGED)
        raise BadArguments(message, "records")


def _vectors(record: Record) -> int:
    return sum(map(len, record.vectors.values()))


def check_bounded(name: str, value: int, least: int, most: int) -> None:
    """Raise unless the value is within these limits, both included."""
    if not least <= value <= most:
        raise BadArguments(say("{field} must be {least} to {most}", field=name, least=least, most=most), name)


def check_page(limit: int, offset: int = 0) -> None:
    """Raise BadArguments unless ``limit`` is 1 to 1,000 and ``offset`` at most 10,000."""
    check_bounded("limit", limit, 1, MOST_AT_ONCE)
    check_bounded("offset", offset, 0, DEEPEST_OFFSET)


def checked_keys(keys: Sequence[str]) -> list[str]:
    """Return the keys as they are stored. Raise if there are too many for one request."""
    check_bounded("keys", len(keys), 0, MOST_AT_ONCE)
    return [unicodedata.normalize("NFC", key) for key in keys]


NUMERIC = (Kind.NUMBER, Kind.DATE)
TEXTUAL = (Kind.STRING, Kind.STRINGS)


def check_kind(field: Field, kinds: Sequence[Kind], what: str) -> None:
    """Raise BadArguments unless the field is of one of these kinds. ``what`` names the request."""
    if field.kind not in kinds:
        message = say(
            "{field} is of type {kind}, so it cannot be used for {what}",
            field=field.name,
            kind=field.kind.value,
            what=what,
        )
        raise BadArguments(message, field.name)


def unlike_space(collection: str, there: EmbeddingSpace, wanted: EmbeddingSpace) -> BadArguments:
    """Return the error for a space whose name another one has."""
    message = say(
        "{collection} already has another space of that name: {there}, not {wanted}",
        collection=collection,
        there=str(there),
        wanted=str(wanted),
    )
    return BadArguments(message, wanted.name)


def check_room_for_space(collection: str, spaces: int, wanted: EmbeddingSpace) -> None:
    """Raise if a collection with so many spaces cannot have another one."""
    if spaces >= MOST_FIELDS:
        message = say(
            "{collection} already has {most} {most:space|spaces}", collection=collection, most=MOST_FIELDS
        )
        raise BadArguments(message, wanted.name)


class RecordsCursor(NamedTuple):
    """The last record of a page: the order of the records, its values there (None: absent), its key."""

    order: str
    values: tuple[Scalar | None, ...]
    key: str


_CURSORS = CursorCodec("records", RecordsCursor)


def read_cursor(text: str, order: Sequence[Order], shape: Shape) -> RecordsCursor:
    """Decode a cursor. Raises :class:`BadArguments` if it is not one of this order."""
    try:
        cursor = _CURSORS.decode(text)
        fits = cursor.order == name_of_order(order) and len(cursor.values) == len(order)
        kinds = zip((shape.field(each.field).kind for each in order), cursor.values, strict=True)
        fits = fits and all(value is None or _fits(kind, value) for kind, value in kinds)
    except ValueError:
        fits = False
    if not fits:
        message = say("the cursor does not belong to this selection and order. Start again without it")
        raise BadArguments(message, "after")
    return cursor


def ordered_value(record: Record, field: Field) -> Scalar | None:
    """Return the value that the record is ordered by; None if it is absent, or of another kind."""
    value = record.fields.get(field.name)
    return value if not isinstance(value, tuple) and value is not None and _fits(field.kind, value) else None


def _fits(kind: Kind, value: Scalar) -> bool:
    if kind is Kind.STRING:
        return isinstance(value, str)
    return isinstance(value, bool) if kind is Kind.BOOLEAN else type(value) in (int, float)


def check_order(order: Sequence[Order], shape: Shape) -> None:
    """Raise :class:`BadArguments` if a field does not exist or is a list."""
    for each in order:
        if shape.field(each.field).kind is Kind.STRINGS:
            raise BadArguments(
                say("{field} is a list, so it cannot be used for sorting", field=each.field), "order"
            )


def name_of_order(order: Sequence[Order]) -> str:
    """Return an order as text: its fields, with a minus before descending ones."""
    return ",".join(("-" if each.descending else "") + each.field for each in order)


def cursor_after(record: Record, order: Sequence[Order], shape: Shape) -> str:
    """Return the cursor behind a record."""
    values = tuple(ordered_value(record, shape.field(each.field)) for each in order)
    return _CURSORS.encode(RecordsCursor(name_of_order(order), values, record.key))
