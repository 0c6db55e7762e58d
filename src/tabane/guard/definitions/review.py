"""Review of definitions: each list is compared with the pins, and what may not be offered is held back.

Short definitions are scanned in a thread, long ones in processes of their own. A list that is read again
costs a hash of its bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from msgspec import Raw, Struct

from tabane.errors import Conflict, Forbidden, UnknownName
from tabane.guard.definitions.definition import (
    KINDS,
    ChosenDefinition,
    DefinitionFinding,
    DefinitionKey,
    Judges,
    KeptFinding,
    Kind,
    SeenDefinition,
    definition_digest,
    kept_findings,
    read_definitions,
)
from tabane.guard.definitions.pins import (
    MOST_KNOWN,
    PINS_FILE,
    HoldPolicy,
    Pin,
    PinFile,
    PinnedDefinition,
    PinState,
    PinWrites,
    ServerPins,
    begins,
    compared,
    decided,
    scanned,
)
from tabane.guard.scanner.findings import ScannedText
from tabane.messages import Lang, Message, say

if TYPE_CHECKING:
    from tabane.guard.definitions.news import DefinitionNews


log = logging.getLogger(__name__)

LONG = 8_192
"""Bytes of a definition from which it is long. A rule may hold the interpreter while it reads a text."""

SLICE, REST = 0.004, 0.001
"""Seconds for which a thread scans, and for which it rests then, so that the event loop gets its turn."""

ScanResult = Sequence[DefinitionFinding] | None
"""Findings in a definition; None if it could not be scanned now, and is scanned again later."""


class LongScans(Protocol):
    """Scans long definitions, without holding up other requests."""

    async def scan(
        self,
        server: str,
        definitions: Sequence[ScannedText],
        others: Collection[str],
        siblings: Collection[str],
    ) -> Sequence[ScanResult]:
        """Return the result of each definition."""
        ...

    async def close(self) -> None:
        """Give up what is scanned now."""
        ...


class DefinitionScans:
    """Scans definitions. ``judges`` has the scanner; ``long`` scans what is too long for a thread.

    Without ``long``, all definitions are scanned in a thread.
    """

    def __init__(self, judges: Judges, long: LongScans | None = None) -> None:
        self._judges, self._long = judges, long

    async def scan(
        self,
        server: str,
        definitions: Sequence[ScannedText],
        others: Collection[str],
        siblings: Collection[str] = (),
    ) -> list[ScanResult]:
        """Return the result of each definition.

        ``others`` are the tools of the other servers, ``siblings`` those of this one besides ``definitions``.
        """
        siblings = frozenset(siblings).union(one.name for one in definitions if one.kind == "tool")
        elsewhere = self._long
        if elsewhere is None:
            return await asyncio.to_thread(self._scan_here, server, definitions, others, siblings)
        long = [len(one.body) > LONG for one in definitions]
        short = [one for one, is_long in zip(definitions, long, strict=True) if not is_long]
        found = await asyncio.to_thread(self._scan_here, server, short, others, siblings) if short else ()
        rest = [one for one, is_long in zip(definitions, long, strict=True) if is_long]
        there = iter(await elsewhere.scan(server, rest, others, siblings) if rest else ())
        here = iter(found)
        return [next(there if is_long else here) for is_long in long]

    async def close(self) -> None:
        """Give up what is scanned now, and end what scans long definitions."""
        if self._long is not None:
            await self._long.close()

    def _scan_here(
        self,
        server: str,
        definitions: Iterable[ScannedText],
        others: Collection[str],
        siblings: Collection[str],
    ) -> list[ScanResult]:
        """Scan in this thread, and rest now and then."""
        judge, found = self._judges(), list[ScanResult]()
        until = time.perf_counter() + SLICE
        for one in definitions:
            try:
                found.append(judge.scan(server, one.kind, one.name, bytes(one.body), others, siblings))
            except Exception:
                log.exception("%s: the definition of %s could not be scanned", server, one.name)
                found.append(None)
            if time.perf_counter() > until:
                time.sleep(REST)
                until = time.perf_counter() + SLICE
        return found


class ListingSource(Protocol):
    """An instance that lists. One that is closed no longer counts."""

    @property
    def closed(self) -> bool: ...


class ShownDefinitions:
    """Digests by server, instance and kind. A list from disk counts until an instance has listed."""

    def __init__(self) -> None:
        self._lists: dict[str, dict[tuple[ListingSource | None, Kind], Mapping[str, bytes]]] = {}

    def put(
        self, server: str, source: ListingSource | None, kind: Kind, digests: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        """Take a list; return the list of that kind before, whichever instance gave it."""
        lists = self._lists.setdefault(server, {})
        for key in [key for key in lists if key[0] is not None and key[0].closed]:
            del lists[key]
        before = next((found for (_, listed), found in reversed(lists.items()) if listed == kind), {})
        if source is None and any(listed == kind and by is not None for by, listed in lists):
            return before
        if source is not None:
            lists.pop((None, kind), None)
        lists.pop((source, kind), None)
        lists[source, kind] = digests
        return before

    def remove(self, server: str) -> None:
        """Forget the lists of a server."""
        self._lists.pop(server, None)

    def of_kind(self, server: str, kind: Kind) -> Iterator[tuple[str, bytes]]:
        """Yield names and digests of all lists of a kind."""
        for (_, listed), digests in self._lists.get(server, {}).items():
            if listed == kind:
                yield from digests.items()

    def of_key(self, server: str, key: DefinitionKey) -> set[bytes]:
        """Return the digests that instances show of one definition."""
        lists = self._lists.get(server, {}).items()
        return {digests[key.name] for (_, kind), digests in lists if kind == key.kind and key.name in digests}


class DigestCache:
    """Digests by the hash of the bytes. Of each list of a server, those of its last reading are kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Kind], dict[bytes, bytes]] = {}

    def read(self, server: str, kind: Kind, items: Iterable[Raw]) -> tuple[SeenDefinition, ...]:
        """Return the definitions of a list with their digests. May run in a thread."""
        known = self._known.get((server, kind), {})
        found: dict[bytes, bytes] = {}

        def digest(kind: Kind, item: Raw) -> bytes:
            exact = hashlib.sha256(item).digest()
            return found.setdefault(exact, known.get(exact) or definition_digest(kind, item))

        seen = read_definitions(kind, items, digest)
        self._known[server, kind] = found
        return seen

    def forget(self, server: str) -> None:
        """Forget the digests of a server."""
        for key in [key for key in self._known if key[0] == server]:
            self._known.pop(key, None)


