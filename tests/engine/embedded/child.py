"""Processes that die: forked from one that has everything imported, so that hundreds take seconds.

``python -m tests.engine.embedded.child`` reads orders, a JSON object a line, and forks a child for each. The
child says ``pid N``, then what it has to say; ``ended N`` is said when it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import json
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tabane.engine.embedded.clean_points import PAGES
from tabane.engine.embedded.database import MIGRATIONS, Database, Migration
from tabane.engine.embedded.lexical.lexical_index import LexicalIndex, open_lexical
from tabane.engine.embedded.store import PersistentVectorCache, Store
from tabane.errors import StoreError
from tabane.search.records import EVERYTHING, Record
from tests.engine.embedded import documents
from tests.engine.embedded.lanes import LANES, Operation, operations
from tests.engine.embedded.opening import EmbeddedCollection, embedded
from tests.engine.embedded.shapes import SHAPE
from tests.engine.embedded.vectors import lanes

_NOBODY = 65534
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_PRIVATE = (1 << 14) | (1 << 18)


def say(text: str) -> None:
    """One line to the test; short enough to go in whole beside those of others."""
    os.write(1, text.encode() + b"\n")


async def write(order: dict[str, Any]) -> None:
    """Run lanes, and compaction all the while, until killed: ``open``, then ``done <lane>`` each time."""

    async with embedded(order["home"], pages=order.get("pages", PAGES)) as collection:
        say("open")
        lanes = (_lane(collection, order["seed"], lane) for lane in range(LANES))
        await asyncio.gather(_compacting(collection), *lanes)


async def index(order: dict[str, Any]) -> None:
    """As :func:`write`, with an index of words that is committed, and caught up, all the while."""

    store = await Store.open(order["home"], "test", lexical=open_lexical)
    collection = await store.collection(SHAPE)
    say("open")
    lanes = (_lane(collection, order["seed"], lane) for lane in range(LANES))
    await asyncio.gather(_compacting(collection), _settling(collection), *lanes)


async def vectors(order: dict[str, Any]) -> None:
    """As :func:`write`, with vectors that are put into their files, and made dense, all the while."""

    store = await Store.open(order["home"], "test", pages=order.get("pages", PAGES))
    say("opening")
    collection = await store.collection(lanes.SHAPE)
    say("open")
    several = (_vector_lane(collection, order["seed"], lane) for lane in range(LANES))
    await asyncio.gather(_compacting(collection), _flushing(collection), *several)


async def bulk(order: dict[str, Any]) -> None:
    """Fill a collection, put all into its files, write a little more, and wait: ``done`` at the end."""

    store = await Store.open(order["home"], "test", pages=order["pages"])
    collection = await store.collection(lanes.LARGE)
    await collection.upsert([lanes.large(number) for number in range(order["count"])])
    assert collection.engine.table.vectors is not None
    await asyncio.to_thread(collection.engine.table.vectors.settle)
    await collection.upsert([lanes.large(number) for number in range(order["count"], order["count"] + 5)])
    await store.database.run(lambda connection: None)  # begins when the checkpoint behind that has ended
    say("done")
    await asyncio.sleep(3600)


async def exchange(order: dict[str, Any]) -> None:
    """Put documents of several sizes again and again: ``done <name> <generation>`` each time.

    With an index of words and vectors that are put into their files, and compaction, all the while.
    """

    store = await Store.open(order["home"], "test", lexical=open_lexical)
    collection = await store.collection(documents.SHAPE)
    say("open")
    several = (_documents(collection, name, parts) for name, parts in documents.SIZES.items())
    await asyncio.gather(_compacting(collection), _flushing(collection), *several)


async def _documents(collection: EmbeddedCollection, name: str, parts: int) -> None:
    there = await documents.generation_of(collection, name, parts)
    for generation in range(0 if there is None else there + 1, sys.maxsize):
        await documents.advance(collection, name, generation, parts)
        say(f"done {name} {generation}")


async def spaces(order: dict[str, Any]) -> None:
    """Fill a space and let it succeed, over and over: ``begun N`` and ``done N`` of each generation.

    Generation N is of the model N, and has the vector of :func:`lanes.of_generation` for each record.
    """

    async def succeed(collection: EmbeddedCollection) -> None:
        say("open")
        keys = [f"k{number:03}" for number in range(lanes.RECORDS)]
        if not collection.spaces:
            await collection.upsert([Record(key=key) for key in keys])
        for number in range(order["first"], sys.maxsize):
            say(f"begun {number}")
            await collection.drop_space("next")
            await collection.add_space(lanes.space_of("next", number))
            while lacking := await collection.lacking("next", limit=60):
                vector = {"next": lanes.of_generation(number)}
                await collection.attach({each.row: vector for each in lacking}, str(number))
            await collection.succeed("text", "next")
            say(f"done {number}")

    store = await Store.open(order["home"], "test")
    collection = await store.collection(lanes.BARE)
    await asyncio.gather(_compacting(collection), succeed(collection))


async def kept(order: dict[str, Any]) -> None:
    """Put vectors that are made of their keys, and ask for older ones, until killed: ``done N`` each time."""

    store = await Store.open(order["home"], "cache")
    storage = await PersistentVectorCache.open(store.database, order["most"])
    say("open")
    for number in range(order["first"], sys.maxsize):
        await storage.put([kept_pair(number * 100 + each) for each in range(100)])
        say(f"done {number}")
        await storage.get([kept_pair(each)[0] for each in range(0, number * 100, 7)][-300:])


def kept_pair(number: int) -> tuple[bytes, bytes]:
    key = hashlib.sha256(str(number).encode()).digest()
    return key, key * (1 + number % 5)


async def _vector_lane(collection: EmbeddedCollection, seed: int, lane: int) -> None:
    for operation in operations(seed, lane):
        await perform(collection, lanes.with_vectors(operation))
        say(f"done {lane}")


async def _flushing(collection: EmbeddedCollection) -> None:
    """The vectors' own thread does this each 2 seconds: too seldom to be killed in it."""
    assert collection.engine.table.vectors is not None
    while True:
        await asyncio.to_thread(collection.engine.table.vectors.settle)


