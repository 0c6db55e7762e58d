"""Search by vectors: ``python -m benchmarks.search.vectors [--records N] [--dimension D] [--spaces S]``.

Clustered vectors around 2,000 centres, off the middle as those of real models are; queries are records with
noise. Every answer of the store is compared with numpy's, which looks at all vectors: recall is measured.
Milliseconds on the clock and of the processor, since the first depends on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabane.search.engine import Combination, VectorQuery
from tabane.search.filters import EVERYTHING, Equal, Filter, Range
from tabane.search.records import Field, Kind, Record, Shape, Space
from tabane.store.collection import Collection
from tabane.store.store import Store

Matrix = NDArray[np.float32]
Case = Callable[[np.random.Generator], tuple[Filter, slice]]

_CENTRES = 2000
_ASKED, _COMPARED = 60, 20
_WARM = 5
_MOST = 10
_USERS = 100
_BATCH = 1000


def clustered(count: int, dimension: int, seed: int) -> Matrix:
    """Unit vectors."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((_CENTRES, dimension), dtype=np.float32)
    centres += 0.7 * chance.standard_normal(dimension, dtype=np.float32)
    vectors = centres[chance.integers(0, _CENTRES, count)]
    for first in range(0, count, _BATCH):
        part = vectors[first : first + _BATCH]
        part += 0.9 * chance.standard_normal(part.shape, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def similarities(spaces: list[Matrix], queries: list[Matrix], combination: Combination) -> Matrix:
    """What numpy says, of every record."""
    found = np.stack([space @ query for space, query in zip(spaces, queries, strict=True)])
    match combination:
        case Combination.MAXIMUM:
            return found.max(axis=0)
        case Combination.MINIMUM:
            return found.min(axis=0)
        case Combination.PRODUCT:
            return np.maximum(found, 0).prod(axis=0)
        case Combination.WEIGHTED:
            return found.sum(axis=0)
        case Combination.AVERAGE:
            return found.mean(axis=0)


class Measuring:
    def __init__(self, collection: Collection, spaces: list[Matrix]) -> None:
        self._collection = collection
        self._spaces = spaces
        self._chance = np.random.default_rng(7)

    async def fill(self) -> None:
        spent, count = 0.0, len(self._spaces[0])
        for first in range(0, count, _BATCH):
            records = [self._record(number) for number in range(first, min(first + _BATCH, count))]
            began = time.perf_counter()
            await self._collection.upsert(records)
            spent += time.perf_counter() - began
        print(f"ingest: {count / spent:,.0f} records/s, {count * len(self._spaces) / spent:,.0f} vectors/s")

    def _record(self, number: int) -> Record:
        vectors = {f"s{each}": space[number].tobytes() for each, space in enumerate(self._spaces)}
        fields = {"date": number * 60, "user": f"u{number % _USERS}"}
        return Record(key=f"{number:08}", fields=fields, payload=b"{}", vectors=vectors)

    async def ask(self, name: str, several: int, combination: Combination, case: Case) -> None:
        clock, processor, recall = [], [], []
        spaces = self._spaces[:several]
        for number in range(_ASKED):
            where, part = case(self._chance)
            queries = self._queries(spaces)
            asked = VectorQuery(
                {f"s{each}": query.tobytes() for each, query in enumerate(queries)}, combination
            )
            began, worked = time.perf_counter(), time.process_time()
            hits = await self._collection.nearest(asked, where, _MOST)
            clock.append(time.perf_counter() - began)
            processor.append(time.process_time() - worked)
            if number < _COMPARED:
                best = np.argsort(-similarities([space[part] for space in spaces], queries, combination))[
                    :_MOST
                ]
                expected = {f"{each:08}" for each in np.arange(len(spaces[0]))[part][best]}
                recall.append(len(expected & {hit.key for hit in hits.hits}) / len(expected))
        figures = f"clock {_spread(clock[_WARM:])}, processor {_spread(processor[_WARM:])}"
        print(f"{name}: {figures}, recall@{_MOST} {np.mean(recall):.4f}")

    def _queries(self, spaces: list[Matrix]) -> list[Matrix]:
        number = int(self._chance.integers(0, len(spaces[0])))
        size = spaces[0].shape[1]
        noise = self._chance.standard_normal((len(spaces), size), dtype=np.float32) * 0.6 / np.sqrt(size)
        found = [(space[number] + each).astype(np.float32) for space, each in zip(spaces, noise, strict=True)]
        return [query / np.linalg.norm(query) for query in found]

    async def scan(self) -> None:
        query = VectorQuery({"s0": self._queries(self._spaces[:1])[0].tobytes()})
        for _ in range(3):
            began, first = time.perf_counter(), 0.0
            async for _block in self._collection.scan(query, EVERYTHING):
                first = first or time.perf_counter() - began
            print(
                f"all similarities: first {first * 1e3:.0f} ms, all {(time.perf_counter() - began) * 1e3:.0f}"
            )


def _spread(seconds: list[float]) -> str:
    return f"{np.median(seconds) * 1e3:.1f} (p95 {np.quantile(seconds, 0.95) * 1e3:.1f}) ms"


def _cases(count: int) -> dict[str, Case]:
    def dates(chance: np.random.Generator) -> tuple[Filter, slice]:
        first = int(chance.integers(0, count - count // 10))
        last = first + count // 10
        return Range("date", first * 60, last * 60, include_high=False), slice(first, last)

    def user(chance: np.random.Generator) -> tuple[Filter, slice]:
        number = int(chance.integers(0, _USERS))
        return Equal("user", f"u{number}"), slice(number, None, _USERS)

    return {"all": lambda _: (EVERYTHING, slice(None)), "10 % by date": dates, "1 % by user": user}


async def measure(folder: Path, spaces: list[Matrix]) -> None:
    declared = tuple(Space(f"s{each}", space.shape[1]) for each, space in enumerate(spaces))
    shape = Shape("posts", (), (Field("date", Kind.DATE), Field("user", Kind.STRING)), declared)
    store = await Store.open(str(folder), "bench")
    await Measuring(await store.collection(shape), spaces).fill()
    await store.close()
    store = await Store.open(str(folder), "bench")
    began = time.perf_counter()
    measuring = Measuring(await store.collection(shape), spaces)
    print(f"open: {(time.perf_counter() - began) * 1e3:.0f} ms")
    cases = _cases(len(spaces[0]))
    for name, case in cases.items():
        await measuring.ask(name, 1, Combination.AVERAGE, case)
    for combination in Combination if len(spaces) > 1 else ():
        await measuring.ask(f"{combination.value} of {len(spaces)}", len(spaces), combination, cases["all"])
    await measuring.scan()
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.vectors")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--spaces", type=int, default=3)
    options = parser.parse_args()
    spaces = [clustered(options.records, options.dimension, seed) for seed in range(options.spaces)]
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as folder:
        asyncio.run(measure(Path(folder), spaces))


if __name__ == "__main__":
    main()
