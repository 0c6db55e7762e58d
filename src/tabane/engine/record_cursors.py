"""Cursors of a selection. They contain values and a key, so writes do not shift them; pure.

A cursor has the name of the order, and the values of the order's fields and the key of the last record of the
page. The next page continues after that position, whatever is written meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import Order
from tabane.search.records import Field, Kind, Record, Scalar, Shape
from tabane.wire.cursors import CursorCodec


class RecordsCursor(NamedTuple):
    """The last record of a page: the order of the records, its values there (None: absent), its key."""

    order: str
    values: tuple[Scalar | None, ...]
    key: str


_CURSORS = CursorCodec("records", RecordsCursor)


def read(text: str, order: Sequence[Order], shape: Shape) -> RecordsCursor:
    """Decode a cursor. Raises :class:`BadArguments` if it is not one of this order."""
    try:
        cursor = _CURSORS.decode(text)
        fits = cursor.order == named(order) and len(cursor.values) == len(order)
        kinds = zip((shape.field(each.field).kind for each in order), cursor.values, strict=True)
        fits = fits and all(value is None or _fits(kind, value) for kind, value in kinds)
    except ValueError:
        fits = False
    if not fits:
        message = say("the cursor does not belong to this selection and order. Start again without it")
        raise BadArguments(message, "after")
    return cursor


def ordered_value(record: Record, field: Field) -> Scalar | None:
    """The value that the record is ordered by: none where an older shape left a value of another kind."""
    value = record.fields.get(field.name)
    return value if not isinstance(value, tuple) and value is not None and _fits(field.kind, value) else None


def _fits(kind: Kind, value: Scalar) -> bool:
    if kind is Kind.STRING:
        return isinstance(value, str)
    return isinstance(value, bool) if kind is Kind.BOOLEAN else type(value) in (int, float)


def checked(order: Sequence[Order], shape: Shape) -> None:
    """Raises :class:`BadArguments` for a field that is not there or is a list."""
    for each in order:
        if shape.field(each.field).kind is Kind.STRINGS:
            raise BadArguments(
                say("{field} is a list, so it cannot be used for sorting", field=each.field), "order"
            )


def named(order: Sequence[Order]) -> str:
    return ",".join(("-" if each.descending else "") + each.field for each in order)


def after(record: Record, order: Sequence[Order], shape: Shape) -> str:
    """Return the cursor behind a record."""
    values = tuple(ordered_value(record, shape.field(each.field)) for each in order)
    return _CURSORS.encode(RecordsCursor(named(order), values, record.key))
