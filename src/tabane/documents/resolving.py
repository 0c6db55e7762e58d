"""Conditions that only heads can meet, put as conditions of chunks: by the names of their documents."""

from __future__ import annotations

from collections.abc import Mapping

from tabane.documents.document import DOCUMENT, HEADS, UPDATED_AT
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import Collection
from tabane.search.filters import MOST_VALUES, And, Filter, In, Not, Or, Range, leaves

MOST_NAMES = MOST_VALUES // 2


async def resolved(collection: Collection, where: Filter) -> Filter:
    """The filter, without conditions on when a document was put: a chunk does not know it.

    Raises BadArguments where such a condition divides so many documents that none of the halves is short
    enough to be named.
    """
    found: dict[Filter, Filter] = {
        leaf: await _named(collection, leaf)
        for leaf in leaves(where)
        if isinstance(leaf, Range) and leaf.field == UPDATED_AT
    }
    return _put_in(where, found) if found else where


async def _named(collection: Collection, leaf: Filter) -> Filter:
    """The documents that a condition is true of; those that it is not, where they are fewer."""
    meant, others = And((HEADS, leaf)), And((HEADS, Not(leaf)))
    inside, outside = await collection.count(meant), await collection.count(others)
    if min(inside, outside) <= MOST_NAMES:
        names = In(DOCUMENT, tuple(await collection.tally(DOCUMENT, meant if inside <= outside else others)))
        return names if inside <= outside else Not(names)
    message = say("filters: updated_at leaves more than {most} documents in and out", most=MOST_NAMES)
    raise BadArguments(message, "filters.updated_at")


def _put_in(where: Filter, found: Mapping[Filter, Filter]) -> Filter:
    match where:
        case Not(of):
            return Not(_put_in(of, found))
        case And(of):
            return And(tuple(_put_in(each, found) for each in of))
        case Or(of):
            return Or(tuple(_put_in(each, found) for each in of))
        case _:
            return found.get(where, where)
