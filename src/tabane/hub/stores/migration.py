"""The migration of collections between two places: begun or continued, copied one by one, and verified.

A place is the home of a hub, or a PostgreSQL database. One that is being filled has a mark until the
migration has ended, so that a second run continues it. A copied collection is compared with its source:
counts, and sampled records and queries.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from tabane.engine.collection_copying import (
    MOST_COPIED,
    CollectionContents,
    CopyProgress,
    CopySource,
    CopyTarget,
    batches,
)
from tabane.engine.embedded.collection_copies import EmbeddedSource, EmbeddedTarget, forget_copies
from tabane.engine.embedded.lexical.lexical_index import LexicalIndex, open_lexical
from tabane.engine.embedded.store import Store
from tabane.engine.team.postgres.engine_url import parsed
from tabane.errors import CallerError, HubError, StoreError
from tabane.hub.local import lock
from tabane.hub.stores.domain_stores import FOLDER, MARK
from tabane.hub.stores.postgres_engine import PostgresEngine, filled_address, needs_package
from tabane.messages import Message, say
from tabane.search.engine import Collection, EngineHits, LexicalQuery, VectorQuery
from tabane.search.records import EVERYTHING, Kind, Record, Shape
from tabane.settings import Settings
from tabane.settings.addresses import check_engine
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.engine.embedded.collection_table import CollectionTable

Indexed = Callable[[int, int], None]
"""Is told how many records of how many are in a lexical index that is built."""

_LOCK = "hub.lock"
_POLLED = 0.5  # seconds between two reports about an index


class MigrationPlace(Protocol):
    """A home or a database, with the collections in it."""

    @property
    def name(self) -> str:
        """Return the address without a password."""
        ...

    async def source(self, domain: str, shape: Shape) -> CopySource: ...

    async def target(self, domain: str, shape: Shape) -> CopyTarget: ...

    async def is_begun(self) -> bool:
        """Return whether a migration to this place began and has not ended."""
        ...

    async def begin(self) -> None:
        """Mark the place. It has no records."""
        ...

    async def end(self) -> None:
        """Remove the mark: the migration is complete."""
        ...

    async def collection(self, domain: str, shape: Shape, told: Indexed) -> Collection:
        """Return a collection as the hub uses it, with complete indexes. No source or target is open."""
        ...

    async def release(self) -> None:
        """Close what is open. A second call does nothing."""
        ...


def place_of(address: str, settings: Settings, environment: Mapping[str, str]) -> MigrationPlace:
    """Return the place of a URL.

    Raises CallerError, ConfigurationError, StoreError without the driver, and HubError if a hub runs there.
    """
    parts = urlsplit(address)
    if parts.scheme in ("postgresql", "postgres") or address.startswith("${"):
        check_engine(address)
        filled = filled_address(address, settings, environment)
        try:
            from tabane.hub.stores.database_place import DatabasePlace
        except ImportError as error:
            if (error.name or "").startswith("tabane"):  # the package was replaced
                raise
            raise StoreError(needs_package()) from error

        return DatabasePlace(parsed(filled).place, PostgresEngine(filled, migrating=True))
    if parts.scheme not in ("", "file") or not parts.path:
        raise CallerError(
            say(
                "{address} is neither a folder nor a URL such as postgresql://user@host/database",
                address=address,
            )
        )
    path = unquote(parts.path) if parts.scheme else address
    return HomePlace(Path(path).expanduser().absolute())


class HomePlace:
    """The home of a hub that does not run. No hub can start there while the process runs."""

    def __init__(self, home: Path) -> None:
        self.name = str(home)
        private_folder(home)
        self._folder = home / FOLDER
        held = lock.acquire(str(home / _LOCK))
        if held is None:
            raise HubError(say("A hub runs in {home}. Stop it with: tabane stop", home=home))
        self._lock = held
        self._stores: dict[str, Store] = {}
        self._tables: list[CollectionTable] = []

    async def source(self, domain: str, shape: Shape) -> CopySource:
        """Return a collection to copy from. Raises StoreError."""
        return EmbeddedSource(await self._table(domain, shape))

    async def target(self, domain: str, shape: Shape) -> CopyTarget:
        """Return a collection to copy to. Raises StoreError."""
        return EmbeddedTarget(await self._table(domain, shape))

    async def is_begun(self) -> bool:
        return self._mark.exists()

    async def begin(self) -> None:
        """Mark the home. It has no records."""
        private_folder(self._folder)
        self._mark.touch(mode=0o600)

    async def end(self) -> None:
        """Remove the mark: the migration is complete."""
        self._mark.unlink(missing_ok=True)
        for store in self._stores.values():
            await store.database.run(forget_copies)

    @property
    def _mark(self) -> Path:
        return self._folder / MARK

    async def collection(self, domain: str, shape: Shape, told: Indexed) -> Collection:
        """Return a collection as the hub uses it, with complete indexes."""
        found = await (await self._store(domain, indexed=True)).collection(shape)
        index, table = found.engine.lexical, found.engine.table
        assert isinstance(index, LexicalIndex)
        settled = asyncio.ensure_future(index.settled())
        while not settled.done():
            if index.progress is not None:
                told(*index.progress)
            await asyncio.wait([settled], timeout=_POLLED)
        await settled
        if table.vectors is not None:
            await asyncio.to_thread(table.vectors.settle)
        return found

    async def _table(self, domain: str, shape: Shape) -> CollectionTable:
        table = await (await self._store(domain)).table(shape)
        self._tables.append(table)
        return table

    async def _store(self, domain: str, *, indexed: bool = False) -> Store:
        if domain not in self._stores:
            private_folder(self._folder)
            opening = open_lexical if indexed else None
            self._stores[domain] = await Store.open(str(self._folder), domain, lexical=opening)
        return self._stores[domain]

    async def release(self) -> None:
        """Close what is open. A second call does nothing."""
        tables, self._tables = self._tables, []
        for table in tables:
            await table.close()
        stores, self._stores = self._stores, {}
        for store in stores.values():
            await store.close()


SAMPLES = 24  # records of a collection that are compared, and asked for
_LIMIT = 10  # hits that have to be the same
_WIDER = 5 * _LIMIT  # hits among which they have to be
_OF_VECTORS, _OF_WORDS = 1e-4, 0.02  # by how much a score may differ; of words, as a part of it
_OF_CEILINGS = 1e-5  # by which part the worth of a query's words may differ if their statistics are the same
_LONGEST = 60  # characters of a text that are searched for
_VALUES = 50  # most frequent values of a field whose counts are compared


@dataclass(slots=True)
class Verification:
    """The differences between two collections, and how many queries were compared."""

    queries: int = 0
    differences: list[Message] = field(default_factory=list)

    def compare(self, what: Message, same: bool) -> None:
        """Note a comparison, and the difference if there is one."""
        self.queries += 1
        if not same:
            self.differences.append(what)


async def verified(
    source: Collection, target: Collection, shape: Shape, samples: Sequence[Record]
) -> Verification:
    """Compare two collections, which nobody changes meanwhile. ``samples``: records with their vectors."""
    found = Verification()
    await _compare_counts(source, target, shape, found)
    for record in samples:
        await _compare_record(target, record, found)
        await _compare_vectors(source, target, record, found)
        await _compare_words(source, target, record, found)
    return found


async def _compare_counts(source: Collection, target: Collection, shape: Shape, found: Verification) -> None:
    before, after = await source.count(EVERYTHING), await target.count(EVERYTHING)
    found.compare(
        say("number of records: {before}, then {after}", before=before, after=after), before == after
    )
    for space in source.shape.spaces:
        before = await source.embedded(space.name, EVERYTHING)
        after = await target.embedded(space.name, EVERYTHING)
        message = say(
            "number of vectors of {name}: {before}, then {after}", before=before, after=after, name=space.name
        )
        found.compare(message, before == after)
    for each in shape.fields:
        if each.kind in (Kind.STRING, Kind.STRINGS, Kind.BOOLEAN):
            counts = [await one.facet(each.name, EVERYTHING, _VALUES) for one in (source, target)]
            message = say("counts of the values of {name} differ", name=each.name)
            found.compare(message, counts[0] == counts[1])


async def _compare_record(target: Collection, record: Record, found: Verification) -> None:
    copied = (await target.get([record.key]))[0]
    vectors = {name: (await target.vectors([record.key], name))[0] for name in record.vectors}
    same = copied == msgspec.structs.replace(record, vectors={}) and vectors == record.vectors
    found.compare(say("another record: {key}", key=record.key), same)


async def _compare_vectors(
    source: Collection, target: Collection, record: Record, found: Verification
) -> None:
    for name, vector in record.vectors.items():
        query = VectorQuery({name: vector})
        hits = [(await one.nearest(query, EVERYTHING, _LIMIT)).hits for one in (source, target)]
        best = [{hit.key for hit in several} for several in hits]
        keys = sorted(best[0] | best[1])
        scores = [await one.similarities(query, keys) for one in (source, target)]
        message = say("records that are similar to {key} differ", key=record.key)
        # An index may miss one of the best. A vector that is another one has another similarity.
        most = 2 * len(best[0] & best[1]) >= max(len(best[0]), len(best[1]))
        found.compare(message, most and all(map(_close, *scores)))


def _close(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= _OF_VECTORS


async def _compare_words(source: Collection, target: Collection, record: Record, found: Verification) -> None:
    for text in record.texts.values():
        query = LexicalQuery(text[:_LONGEST])
        hits = [await one.search(query, EVERYTHING, _WIDER) for one in (source, target)]
        message = say("hits for the words of {key} differ", key=record.key)
        found.compare(message, alike(hits[0], hits[1]))


def alike(one: EngineHits, other: EngineHits) -> bool:
    """Return whether the best hits of each are among those of the other, with about the same score.

    Deleted records stay in the statistics of an index until it is tidied, and a copy never had them. Then
    words are worth something else there, and only the hits are compared.
    """
    counted_alike = math.isclose(one.ceiling, other.ceiling, rel_tol=_OF_CEILINGS)
    among = _among if counted_alike else _mostly_among
    return among(one, other) and among(other, one)


def _among(one: EngineHits, other: EngineHits) -> bool:
    scores = {hit.key: hit.score for hit in other.hits}
    # If there are more hits than were asked for, those below the last one are unknown.
    unknown = other.hits[-1].score if len(other.hits) == _WIDER else 0.0
    return all(
        abs(scores.get(hit.key, unknown) - hit.score) <= _OF_WORDS * hit.score for hit in one.hits[:_LIMIT]
    )


def _mostly_among(one: EngineHits, other: EngineHits) -> bool:
    """Return whether all hits are there; the first and half of the best if more match than were asked for."""
    best, there = [hit.key for hit in one.hits[:_LIMIT]], {hit.key for hit in other.hits}
    missing = [key for key in best if key not in there]
    return not missing or (len(there) == _WIDER and best[0] in there and 2 * len(missing) <= len(best))


Told = Callable[[Message, str, int, int], None]
"""Is told what is done with which collection, and how many records of how many."""


@dataclass(frozen=True, slots=True)
class MigratedCollection:
    """The result for one collection. ``copied``: records of this run. Times are seconds of this run."""

    domain: str
    name: str
    records: int
    vectors: Mapping[str, int]
    copied: int = 0
    copying: float = 0.0
    indexing: float = 0.0
    queries: int = 0


class Migration:
    """Copies the collections of ``shapes``, by domain, from one place to another."""

    def __init__(
        self,
        source: MigrationPlace,
        target: MigrationPlace,
        shapes: Mapping[str, Sequence[Shape]],
        told: Told,
    ) -> None:
        self._source, self._target, self._told = source, target, told
        self._shapes = [(domain, shape) for domain, several in shapes.items() for shape in several]

    async def run(self) -> list[MigratedCollection]:
        """Copy and verify everything. Raises HubError if the target is in use, or differs afterwards."""
        try:
            await self._begin()
            copied = [await self._copied(domain, shape) for domain, shape in self._shapes]
            samples = [await self._samples(domain, shape) for domain, shape in self._shapes]
            await self._release()
            done = [
                await self._verified(each, shape, sample)
                for each, (_, shape), sample in zip(copied, self._shapes, samples, strict=True)
            ]
            await self._target.end()
            return done
        finally:
            await self._release()

    async def _release(self) -> None:
        await self._source.release()
        await self._target.release()

    async def _begin(self) -> None:
        if await self._source.is_begun():
            raise HubError(
                say(
                    "{source} is incomplete: a migration to it has not ended. Nothing was changed. End that "
                    "migration first, or give it up",
                    source=self._source.name,
                )
            )
        if await self._target.is_begun():
            return
        for domain, shape in self._shapes:
            target = await self._target.target(domain, shape)
            if (await target.records()) > 0:
                raise HubError(
                    say(
                        "{target} already contains {name}. Nothing was changed. Migrate to an empty "
                        "database or folder",
                        target=self._target.name,
                        name=shape.name,
                    )
                )
        await self._target.begin()

    # Copying

    async def _copied(self, domain: str, shape: Shape) -> MigratedCollection:
        source = await self._source.source(domain, shape)
        target = await self._target.target(domain, shape)
        contents = await source.contents()
        before = await target.progress()
        if before is None:
            await target.begin(contents)
            before = await target.progress()
            assert before is not None
        if not before.complete and before.mark != contents.mark:
            raise self._changed()
        began = time.monotonic()
        if not before.complete:
            await self._copy(source, target, before, contents, shape.name)
            after = await source.contents()
            if contents.mark != after.mark:
                raise self._changed()
        copied = time.monotonic()
        if not before.complete:
            title = say("Indexing")
            await target.finish(lambda done: self._told(title, shape.name, done, contents.records))
        return MigratedCollection(
            domain,
            shape.name,
            contents.records,
            contents.vectors,
            contents.records - before.records,
            copied - began,
            time.monotonic() - copied,
        )

    def _changed(self) -> HubError:
        return HubError(
            say(
                "{source} was changed after the migration began, so {target} is not complete. Stop all hubs "
                "that use it, delete what is in {target}, and migrate again",
                source=self._source.name,
                target=self._target.name,
            )
        )

    async def _copy(
        self,
        source: CopySource,
        target: CopyTarget,
        before: CopyProgress,
        contents: CollectionContents,
        name: str,
    ) -> None:
        """Copy the records behind the last one, and read the next ones meanwhile."""
        done, title = before.records, say("Copying")
        following = asyncio.ensure_future(source.after(before.row, MOST_COPIED))
        try:
            while records := await following:
                following = asyncio.ensure_future(source.after(records[-1].row, MOST_COPIED))
                for batch in batches(records):
                    await target.write(batch)
                    done += len(batch)
                    self._told(title, name, done, contents.records)
        finally:
            following.cancel()

    # Verification

    async def _samples(self, domain: str, shape: Shape) -> list[Record]:
        """Return records from all parts of a collection, with their vectors."""
        source = await self._source.source(domain, shape)
        progress = await (await self._target.target(domain, shape)).progress()
        last = progress.row if progress else 0
        found: dict[str, Record] = {}
        for part in range(SAMPLES):
            for stored in await source.after(last * part // SAMPLES, 1):
                found[stored.record.key] = stored.record
        return list(found.values())

    async def _verified(
        self, copied: MigratedCollection, shape: Shape, samples: Sequence[Record]
    ) -> MigratedCollection:
        def told(done: int, total: int) -> None:
            self._told(say("Indexing"), shape.name, done, total)

        began = time.monotonic()
        source = await self._source.collection(copied.domain, shape, told)
        target = await self._target.collection(copied.domain, shape, told)
        indexed = time.monotonic()
        self._told(say("Verifying"), shape.name, 0, 0)
        found = await verified(source, target, shape, samples)
        if found.differences:
            raise HubError(
                say(
                    "{name} in {target} differs from {source}: {difference}. Delete what is in {target}, "
                    "and migrate again",
                    name=shape.name,
                    target=self._target.name,
                    source=self._source.name,
                    difference=found.differences[0],
                )
            )
        return replace(copied, queries=found.queries, indexing=copied.indexing + indexed - began)