Found = TypeVar("Found")

Scans = Mapping[DefinitionKey, tuple[KeptFinding, ...]]
"""Findings of the scanner in definitions that were not scanned before."""

KIND_NAMES = {
    "tool": say("tool"),
    "prompt": say("prompt"),
    "resource": say("resource"),
    "template": say("resource template"),
    "skill": say("skill"),
    "instructions": say("instructions"),
}


class DefinitionChange(Struct, frozen=True):
    """A definition that was not accepted. ``held``: it is not offered. ``current``: the server lists it now.

    ``before`` is the digest that is trusted; None for a new definition.
    """

    server: str
    key: DefinitionKey
    pin: Pin
    held: bool
    current: bool
    before: bytes | None

    @property
    def why(self) -> str:
        """The reason in one word: added, changed, suspicious or rejected."""
        if self.pin.state is PinState.REJECTED:
            return "rejected"
        return "suspicious" if self.pin.is_trusted else self.pin.why

    def row(self, lang: Lang) -> dict[str, Any]:
        """Return it for people and programs."""
        return {
            "server": self.server,
            "kind": self.key.kind,
            "name": self.key.name,
            "change": self.why,
            "digest": self.pin.digest.hex(),
            "accepted_digest": self.before.hex() if self.before else None,
            "held": self.held,
            "current": self.current,
            "seen": datetime.fromtimestamp(self.pin.seen, UTC).isoformat(timespec="seconds"),
            "findings": [finding.row(lang) for finding in self.pin.findings or ()],
        }


