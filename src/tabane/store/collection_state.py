"""What one write did to a collection, and where the collection stands: what all that is derived is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tabane.search.records import Record

if TYPE_CHECKING:
    from tabane.store.vectors.space_table import CollectionSpaces

# A record's fields as columns hold them: a number, a flag, a code, codes; None where absent.
Cell = float | int | tuple[int, ...] | None
Cells = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class VectorPlacement:
    """A vector that came (``vector`` is there), whose record moved to ``row``, or that lost it (row 0)."""

    space: str
    number: int
    row: int
    vector: bytes | None = None


class CollectionState(msgspec.Struct, frozen=True):
    """Where a collection stands: see :func:`tabane.store.migrations._collections`."""

    base: int
    next: int
    sealed: int
    changes: int
    epoch: int
    pruned: int


@dataclass(slots=True)
class CollectionChange:
    """What one write did. ``upserted`` holds live rows alone; ``deleted`` all that are no longer.

    ``tombstone`` is the number of the last tombstone written so far, ``state`` as it is afterwards.
    """

    state: CollectionState
    upserted: list[tuple[int, Record]] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    strings: dict[tuple[str, str], int] = field(default_factory=dict)
    results: list[bool] = field(default_factory=list)
    tombstone: int = 0
    vectors: list[VectorPlacement] = field(default_factory=list)
    spaces: CollectionSpaces | None = None  # those there are from now on, where they are others
