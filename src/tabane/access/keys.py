"""API keys in use: from a secret to what its holder may do at this moment."""

from __future__ import annotations

import asyncio
import hmac
import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from tabane.access.key_store import FILE, KeyRecord, KeyStore, Stamp, hash_of, id_in, revoked
from tabane.access.permissions import PermissionRules
from tabane.access.profiles import Profile
from tabane.errors import BadArguments, ConfigurationError, StoreError, TabaneError
from tabane.messages import say
from tabane.operations.caller import Access, CallTarget

log = logging.getLogger(__name__)

MOST_LIVE = 1_024
"""Keys that stay in memory without a session that uses them."""

LOOK = 1.0
"""Seconds between two looks at the file, while keys are in use."""

USE_EVERY = 60.0
"""Seconds between two records of a key's last use."""

FLUSH = 5.0
"""Seconds for which uses of keys are collected before they are written."""

Refusal = Literal["malformed", "unknown", "wrong", "expired", "revoked"]
"""Why a secret was refused: for the audit log, never for the one who sent it."""

_NOBODY = bytes(32)
_Result = TypeVar("_Result")


class KeyAccess(Access):
    """Access of the holder of a key. It is live, and all sessions of the key share the object."""

    __slots__ = (
        "__weakref__",
        "_clock",
        "_note",
        "_noted",
        "_profile",
        "_revision",
        "_rules",
        "holder",
        "record",
    )
    holder: str

    def __init__(
        self,
        record: KeyRecord,
        profile: Callable[[str], Profile | None],
        note: Callable[[str, float], None],
        clock: Callable[[], float],
    ) -> None:
        self.holder = f"key:{record.id}"
        self.record = record
        self._profile, self._note, self._clock = profile, note, clock
        self._rules = PermissionRules(record.patterns)
        self._revision = 0
        self._noted = record.used or 0.0

    def __repr__(self) -> str:
        return f"KeyAccess({self.holder})"

    @property
    def id(self) -> str:
        """The id of the key."""
        return self.record.id

    @property
    def label(self) -> str:
        return self.record.name

    @property
    def tier(self) -> str:
        return self.record.tier

    @property
    def revision(self) -> int:
        profile = self._profile(self.record.profile) if self.record.profile else None
        expired = self.record.state(self._clock()) == "expired"
        return self._revision + expired + (profile.revision + 1 if profile else 0)

    @property
    def everything(self) -> bool:
        return self._rules.everything and not self.record.profile and self.state == "active"

    @property
    def state(self) -> str:
        """Return ``active``, ``expired`` or ``revoked``."""
        return self.record.state(self._clock())

    def allows(self, target: CallTarget) -> bool:
        record, now = self.record, self._clock()
        if record.revoked is not None or (record.expires is not None and record.expires <= now):
            return False
        if now - self._noted >= USE_EVERY:
            self.used()
        if record.profile:
            profile = self._profile(record.profile)
            if profile is None or not profile.allows(target):
                return False
        return self._rules.allows(target)

    def sees_server(self, server: str) -> bool:
        if self.state != "active":
            return False
        if self.record.profile:
            profile = self._profile(self.record.profile)
            if profile is None or not profile.sees_server(server):
                return False
        return self._rules.sees_server(server)

    def used(self) -> None:
        """Note that the key is in use now. It is recorded at most once a minute."""
        now = self._clock()
        if abs(now - self._noted) >= USE_EVERY:
            self._noted = now
            self._note(self.record.id, now)

    def replace(self, record: KeyRecord) -> None:
        """Put another record of the same key in force."""
        if record != self.record:
            if record.patterns != self.record.patterns:
                self._rules = PermissionRules(record.patterns)
            self.record = record
            self._revision += 1


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """The outcome of a secret: the access of its key, or why there is none. ``id`` is empty if unknown."""

    access: KeyAccess | None
    refusal: Refusal | None = None
    id: str = ""