class DefinitionHeld(Forbidden):
    """A definition is held back until a person accepts it."""

    def __init__(self, server: str, kind: Kind, name: str, why: str) -> None:
        super().__init__(_held(server, kind, name, why))
        self.server = server


_REASONS: Mapping[str, Message] = {
    "added": say("it is new, and nobody has accepted it yet."),
    "changed": say("its definition has changed, and nobody has accepted the change yet."),
    "suspicious": say("its definition looks like an attack."),
    "rejected": say("its definition was rejected."),
}


def _held(server: str, kind: Kind, name: str, why: str) -> Message:
    return say(
        "The {kind} {name} of {server!n} is held back: {why} The user can look at it with: tabane servers "
        "diff {server!c} {name!c}. To use it: tabane servers accept {server!c} {name!c}",
        kind=KIND_NAMES[kind],
        name=name,
        server=server,
        why=_REASONS[why],
    )


PART = 100
"""Definitions that are compared at once."""


class ReviewedList(NamedTuple):
    """The digests of a list by name, and the names that are held back."""

    digests: Mapping[str, bytes] = {}
    held: frozenset[str] = frozenset()


class ReviewWatch(NamedTuple):
    """Receives changes: the server whose definitions changed, and news that are worth an audit entry."""

    changed: Callable[[str], None] = lambda server: None
    news: Callable[[DefinitionNews], None] = lambda news: None


