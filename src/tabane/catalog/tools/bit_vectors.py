"""Vectors of tools in four bits a component, compared without numpy by counting bits; pure.

A component becomes one of 16 levels. The vector is kept as four integers (planes), of which each holds one
bit of every component. The dot product of two vectors is then sixteen AND and bit counts, some 1.2 µs, and
the planes of the highest bit are the signs of the components: their Hamming distance (0.15 µs) selects the
candidates in a large collection. The error of a cosine is about .006 (standard deviation), which moves no
figure of recall (benchmarks/tools/recall.py).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable
from typing import NamedTuple

PLANES = 4
_CLIP = 2.6  # standard deviations of a component that the levels cover
_MIDDLE = (2**PLANES - 1) / 2
_TABLES = [bytes(ord("1") if level >> plane & 1 else ord("0") for level in range(256)) for plane in range(4)]
_FLOAT = 4

FEWEST, MOST = 300, 800
"""Vectors that are compared exactly: a fifth of all, in these limits. They are selected by their signs: of
the ten nearest, .997 are among 300 of 1,000, and .996 among 650 of 3,244 (USE and MiniLM)."""


class BitVector(NamedTuple):
    """Planes from the highest bit to the lowest, sum of the levels, 1 / length in levels, components."""

    signs: int
    second: int
    third: int
    lowest: int
    total: int
    scale: float
    dimension: int


class PackedVector(NamedTuple):
    """A vector of which only the signs were read from its planes: enough for most of a large collection."""

    signs: int
    planes: bytes
    dimension: int


def packed(vector: bytes) -> bytes:
    """Return the four planes of a float32 vector of length one, little-endian, as bytes."""
    values = array("f", vector)
    rise = math.sqrt(len(values)) * 2 ** (PLANES - 1) / _CLIP
    levels = bytes([min(15, max(0, int(value * rise + 8))) for value in values])
    size = -(-len(values) // 8)
    planes = (int(levels.translate(_TABLES[plane]), 2) for plane in (3, 2, 1, 0))
    return b"".join(plane.to_bytes(size, "big") for plane in planes)


def unpacked(planes: bytes, dimension: int) -> BitVector:
    """Return a vector from its four planes."""
    size = -(-dimension // 8)
    parts = [int.from_bytes(planes[at : at + size], "big") for at in range(0, PLANES * size, size)]
    total = sum(part.bit_count() << 3 - place for place, part in enumerate(parts))
    bare = BitVector(parts[0], parts[1], parts[2], parts[3], total, 1.0, dimension)
    square = _product(bare, bare)
    return bare._replace(scale=1 / math.sqrt(square) if square > 0 else 0.0)


def partly_unpacked(planes: bytes, dimension: int) -> PackedVector:
    """Return a vector from its four planes, of which the others are read when they are needed."""
    return PackedVector(int.from_bytes(planes[: -(-dimension // 8)], "big"), planes, dimension)


def vector_of(vector: bytes) -> BitVector:
    """Return a float32 vector of length one, little-endian, in this form."""
    return unpacked(packed(vector), len(vector) // _FLOAT)


def cosine(one: BitVector, other: BitVector) -> float:
    """Return the cosine of two vectors of the same dimension."""
    return _product(one, other) * one.scale * other.scale


def _product(one: BitVector, other: BitVector) -> float:
    a, b, c, d, total, _, dimension = one
    p, q, r, s, other_total, _, _ = other
    levels = (
        ((a & p).bit_count() << 6)
        + (((a & q).bit_count() + (b & p).bit_count()) << 5)
        + (((a & r).bit_count() + (b & q).bit_count() + (c & p).bit_count()) << 4)
        + (((a & s).bit_count() + (b & r).bit_count() + (c & q).bit_count() + (d & p).bit_count()) << 3)
        + (((b & s).bit_count() + (c & r).bit_count() + (d & q).bit_count()) << 2)
        + (((c & s).bit_count() + (d & r).bit_count()) << 1)
        + (d & s).bit_count()
    )
    product: float = levels - _MIDDLE * (total + other_total) + _MIDDLE * _MIDDLE * dimension
    return product


class BitVectors:
    """The vectors of one model, by number."""

    def __init__(self) -> None:
        self._vectors: dict[int, BitVector | PackedVector] = {}
        self._signs: tuple[list[int], list[int]] | None = None

    def __len__(self) -> int:
        return len(self._vectors)

    def __contains__(self, number: int) -> bool:
        return number in self._vectors

    def put(self, number: int, vector: BitVector | PackedVector) -> None:
        self._vectors[number] = vector
        self._signs = None

    def keep(self, numbers: Collection[int]) -> None:
        """Forget the vectors of all other numbers."""
        for number in [number for number in self._vectors if number not in numbers]:
            del self._vectors[number]
        self._signs = None

    def nearest(self, wanted: BitVector, numbers: Collection[int] | None) -> list[int]:
        """Return the nearest by their signs, of these numbers or of all. If there are few, return all."""
        among, signs = self._all() if numbers is None else self._some(numbers)
        most = min(MOST, max(FEWEST, len(among) // 5))
        if len(among) <= most:
            return list(among)
        own = wanted.signs
        distances = [(own ^ other).bit_count() for other in signs]
        furthest = sorted(distances)[most - 1]
        return [number for number, distance in zip(among, distances, strict=True) if distance <= furthest]

    def _all(self) -> tuple[list[int], list[int]]:
        if self._signs is None:
            self._signs = list(self._vectors), [vector.signs for vector in self._vectors.values()]
        return self._signs

    def _some(self, numbers: Collection[int]) -> tuple[list[int], list[int]]:
        among = [number for number in numbers if number in self._vectors]
        return among, [self._vectors[number].signs for number in among]

    def cosines(self, wanted: BitVector, numbers: Iterable[int]) -> dict[int, float]:
        """Return the cosine with each of these that has a vector."""
        # As _product, without a call for each vector, which would take longer than the product.
        a, b, c, d, total, scale, dimension = wanted
        vectors = self._unpacked(numbers)
        rest = _MIDDLE * _MIDDLE * dimension - _MIDDLE * total
        return {
            number: scale
            * other_scale
            * (
                ((a & p).bit_count() << 6)
                + (((a & q).bit_count() + (b & p).bit_count()) << 5)
                + (((a & r).bit_count() + (b & q).bit_count() + (c & p).bit_count()) << 4)
                + (
                    ((a & s).bit_count() + (b & r).bit_count() + (c & q).bit_count() + (d & p).bit_count())
                    << 3
                )
                + (((b & s).bit_count() + (c & r).bit_count() + (d & q).bit_count()) << 2)
                + (((c & s).bit_count() + (d & r).bit_count()) << 1)
                + (d & s).bit_count()
                - _MIDDLE * other_total
                + rest
            )
            for number, (p, q, r, s, other_total, other_scale, _) in vectors
        }

    def similarity(self, one: int, other: int) -> float | None:
        """Return the cosine of two of them; None if one has no vector."""
        found = self._unpacked((one, other))
        return cosine(found[0][1], found[1][1]) if len(found) == 2 else None

    def _unpacked(self, numbers: Iterable[int]) -> list[tuple[int, BitVector]]:
        """Return those of these numbers that have a vector, with it."""
        vectors, found = self._vectors, []
        for number in numbers:
            vector = vectors.get(number)
            if isinstance(vector, PackedVector):
                vector = vectors[number] = unpacked(vector.planes, vector.dimension)
            if vector is not None:
                found.append((number, vector))
        return found
