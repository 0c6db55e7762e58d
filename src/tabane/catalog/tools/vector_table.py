"""Vectors of tools by definition and model, and the comparison of a query with them.

A vector belongs to a text, not to a tool: a tool that is removed and comes back needs no embedding.
"""

from __future__ import annotations

import hashlib
import math
import re
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from tabane.search.embedding.model_families import CosineBaseline, family_of, reads
from tabane.search.snippets import one_line

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool

PLANES = 4
_CLIP = 2.6  # standard deviations of a component that the levels cover
_MIDDLE = (2**PLANES - 1) / 2
_TABLES = [bytes(ord("1") if level >> plane & 1 else ord("0") for level in range(256)) for plane in range(4)]

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
        """Add the vector of a tool."""
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

    def reads_english(self, number: int) -> bool:
        """Return whether the English part of a joined vector holds anything."""
        return _reads_english(self._vectors[number].signs)

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


VECTORS_TABLE = (
    "CREATE TABLE vectors (number INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, gist BLOB NOT NULL,"
    " dimension INTEGER NOT NULL, planes BLOB NOT NULL, UNIQUE (model, gist))"
)

_MOST_GIST = 400
_MOST_NOTES = 200
_MOST_UNUSED = 5_000  # vectors of texts that no tool has now
_MOST_MODELS = 4
_AT_ONCE = 500  # vectors that one statement reads
_FLOAT = 4

# Cosines of queries and tools that have nothing to do with each other, by family: the median, and the 99th
# percentile, each over both pairs of two public sets.
_OF_TOOLS = {
    "use": CosineBaseline(usual=0.05, threshold=0.24),
    "use-minilm": CosineBaseline(usual=0.05, threshold=0.24),
    "minilm-l6": CosineBaseline(usual=0.06, threshold=0.26),
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./:]+")


def gist_of(tool: Tool) -> str:
    """Return the text of a tool that is embedded: name in words, title, start of description, and notes.

    Measured on public sets: longer texts, parameters or the server's name find no more.
    """
    name = " ".join(_HUMP.sub(" ", tool.shown_name).split())
    title = "" if tool.title.casefold() in ("", name.casefold()) else f", {tool.title}"
    notes = f" {one_line(tool.notes)[:_MOST_NOTES]}" if tool.notes else ""
    return f"{name}{title}: {one_line(tool.description)[:_MOST_GIST]}{notes}"