class KeyHolder(NamedTuple):
    """Who a key belongs to: its own name, and that of the person, which may be empty."""

    key: str
    person: str


class SharedKeys(Protocol):
    """The keys of a group of hubs, which is the truth about them. Raises StoreError if it is away."""

    async def add(self, record: KeyRecord) -> bool:
        """Add a key. Return False if its id exists. Raises BadArguments if its name is taken."""
        ...

    async def change(self, record: KeyRecord) -> KeyRecord | None:
        """Replace a key by its changed record, and return it as it is there now; None if it is gone."""
        ...

    async def record_uses(self, uses: Mapping[str, float]) -> None:
        """Record the times of last use of keys."""
        ...

    async def changed(self, after: int) -> SharedChanges:
        """Return the next keys that were changed after the change of that number."""
        ...


class SharedChanges(NamedTuple):
    """Some changed keys, and the number of the last change. ``more`` says whether further ones follow."""

    records: list[KeyRecord]
    last: int
    more: bool


class KeyRing:
    """Finds and changes API keys. The file is opened when it exists and a key is looked up, or created.

    ``profile`` returns the profile of a name. One asyncio task at a time uses the thread's connection.
    In a group of hubs, ``shared`` has the keys, and the file is a copy that :meth:`follow` keeps up to date:
    so looking up a key asks no database.
    """

    def __init__(
        self,
        home: Path,
        loop: asyncio.AbstractEventLoop,
        profile: Callable[[str], Profile | None] = lambda name: None,
        clock: Callable[[], float] = time.time,
        most: int = MOST_LIVE,
    ) -> None:
        self._most = most
        self.shared: SharedKeys | None = None
        self._followed = 0
        self._uploaded = False
        self._path, self._loop, self._profile, self.clock = home / FILE, loop, profile, clock
        self._store: KeyStore | None = None
        self._stamp: Stamp | None = None
        self._live: WeakValueDictionary[str, KeyAccess] = WeakValueDictionary()
        self._recent: OrderedDict[str, KeyAccess] = OrderedDict()
        self._uses: dict[str, float] = {}
        self._turn = asyncio.Lock()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked = 0.0
        self._closed = False

    # -- look-up ---------------------------------------------------------------------------------

    def find(self, secret: str) -> KeyAccess | None:
        """Return the access of an active key; None for everything else. Raises as :meth:`judge`."""
        return self.judge(secret).access

    def judge(self, secret: str) -> KeyVerdict:
        """Return the access of a key, or why it is refused.

        Raises StoreError or ConfigurationError if the file of keys exists and cannot be used.
        """
        id = id_in(secret)
        if id is None:
            return KeyVerdict(None, "malformed")
        access = self._recent.get(id) or self._live.get(id) or self._load_access(id)
        # A key that does not exist is compared too, so that time does not tell whether it does.
        right = hmac.compare_digest(hash_of(secret), access.record.hash if access else _NOBODY)
        if access is None:
            return KeyVerdict(None, "unknown", id)
        if not right:
            return KeyVerdict(None, "wrong", id)
        return self._judge_access(access)

    def with_id(self, id: str) -> KeyAccess | None:
        """Return the access of an active key that was shown before; None for everything else.

        Raises as :meth:`judge`.
        """
        access = self._recent.get(id) or self._live.get(id) or self._load_access(id)
        return None if access is None else self._judge_access(access).access

    def _judge_access(self, access: KeyAccess) -> KeyVerdict:
        state = access.state
        if state == "active":
            access.used()
            self._live[access.id] = self._recent[access.id] = access  # one object for each key in use
            self._recent.move_to_end(access.id)
            if len(self._recent) > self._most:
                self._recent.popitem(last=False)
            self._do_later("look", LOOK, self._look_for_changes)
            return KeyVerdict(access, None, access.id)
        return KeyVerdict(None, "expired" if state == "expired" else "revoked", access.id)

    def _load_access(self, id: str) -> KeyAccess | None:
        now = self._loop.time()
        if self._store is not None and now - self._checked >= LOOK and not self._turn.locked():
            self._checked = now
            if self._store.stamp() is None:
                self._leave_store()
        store = self._open_store()
        record = store.one(id) if store else None
        return None if record is None else KeyAccess(record, self._profile, self._note, self.clock)

    def exist(self) -> bool:
        """Return whether any key is not revoked. Raises as :meth:`judge`."""
        store = self._open_store()
        return store is not None and store.exist()

    @property
    def live(self) -> int:
        """Return how many keys are in memory."""
        return len(self._live)

    # -- changes ---------------------------------------------------------------------------------

    async def add(self, record: KeyRecord) -> bool:
        """Add a key. Return False if its id exists. Raises BadArguments if its name is taken."""
        if self.shared is not None:
            added = await self.shared.add(record)
            if added:
                await self._take_shared([record])
            return added
        try:
            return await self._in_thread(lambda store: store.add(record), create=True)
        except sqlite3.IntegrityError:
            raise name_taken(record.name) from None

    async def change(self, record: KeyRecord) -> KeyRecord:
        """Change or revoke a key, and return it. It applies at once, in open sessions too.

        A key that another request revoked in the meantime stays revoked.
        """
        if self.shared is not None:
            shared = await self.shared.change(record) or revoked(record, self.clock())
            await self._take_shared([shared])
            return shared
        changed = await self._in_thread(lambda store: store.change(record))
        changed = changed or revoked(record, self.clock())
        access = self._live.get(record.id)
        if access is not None:
            access.replace(changed)
        return changed

    async def read(self, work: Callable[[KeyStore], _Result], absent: _Result) -> _Result:
        """Return what ``work`` reads in the file, in a thread; ``absent`` if there is no file."""
        await self._write_uses()
        try:
            return await self._in_thread(work)
        except FileNotFoundError:
            return absent

    async def holders(self, names: Iterable[str]) -> dict[str, KeyHolder]:
        """Return the names of keys and people by the names of holders, such as ``key:ID``.

        Revoked keys are among them. What has no key here, and a file that cannot be read, has no names.
        """
        ids = sorted({name.removeprefix("key:") for name in names if name.startswith("key:")})
        none: dict[str, KeyRecord] = {}
        if not ids:
            return {}
        try:
            found = await self.read(lambda store: store.some(ids), none)
        except (StoreError, ConfigurationError) as error:
            log.warning("the names of keys cannot be read: %s", error)
            return {}
        return {f"key:{id}": KeyHolder(record.name, record.person) for id, record in found.items()}

    async def follow(self) -> None:
        """Copy the keys that other hubs have changed. The first time, give them the keys of this hub.

        Raises StoreError.
        """
        shared = self.shared
        if shared is None:
            return
        if not self._uploaded:
            await self._upload_own_keys(shared)
            self._uploaded = True
        while True:
            changes = await shared.changed(self._followed)
            if changes.records:
                await self._take_shared(changes.records)
            self._followed = changes.last
            if not changes.more:
                return

    async def _upload_own_keys(self, shared: SharedKeys) -> None:
        try:
            mine: list[KeyRecord] = await self._in_thread(KeyStore.active)
        except FileNotFoundError:
            return
        for record in mine:
            try:
                await shared.add(record)
            except BadArguments:
                log.warning("another key of the group has the name %s: this one is renamed", record.name)
                await shared.add(replace(record, name=f"{record.name[:80]}-{record.id}"))

    async def _take_shared(self, records: list[KeyRecord]) -> None:
        """Put keys in force as they are at the other hubs."""
        await self._in_thread(lambda store: store.put(records), create=True)
        for record in records:
            self._apply_record(record.id, record)

    async def close(self) -> None:
        """Write what was collected, and close the file."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._write_uses()
        async with self._turn:
            if self._store is not None:
                self._store.close()
                self._store = None

    # -- the file --------------------------------------------------------------------------------

    def _open_store(self) -> KeyStore | None:
        """Return the open file; None if there is none."""
        if self._store is None and not self._closed:
            try:
                self._use_store(KeyStore(self._path))
            except FileNotFoundError:
                return None
        return self._store

    async def _in_thread(self, work: Callable[[KeyStore], _Result], *, create: bool = False) -> _Result:
        """Return the result of ``work``. Raises FileNotFoundError if there is no file."""
        async with self._turn:
            if self._store is not None and self._store.stamp() is None:
                self._leave_store()
            if self._store is None:
                opened = await asyncio.to_thread(KeyStore, self._path, create=create)
                return await asyncio.to_thread(work, self._use_store(opened))
            return await asyncio.to_thread(work, self._store)

    def _use_store(self, opened: KeyStore) -> KeyStore:
        """Return the open file: this one, unless a look-up opened it in the meantime."""
        if self._store is None:
            self._store = opened
            self._stamp = opened.stamp()
        else:
            opened.close()
        return self._store

    def _leave_store(self) -> None:
        """Leave a file that was removed or replaced."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _look_for_changes(self) -> None:
        """Look whether another process changed the file, and if so, read the keys in use again."""
        if not self._live or self._closed:
            return
        try:
            stamp = self._store.stamp() if self._store else None
        except StoreError as error:
            log.warning("the file of keys cannot be read: %s", error)
            stamp = None
        if stamp is None or stamp != self._stamp:
            self._start_task(self._refresh_live(stamp))
        self._do_later("look", LOOK, self._look_for_changes)

    async def _refresh_live(self, stamp: Stamp | None) -> None:
        """Read the keys in use again. One that does not exist any more, or cannot be read, is revoked."""
        ids = list(self._live)
        try:
            found = await self._in_thread(lambda store: store.some(ids))
            self._stamp = stamp or (self._store.stamp() if self._store else None)
        except FileNotFoundError:
            found = {}
        except (StoreError, ConfigurationError) as error:
            log.error("the keys in use are refused until their file can be read: %s", error)
            found, self._stamp = {}, None
        for id in ids:
            self._apply_record(id, found.get(id))

    def _apply_record(self, id: str, record: KeyRecord | None) -> None:
        access = self._live.get(id)
        if access is None:
            return
        if record is None or record.hash != access.record.hash:
            record = revoked(access.record, self.clock())
            self._recent.pop(id, None)
        access.replace(record)

    # -- last use --------------------------------------------------------------------------------

    def _note(self, id: str, when: float) -> None:
        self._uses[id] = when
        self._do_later("flush", FLUSH, self._start_writing_uses)

    def _start_writing_uses(self) -> None:
        self._start_task(self._write_uses())

    async def _write_uses(self) -> None:
        """Write the uses that were collected. If that fails, they are lost, and a warning is logged."""
        uses, self._uses = self._uses, {}
        if not uses:
            return
        try:
            await self._in_thread(lambda store: store.record_uses(uses))
            if self.shared is not None:
                await self.shared.record_uses(uses)
        except (TabaneError, FileNotFoundError) as error:
            log.warning("the last use of %s keys was not recorded: %s", len(uses), error)

    # -- time ------------------------------------------------------------------------------------

    def _do_later(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        """Do that work once after that time, unless it waits already."""
        if name in self._timers or self._closed:
            return

        def due() -> None:
            del self._timers[name]
            work()

        self._timers[name] = self._loop.call_later(seconds, due)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def name_taken(name: str) -> BadArguments:
    """Return the error for a new key whose name another key has."""
    message = say(
        "A key with the name {name} already exists. Choose another name, or revoke that key "
        "with: tabane keys revoke {name}",
        name=name,
    )
    return BadArguments(message, "name")
