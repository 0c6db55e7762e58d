"""The migration of collections: begun or continued, copied one after the other, and verified."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tabane.errors import HubError
from tabane.hub.stores.migration.places import MigrationPlace
from tabane.hub.stores.migration.verification import SAMPLES, verified
from tabane.messages import Message, say
from tabane.search.records import Record, Shape

if TYPE_CHECKING:
    from tabane.engine.collection_copying import CollectionContents, CopyProgress, CopySource, CopyTarget

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
        before = await self._progress(target, contents)
        began = time.monotonic()
        if not before.complete:
            await self._copy(source, target, before, contents, shape.name)
            self._check_unchanged(contents, await source.contents())
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

    async def _progress(self, target: CopyTarget, contents: CollectionContents) -> CopyProgress:
        found = await target.progress()
        if found is None:
            await target.begin(contents)
            found = await target.progress()
            assert found is not None
        if not found.complete and found.mark != contents.mark:
            raise self._changed()
        return found

    def _check_unchanged(self, before: CollectionContents, after: CollectionContents) -> None:
        if before.mark != after.mark:
            raise self._changed()

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
        from tabane.engine.collection_copying import MOST_COPIED, batches

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