def gist_key(text: str) -> bytes:
    """Return the key of a text: its hash."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


class ToolGist(NamedTuple):
    """A text to be embedded."""

    key: bytes
    text: str


class ToolComparison(Struct, frozen=True):
    """A query compared with tools, by number: mean cosine, and relevance as in a hit.

    ``missing`` are tools without a vector. ``models`` have compared.
    """

    cosines: Mapping[int, float] = field(default_factory=dict)
    relevance: Mapping[int, float] = field(default_factory=dict)
    missing: Collection[int] = ()
    models: int = 0


NOT_COMPARED = ToolComparison()


class _ModelVectors:
    """The vectors of one model in memory, and the tools that have none."""

    def __init__(self) -> None:
        self.vectors = BitVectors()
        self.missing: set[int] = set()

    def put(self, number: int, dimension: int, planes: bytes) -> None:
        self.missing.discard(number)
        if dimension:
            self.vectors.put(number, partly_unpacked(planes, dimension))


class ToolVectors:
    """Vectors of the tools in an index's file. Those of the models in use are kept in memory too."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._models: dict[str, _ModelVectors] = {}
        self._stale: set[str] = set()

    def changed(self) -> None:
        """Take note that tools came or went."""
        self._stale.update(self._models)

    def missing(self, model: str, most: int) -> list[ToolGist]:
        """Return texts without a vector of a model, those of the newest tools first.

        Texts that the model cannot read are marked as such, and left out.
        """
        rows = self._db.execute(
            "SELECT t.gist, t.gist_text FROM tools t LEFT JOIN vectors v ON v.model = ? AND v.gist = t.gist"
            " WHERE v.number IS NULL ORDER BY t.number DESC LIMIT ?",
            (model, most),
        )
        gists = [ToolGist(*row) for row in dict(rows.fetchall()).items()]
        unread = [(gist.key, b"") for gist in gists if not reads(model, gist.text)]
        self.put(model, unread)
        return [gist for gist in gists if reads(model, gist.text)] or (
            self.missing(model, most) if unread else []
        )

    def put(self, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Store float32 vectors with the keys of their texts.

        An empty vector: the model cannot read the text.
        """
        known = None if model in self._stale else self._models.get(model)
        for key, vector in vectors:
            dimension, planes = len(vector) // _FLOAT, packed(vector) if vector else b""
            self._db.execute(
                "INSERT OR REPLACE INTO vectors (model, gist, dimension, planes) VALUES (?, ?, ?, ?)",
                (model, key, dimension, planes),
            )
            if known is not None:
                for (number,) in self._db.execute("SELECT number FROM tools WHERE gist = ?", (key,)):
                    known.put(number, dimension, planes)

    def clear(self, models: Iterable[str]) -> None:
        """Delete vectors of other models, and the oldest of those that no tool has."""
        wanted = tuple(models)
        marks = ", ".join("?" * len(wanted))
        self._db.execute(f"DELETE FROM vectors WHERE model NOT IN ({marks})", wanted)
        self._db.execute(
            "DELETE FROM vectors WHERE number IN (SELECT number FROM vectors WHERE gist NOT IN"
            " (SELECT gist FROM tools) ORDER BY number DESC LIMIT -1 OFFSET ?)",
            (_MOST_UNUSED,),
        )
        for model in self._models.keys() - set(wanted):
            del self._models[model]

    def compare(
        self,
        wanted: Mapping[str, Sequence[bytes]],
        among: Collection[int] | None,
        also: Collection[int],
    ) -> ToolComparison:
        """Compare a query, by model, with ``also`` and the nearest of these tools (None: all).

        Of each model there is the vector of the query, then those of its sentences, if it has several. A tool
        is compared with the whole and with the sentence that is nearest to it, each counting half.
        """
        asked = {model: self._loaded(model) for model in list(wanted)[:_MOST_MODELS]}
        having = {
            model: (each, [vector_of(vector) for vector in wanted[model]])
            for model, each in asked.items()
            if len(each.vectors) and wanted[model]
        }
        if not having:
            return NOT_COMPARED
        near = set(also)
        for each, vectors in having.values():
            for vector in vectors:
                near.update(each.vectors.nearest(vector, among))
        cosines: dict[int, list[float]] = {}
        scaled: dict[int, list[float]] = {}
        for model, (each, vectors) in having.items():
            usual, rise = _scale(model)
            for number, value in _cosines(model, each.vectors, vectors, near).items():
                cosines.setdefault(number, []).append(value)
                scaled.setdefault(number, []).append((value - usual) * rise)
        return ToolComparison(
            {number: sum(values) / len(values) for number, values in cosines.items()},
            {number: sum(values) / len(values) for number, values in scaled.items()},
            set[int]().union(*(each.missing for each in asked.values())) - cosines.keys(),
            len(having),
        )

    def similarity(self, one: int, other: int) -> float:
        """Return the cosine of two tools in the first model that has both; 0 if none has."""
        found = (each.vectors.similarity(one, other) for each in self._models.values())
        return next((value for value in found if value is not None), 0.0)

    def _loaded(self, model: str) -> _ModelVectors:
        known = self._models.get(model)
        if known is None:
            if len(self._models) >= _MOST_MODELS:
                del self._models[next(iter(self._models))]
            known = self._models[model] = _ModelVectors()
            self._stale.add(model)
        if model in self._stale:
            self._stale.discard(model)
            self._load(model, known)
        return known

    def _load(self, model: str, known: _ModelVectors) -> None:
        """Bring the vectors in memory up to date. Those that are there already are not read again."""
        numbers = {number for (number,) in self._db.execute("SELECT number FROM tools")}
        known.vectors.keep(numbers)
        lacking = [number for number in numbers if number not in known.vectors]
        known.missing = set(lacking)
        for start in range(0, len(lacking), _AT_ONCE):
            part = lacking[start : start + _AT_ONCE]
            # CROSS JOIN: SQLite must not begin with all vectors of the model.
            rows = self._db.execute(
                "SELECT t.number, v.dimension, v.planes FROM tools t CROSS JOIN vectors v"
                f" ON v.model = ? AND v.gist = t.gist WHERE t.number IN ({', '.join('?' * len(part))})",
                (model, *part),
            )
            for row in rows:
                known.put(*row)


def _cosines(
    model: str, known: BitVectors, wanted: Sequence[BitVector], numbers: Collection[int]
) -> dict[int, float]:
    joined = (family := family_of(model)) is not None and family.name == "use-minilm"
    compare = _cosines_of_common_part if joined else BitVectors.cosines
    whole, *sentences = [compare(known, vector, numbers) for vector in wanted]
    if not sentences:
        return whole
    return {
        number: (value + max(found[number] for found in sentences)) / 2 for number, value in whole.items()
    }


# The last components of a vector that joins two models: those of the model that reads English alone. They are
# zero for another language, and a component of zero has the higher sign.
_ENGLISH = (1 << 384) - 1
_COMMON = 0.4**0.5  # the length of the other part, if the text is English


def _reads_english(signs: int) -> bool:
    return signs & _ENGLISH != _ENGLISH


def _cosines_of_common_part(known: BitVectors, wanted: BitVector, numbers: Iterable[int]) -> dict[int, float]:
    """Return the cosines of joined vectors: of what both have, if only one of the texts is English."""
    english = _reads_english(wanted.signs)
    return {
        number: value if known.reads_english(number) == english else value / _COMMON
        for number, value in known.cosines(wanted, numbers).items()
    }


def _scale(model: str) -> tuple[float, float]:
    """Return the usual cosine of texts that have nothing to do with each other, and what to multiply with."""
    family = family_of(model)
    baseline = (_OF_TOOLS.get(family.name) or family.baseline) if family else None
    baseline = baseline or _OF_TOOLS["use"]
    return baseline.usual, 1 / (baseline.threshold - baseline.usual)