class DefinitionReview:
    """Pins of all servers, in memory and in a file that a thread of its own writes.

    ``policy`` returns what is held back of a server. ``scans`` looks for attacks in definitions
    that are new; None if nobody does.
    """

    def __init__(
        self,
        folder: Path,
        loop: asyncio.AbstractEventLoop,
        policy: Callable[[str], HoldPolicy] = lambda server: HoldPolicy(),
        scans: DefinitionScans | None = None,
    ) -> None:
        self._folder, self._loop, self._policy = folder, loop, policy
        self.scans = scans
        self.watch = ReviewWatch()
        self._pins: dict[str, ServerPins] = {}
        self._digests = DigestCache()
        self._shown = ShownDefinitions()
        self._told_removed: set[tuple[str, DefinitionKey]] = set()
        self._waiting: dict[str, tuple[PinnedDefinition, ...]] = {}
        self._held: dict[tuple[str, Kind], tuple[HoldPolicy, frozenset[str]]] = {}
        self._writer = ThreadPoolExecutor(1, "definitions")
        self._file: PinFile | None = None

    # -- life ------------------------------------------------------------------------------------

    def open(self, servers: Collection[str]) -> None:
        """Load the pins. ``servers`` are those of the servers file: others were removed meanwhile."""
        self._file = PinFile(self._folder / PINS_FILE)
        self._pins = self._file.load()
        for name in self._pins.keys() - set(servers):
            self.withdraw(name)

    async def close(self) -> None:
        """Give up scans, write what is pending, and close the file."""
        if self.scans is not None:
            await self.scans.close()
        if self._file is not None:
            await self._loop.run_in_executor(self._writer, self._file.close)
        self._writer.shutdown()

    def withdraw(self, server: str) -> None:
        """Note that a server was removed from the servers file. Another one may get its name."""
        pins = self._pins.get(server)
        if pins is not None and not pins.withdrawn:
            pins.withdrawn = True
            self._write_pins(PinWrites(server, head=pins))
        self._shown.remove(server)
        self._digests.forget(server)
        self._forget(server)

    # -- lists -----------------------------------------------------------------------------------

    def read(self, server: str, kind: Kind, items: Iterable[Raw]) -> tuple[SeenDefinition, ...]:
        """Return the definitions of a list with their digests. May run in a thread."""
        return self._digests.read(server, kind, items)

    def unscanned(self, server: str, seen: Sequence[SeenDefinition]) -> list[SeenDefinition]:
        """Return the definitions that were never scanned."""
        if self.scans is None:
            return []
        pins = self._pins.get(server) or ServerPins()
        found = ((each, pins.get(each.key, each.digest)) for each in seen)
        return [each for each, pin in found if pin is None or pin.findings is None]

    async def scan(
        self,
        server: str,
        seen: Sequence[SeenDefinition],
        others: Collection[str],
        siblings: Collection[str] = (),
    ) -> Scans:
        """Scan definitions. One whose scan fails is not among the results."""

        if self.scans is None:
            return {}
        texts = [ScannedText(key.kind, key.name, body) for key, _, body in seen]
        found = await self.scans.scan(server, texts, others, siblings)
        return {
            each.key: kept_findings(findings)
            for each, findings in zip(seen, found, strict=True)
            if findings is not None
        }

    def take(
        self,
        server: str,
        fingerprint: str,
        kind: Kind,
        seen: Sequence[SeenDefinition],
        source: ListingSource | None = None,
        scans: Scans | None = None,
    ) -> ReviewedList:
        """Compare a list with the pins, pin what is new, and return what is held back.

        ``source`` is the instance that listed; None for a list from disk.
        """
        taking = self._taking(server, fingerprint, kind, seen, source, scans)
        while True:
            try:
                next(taking)
            except StopIteration as end:
                return cast("ReviewedList", end.value)

    async def take_many(
        self,
        server: str,
        fingerprint: str,
        kind: Kind,
        seen: Sequence[SeenDefinition],
        source: ListingSource | None = None,
        scans: Scans | None = None,
    ) -> ReviewedList:
        """Do as :meth:`take`, and let other requests run in between."""
        from tabane.workers.time_slices import TimeSlices

        taking, turns = self._taking(server, fingerprint, kind, seen, source, scans), TimeSlices()
        while True:
            try:
                next(taking)
            except StopIteration as end:
                return cast("ReviewedList", end.value)
            await turns.pause()

    def _taking(
        self,
        server: str,
        fingerprint: str,
        kind: Kind,
        seen: Sequence[SeenDefinition],
        source: ListingSource | None,
        scans: Scans | None,
    ) -> Generator[None, None, ReviewedList]:
        pins = self._pins.get(server)
        if pins is not None and pins.withdrawn and pins.fingerprint != fingerprint:
            log.info("%s: this name belonged to another server, so its definitions are pinned again", server)
            self._write_pins(PinWrites(server, whole=True))
            pins = None
        if pins is None:
            pins = self._pins[server] = ServerPins(fingerprint)
        elif pins.withdrawn or pins.fingerprint != fingerprint:
            pins.withdrawn, pins.fingerprint = False, fingerprint
            self._write_pins(PinWrites(server, head=pins))
        first, now = begins(pins, kind, len(seen)), time.time()
        if first:
            self._write_pins(PinWrites(server, head=pins))
        digests = {each.key.name: each.digest for each in seen}
        before = self._shown.put(server, source, kind, digests)
        new: list[PinnedDefinition] = []
        findings: list[PinnedDefinition] = []
        for at in range(0, len(seen), PART):
            part = seen[at : at + PART]
            change = compared(pins, part, now, first=first)
            found = scanned(pins, part, scans or {})
            if change.new or change.forgotten or found:
                changed = (*change.new, *found)
                kept = {(key, pin.digest) for key, pin in changed}
                bodies = {
                    (one.key, one.digest): bytes(one.body) for one in part if (one.key, one.digest) in kept
                }
                self._write_pins(PinWrites(server, changed, bodies, change.forgotten, pins))
            new += change.new
            findings += found
            yield
        self._forget(server)
        self._tell_news(server, kind, new, findings, before.keys() - digests.keys())
        return ReviewedList(digests, self.held_names(server, kind))

    def held_names(self, server: str, kind: Kind) -> frozenset[str]:
        """Return the names of that kind that are held back: if one instance shows it, for all clients."""
        policy = self._policy(server)
        known = self._held.get((server, kind))
        if known is not None and known[0] == policy:
            return known[1]
        pins = self._pins.get(server) or ServerPins()
        found = frozenset(
            name
            for name, digest in self._shown.of_kind(server, kind)
            if (pin := pins.get(DefinitionKey(kind, name), digest)) is not None and policy.holds(pin)
        )
        self._held[server, kind] = (policy, found)
        return found

    def refusal(self, server: str, kind: Kind, name: str) -> DefinitionHeld | None:
        """Return the error for who asks for a definition that is held back; None if it is not."""
        pins, policy, key = self._pins.get(server), self._policy(server), DefinitionKey(kind, name)
        if pins is None or key not in pins.by_key:
            return None
        for digest in self._shown.of_key(server, key):
            pin = pins.get(key, digest)
            if pin is not None and policy.holds(pin):
                return DefinitionHeld(server, kind, name, self._change(server, key, pin).why)
        return None

    # -- what waits for a person -----------------------------------------------------------------

    def changes(self, server: str) -> tuple[DefinitionChange, ...]:
        """Return the definitions of a server that wait for a person, or that were rejected and are listed."""
        return tuple(self._change(server, key, pin) for key, pin in self.waiting(server))

    def waiting(self, server: str) -> tuple[PinnedDefinition, ...]:
        """Return the pins of these definitions. They are gathered once after each change."""
        found = self._waiting.get(server)
        if found is None:
            pins = self._pins.get(server) or ServerPins()
            found = self._waiting[server] = (
                () if pins.withdrawn else tuple(self._gather_waiting(server, pins))
            )
        return found

    def counts(self, server: str) -> dict[str, int]:
        """Return how many definitions wait, in how many something was found, and how many are held back."""
        waits = [pin for _, pin in self.waiting(server) if pin.waits]
        return {
            "waiting": len(waits),
            "held": sum(len(self.held_names(server, kind)) for kind in KINDS.values()),
            "suspicious": sum(bool(pin.findings) for pin in waits),
        }

    def change(self, server: str, pinned: PinnedDefinition) -> DefinitionChange:
        """Return a definition with what follows from it now."""
        return self._change(server, *pinned)

    def _gather_waiting(self, server: str, pins: ServerPins) -> Iterator[PinnedDefinition]:
        for each in pins.all():
            pin = each.pin
            if pin.state is PinState.ACCEPTED or (pin.state is PinState.TRUSTED and not pin.findings):
                continue
            if pin.state is PinState.OPEN or pin.digest in self._shown.of_key(server, each.key):
                yield each

    def _forget(self, server: str) -> None:
        """Forget what was gathered of a server, after a change."""
        self._waiting.pop(server, None)
        for kind in KINDS.values():
            self._held.pop((server, kind), None)

    def digest(self, server: str, key: DefinitionKey) -> bytes | None:
        """Return the digest of a definition as the server lists it now; None if it does not."""
        return next(iter(self._shown.of_key(server, key)), None)

    async def bodies(self, server: str, key: DefinitionKey) -> dict[bytes, bytes]:
        """Return the definitions that are known of a key, by digest."""
        return await self._in_thread(lambda file: file.bodies(server, key))

    def trusted(self, server: str, key: DefinitionKey) -> Pin | None:
        """Return the pin of a definition that is trusted now."""
        pins = self._pins.get(server)
        return pins.trusted(key) if pins is not None else None

    def pin(self, server: str, key: DefinitionKey, digest: bytes) -> Pin | None:
        """Return the pin of one content of a definition; None if it is unknown."""
        pins = self._pins.get(server)
        return pins.get(key, digest) if pins is not None else None

    async def accept(self, server: str, chosen: Sequence[ChosenDefinition]) -> None:
        """Trust definitions from now on. Raises Conflict if a server no longer lists one of them."""
        found = [self._chosen(server, key, digest) for key, digest in chosen]
        for key, pin in found:
            if pin.digest not in self._shown.of_key(server, key):
                raise Conflict(
                    say(
                        "{name} of {server!n} has another definition by now. Look at it again: tabane "
                        "servers diff {server!c} {name!c}",
                        name=key.name or key.kind,
                        server=server,
                    )
                )
        await self._decide(server, found, PinState.ACCEPTED)

    async def reject(self, server: str, chosen: Sequence[ChosenDefinition]) -> None:
        """Hold definitions back for good, whatever the settings say. Raises UnknownName."""
        found = [self._chosen(server, key, digest) for key, digest in chosen]
        await self._decide(server, found, PinState.REJECTED)

    def _chosen(self, server: str, key: DefinitionKey, digest: bytes) -> PinnedDefinition:
        pin = self.pin(server, key, digest)
        if pin is None:
            raise UnknownName(
                say(
                    "{server!n} has no definition of {name} with this hash. List those that wait: tabane "
                    "servers changes {server!c}",
                    server=server,
                    name=key.name or key.kind,
                )
            )
        return PinnedDefinition(key, pin)

    async def _decide(self, server: str, found: Sequence[PinnedDefinition], state: PinState) -> None:
        """Put a decision in force once it is on disk: one that is lost would have to be made again."""
        pins = self._pins[server]
        shown = {key: self._shown.of_key(server, key) for key, _ in found}
        change = decided(pins, found, state, shown)
        self._forget(server)
        writes = PinWrites(server, change.new, forgotten=change.forgotten, head=pins)
        await self._in_thread(lambda file: file.write(writes))
        self.watch.changed(server)

    # -- inside ----------------------------------------------------------------------------------

    def _tell_news(
        self,
        server: str,
        kind: Kind,
        new: Sequence[PinnedDefinition],
        findings: Sequence[PinnedDefinition],
        gone: Collection[str],
    ) -> None:
        """Report changes. A removed definition is reported once: a server may list it now and then."""
        from tabane.guard.definitions.news import DefinitionNews, log_news

        keys = [DefinitionKey(kind, name) for name in gone]
        removed = [key for key in keys if (server, key) not in self._told_removed]
        if len(self._told_removed) > MOST_KNOWN:
            self._told_removed.clear()
        self._told_removed.update((server, key) for key in removed)
        suspicious = [each for each in findings if each.pin.waits and each.pin.findings]
        opened = [each for each in new if each.pin.state is PinState.OPEN]
        if not (opened or suspicious or removed):
            return
        held = self.held_names(server, kind)
        news = DefinitionNews(server, kind, tuple(opened), tuple(suspicious), tuple(removed), held)
        log_news(news)
        self.watch.news(news)
        self.watch.changed(server)

    def _change(self, server: str, key: DefinitionKey, pin: Pin) -> DefinitionChange:

        current = pin.digest in self._shown.of_key(server, key)
        trusted = self.trusted(server, key)
        before = trusted.digest if trusted is not None and trusted.digest != pin.digest else None
        return DefinitionChange(
            server, key, pin, self._policy(server).holds(pin) and current, current, before
        )

    def _write_pins(self, writes: PinWrites) -> None:
        if self._file is not None:
            if (head := writes.head) is not None:  # it must not change while it waits
                head = ServerPins(head.fingerprint, set(head.lists), head.withdrawn)
            writes = writes._replace(head=head)
            self._writer.submit(self._file.write, writes).add_done_callback(_log_failure)

    async def _in_thread(self, work: Callable[[PinFile], Found]) -> Found:
        file = self._file
        assert file is not None
        return await self._loop.run_in_executor(self._writer, work, file)


def _log_failure(future) -> None:  # type: ignore[no-untyped-def]
    if future.exception():
        log.error("the file of pins: %s", future.exception())