async def _settling(collection: EmbeddedCollection) -> None:
    assert isinstance(collection.engine.lexical, LexicalIndex)
    while True:
        await collection.engine.lexical.settled()
        say("settled")


async def _lane(collection: EmbeddedCollection, seed: int, lane: int) -> None:
    for operation in operations(seed, lane):
        await perform(collection, operation)
        say(f"done {lane}")


async def perform(collection: EmbeddedCollection, operation: Operation) -> None:
    if operation.keys:
        await collection.delete(operation.keys)
    else:
        await collection.upsert(operation.records)


async def _compacting(collection: EmbeddedCollection) -> None:
    while True:
        await collection.engine.compact()
        await asyncio.sleep(0)


def _copied(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE copy (key TEXT PRIMARY KEY, payload BLOB NOT NULL)")
    for row in connection.execute("SELECT key, payload FROM record_1").fetchall():
        connection.execute("INSERT INTO copy VALUES (?, ?)", row)


def _counted(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE counted (number INTEGER NOT NULL)")
    connection.execute("INSERT INTO counted SELECT count(*) FROM copy")


def _stuck(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE copy (key TEXT PRIMARY KEY, payload BLOB NOT NULL)")
    say("stuck")
    sys.stdin.read()


MORE_MIGRATIONS: tuple[Migration, ...] = (*MIGRATIONS, _copied, _counted)


async def migrate(order: dict[str, Any]) -> None:
    """Bring the store to a version that is not out yet, and wait to be killed.

    ``stuck``: it waits in the midst of the first step, and says so.
    """
    say("open")
    migrations = (*MIGRATIONS, _stuck) if order.get("stuck") else MORE_MIGRATIONS
    Database.open(os.path.join(order["home"], "test.db"), migrations)
    say("done 0")
    sys.stdin.read()


async def attempt(order: dict[str, Any]) -> None:
    """Open the store and put a record: ``{"error": name, "message": text}``, null for none.

    ``as_nobody``: as a user who owns nothing there.
    """
    if order.get("as_nobody") and os.getuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)

    error: BaseException | None = None
    try:
        async with embedded(order["home"]) as collection:
            await collection.upsert([Record(key="attempt")])
    except StoreError as raised:
        error = raised
    say(json.dumps({"error": type(error).__name__ if error else None, "message": str(error)}))


async def fill(order: dict[str, Any]) -> None:
    """Write to a disk of 4 MB until it is full, make room, go on. Reports what was found at each point."""
    home = order["home"]
    if not _mounted(home):
        say(json.dumps({"mounted": False}))
        return
    ballast = os.path.join(home, "ballast")
    Path(ballast).write_bytes(bytes(1_000_000))
    report: dict[str, Any] = {"mounted": True}

    async with embedded(home) as collection:
        stored = 0
        try:
            while True:
                await collection.upsert([_heavy(stored + number) for number in range(5)])
                stored += 5
        except StoreError as error:
            report.update(error=type(error).__name__, message=str(error), acknowledged=stored)
        report["while_full"] = await collection.count(EVERYTHING)
        os.unlink(ballast)
        await collection.upsert([_heavy(stored)])
        report["with_room"] = await collection.count(EVERYTHING)
    async with embedded(home) as collection:
        report["reopened"] = await collection.count(EVERYTHING)
        keys = [f"{number:05}" for number in range(report["acknowledged"] + 1)]
        found = [
            record
            for first in range(0, len(keys), 500)
            for record in await collection.get(keys[first:][:500])
        ]
        report["whole"] = found == [_heavy(number) for number in range(len(keys))]
    say(json.dumps(report))


def _heavy(number: int) -> Record:
    return Record(key=f"{number:05}", fields={"likes": number}, payload=bytes([number % 256]) * 5000)


def _mounted(folder: str) -> bool:
    """Put a small disk there that only this process sees and that goes with it. False where none may."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        return False
    if libc.unshare(_NEW_MOUNTS) and libc.unshare(_NEW_USERS | _NEW_MOUNTS):
        return False
    if libc.mount(b"none", b"/", None, _PRIVATE, None):
        return False
    return not libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, b"size=4m")


KINDS: dict[str, Callable[[dict[str, Any]], Coroutine[Any, Any, None]]] = {
    "attempt": attempt,
    "bulk": bulk,
    "exchange": exchange,
    "fill": fill,
    "index": index,
    "kept": kept,
    "migrate": migrate,
    "spaces": spaces,
    "vectors": vectors,
    "write": write,
}


def _forked(order: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(pid, 0)
            say(f"ended {os.waitstatus_to_exitcode(status)}")
        return
    try:
        say(f"pid {os.getpid()}")
        asyncio.run(KINDS[order["kind"]](order))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    for line in sys.stdin:
        _forked(json.loads(line))


if __name__ == "__main__":
    main()
