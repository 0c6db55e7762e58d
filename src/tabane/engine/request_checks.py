"""Checks of requests to a collection; each raises BadArguments that names the parameter."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import MOST_AT_ONCE
from tabane.search.records import MOST_FIELDS, EmbeddingSpace, Field, Kind

MOST_BOUNDS = 100_000  # of a histogram


def check_bounded(name: str, value: int, least: int, most: int) -> None:
    """Raise unless the value is within these limits, both included."""
    if not least <= value <= most:
        raise BadArguments(say("{field} must be {least} to {most}", field=name, least=least, most=most), name)


def checked_keys(keys: Sequence[str]) -> list[str]:
    """Return the keys as they are stored. Raise if there are too many for one request."""
    check_bounded("keys", len(keys), 0, MOST_AT_ONCE)
    return [unicodedata.normalize("NFC", key) for key in keys]


def check_bounds(bounds: Sequence[float]) -> None:
    """Raise unless a histogram can have so many bounds."""
    check_bounded("bounds", len(bounds), 2, MOST_BOUNDS)


def check_textual(field: Field, what: str) -> None:
    _check_kind(field, field.kind.textual, what)


def check_numeric(field: Field, what: str) -> None:
    _check_kind(field, field.kind.numeric, what)


def check_string(field: Field, what: str) -> None:
    _check_kind(field, field.kind is Kind.STRING, what)


def _check_kind(field: Field, fits: bool, what: str) -> None:
    if not fits:
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
