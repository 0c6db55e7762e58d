"""The rate of a migration between a home and PostgreSQL, in both directions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.postgres_server import PostgresServer

from tabane.engine.collection_copying import CollectionContents
from tabane.engine.embedded.collection_copies import EmbeddedTarget
from tabane.engine.embedded.store import Store
from tabane.hub.stores.database_place import DatabasePlace
from tabane.hub.stores.migration import HomePlace, MigratedCollection, Migration
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.search.records import Record, Shape, StoredRecord

DOMAIN = "bench"
_TOGETHER = 2000


@dataclass(frozen=True, slots=True)
class MigrationRates:
    """Records a second: copied with vectors, and with keyword index and verification. CPU: ms a record."""

    records: int
    copied: float
    whole: float
    cpu: float


async def measured_migration(
    server: PostgresServer, shape: Shape, records: Sequence[Record]
) -> tuple[MigrationRates, MigrationRates]:
    """Return the rates to the database, and back."""
    url = server.url(f"migration_{len(records)}")
    with tempfile.TemporaryDirectory() as folder:
        there = await migrated(Path(folder, "home"), url, shape, _batches(records))
        return there, await _migrated(_database(url), HomePlace(Path(folder, "back")), shape)


async def migrated(
    home: Path, url: str, shape: Shape, batches: Iterable[Sequence[StoredRecord]]
) -> MigrationRates:
    """Fill a home, whose collection is of the domain ``DOMAIN``, and migrate it to a database."""
    await _fill(home, shape, batches)
    source = HomePlace(home)
    await source.collection(DOMAIN, shape, lambda done, total: None)  # builds its keyword index
    await source.release()
    return await _migrated(source, _database(url), shape)


def _database(url: str) -> DatabasePlace:
    return DatabasePlace("postgresql", PostgresEngine(url, migrating=True))


async def _migrated(
    source: HomePlace | DatabasePlace, target: HomePlace | DatabasePlace, shape: Shape
) -> MigrationRates:
    before = sum(os.times()[:2])
    done: MigratedCollection = (await Migration(source, target, {DOMAIN: [shape]}, lambda *_: None).run())[0]
    cpu = sum(os.times()[:2]) - before
    whole = done.copied / (done.copying + done.indexing)
    return MigrationRates(done.copied, done.copied / done.copying, whole, 1000 * cpu / done.copied)


async def _fill(home: Path, shape: Shape, batches: Iterable[Sequence[StoredRecord]]) -> None:
    store = await Store.open(str(home / "store"), DOMAIN)
    table = await store.table(shape)
    target = EmbeddedTarget(table)
    await target.begin(CollectionContents("", spaces=shape.spaces))
    for batch in batches:
        await target.write(batch)
    await table.close()
    await store.close()


def _batches(records: Sequence[Record]) -> Iterator[list[StoredRecord]]:
    for first in range(0, len(records), _TOGETHER):
        part = records[first : first + _TOGETHER]
        yield [StoredRecord(record=record, row=first + place) for place, record in enumerate(part, 1)]
