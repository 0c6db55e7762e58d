"""Shared types: the state of a collection, its embedding spaces, and the changes that one write made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from tabane.search.records import EmbeddingSpace, Record, Shape, unfit_vector

# A record's fields as columns hold them: a number, a flag, a code, codes; None if absent.
Cell = float | int | tuple[int, ...] | None
Cells = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class VectorPlacement:
    """The row of the record that has a vector from now on; 0 if none has it any more."""

    space: str
    number: int
    row: int


class CollectionState(msgspec.Struct, frozen=True):
    """The state of a collection. See :func:`tabane.engine.embedded.database._collections`."""

    base: int
    next: int
    sealed: int
    changes: int
    epoch: int
    pruned: int


@dataclass(frozen=True, slots=True)
class SpaceStorage:
    """One space of one collection, as it is stored: ``birth`` is a number that no other space ever had,
    ``generation`` counts how often its file was rewritten.
    """

    space: EmbeddingSpace
    birth: int
    generation: int


class CollectionSpaces:
    """The spaces of a collection at one time, in order of creation."""

    def __init__(self, shape: Shape, storages: Sequence[SpaceStorage]) -> None:
        self.storages = tuple(storages)
        self.shape = replace(shape, spaces=tuple(each.space for each in storages))
        self._named = {each.space.name: each for each in storages}
        self._births = {each.birth: each for each in storages}

    def named(self, name: str) -> SpaceStorage:
        """Return the space of that name. Raises BadArguments that lists the existing ones."""
        self.shape.space(name)
        return self._named[name]

    def get(self, name: str) -> SpaceStorage | None:
        """Return the space of that name; None if there is none."""
        return self._named.get(name)

    def born(self, birth: int) -> SpaceStorage | None:
        """Return the space of that birth; None if it was dropped."""
        return self._births.get(birth)

    def of_model(self, vectors: Mapping[str, bytes], model: str) -> dict[str, bytes]:
        """Return the vectors whose spaces exist and have this model."""
        return {
            name: vector
            for name, vector in vectors.items()
            if (storage := self.get(name)) is not None and storage.space.model == model
        }

    def fitting(self, name: str, vector: bytes) -> SpaceStorage:
        """Return the space for this vector. The space may have changed since the vector was checked."""
        storage = self.named(name)
        if len(vector) != 4 * storage.space.dimension:
            raise unfit_vector(storage.space)
        return storage


@dataclass(slots=True)
class CollectionChange:
    """The result of one write. ``upserted`` has live rows only, ``deleted`` the rows that are no longer live.

    ``tombstone`` is the number of the last tombstone so far. ``state`` is the state after the write.
    """

    state: CollectionState
    upserted: list[tuple[int, Record]] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    strings: dict[tuple[str, str], int] = field(default_factory=dict)
    results: list[bool] = field(default_factory=list)
    tombstone: int = 0
    vectors: list[VectorPlacement] = field(default_factory=list)
    spaces: CollectionSpaces | None = None  # the new spaces, if they changed


_SHAPE_ENCODER = msgspec.json.Encoder(order="deterministic")
_SHAPE_DECODER = msgspec.json.Decoder(Shape)


def shape_of(blob: bytes) -> Shape:
    """Decode a stored shape. An older version stored its spaces with it."""
    return _SHAPE_DECODER.decode(blob)


def shape_blob(shape: Shape) -> bytes:
    """Encode the texts and fields of a shape. Its spaces have their own table."""
    return _SHAPE_ENCODER.encode(replace(shape, spaces=()))
