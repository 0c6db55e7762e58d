"""The rule that judges calls by what their caller has read before, and learns from their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from tabane.guard.flows.addresses import LONGEST_TEXT, plain_address, unescaped
from tabane.guard.flows.fetches import Fetch, fetch_of
from tabane.guard.flows.flow_reasons import flow_reason
from tabane.guard.flows.rules import FlowFinding, FlowPolicy, find_flow, labels_read
from tabane.guard.flows.trails import LONGEST_KEY, OTHERS, Trail, TrailKey, Trails
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.guarding import CallVerdict
from tabane.servers.labels import EXTERNAL, PRIVATE, READ_LABELS, SINK_LABELS, UNTRUSTED, CallLabels

RULE = "flow"
REPEAT = 1.0
"""Seconds for which a repetition of the last call is not noted again."""

LONGEST_ARGUMENTS = 1 << 18
"""Bytes of arguments that are read to see whether a recipient is given. In longer ones there is one."""

MOST_PRIVATE = 16 << 20
"""Characters of private texts that all trails keep together. The one used longest ago makes room."""

MOST_WRITTEN = 256
"""Servers that are known to hold what was written after something untrusted was read."""


class FlowRule:
    """Follows what callers read, and asks before a call that must not follow it.

    ``labels`` returns the labels of a target, ``allowed`` the pairs that a holder has allowed for always.
    ``grown`` is called with each trail that has to be on disk before the answer goes out. ``sent`` returns an
    address as the reader of pages sends it; empty if it does not read it at all.
    """

    def __init__(
        self,
        policy: FlowPolicy,
        trails: Trails,
        labels: Callable[[CallTarget], CallLabels],
        allowed: Callable[[str], Collection[str]],
        grown: Callable[[Trail], None],
        sent: Callable[[str], str] = plain_address,
    ) -> None:
        self.policy, self.trails = policy, trails
        self._labels, self._allowed, self._grown, self._sent = labels, allowed, grown, sent
        self._written: dict[str, None] = {}
        self._repeats: tuple[Caller, CallTarget, float] | None = None

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        labels = self._labels(target)
        if not labels.bits & SINK_LABELS or not _judges(caller, target):
            return None
        trails = self._counting(trail_key(caller))
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        finding = self._find(trails, labels, caller.access.holder, target, arguments, fetch)
        if finding is None:
            if fetch is not None:
                self._note_fetch(caller, trails, fetch)
            return None
        if finding.action == "ask":
            for trail in trails[:1]:
                trail.asked.update(finding.pairs)
        reason = flow_reason(finding, target.name, caller.access.holder, fetches=fetch is not None)
        return CallVerdict(finding.action, RULE, reason, finding.pairs[0])

    def found(self, caller: Caller, addresses: Iterable[str]) -> None:
        """Note that a caller was given the addresses of pages of the hub, which it may then read."""
        if caller.face is not Face.WEB:
            trail = self.trails.use(trail_key(caller))
            for address in addresses:
                trail.addresses.know(self._sent(address) or address)

    def _note_fetch(self, caller: Caller, trails: tuple[Trail, ...], fetch: Fetch) -> None:
        """Note the addresses of a call that begins, and what they use up."""
        read = labels_read(trails)
        bounded = read & READ_LABELS == READ_LABELS
        addresses = self.trails.use(trail_key(caller)).addresses
        for address in fetch.addresses:
            price = (addresses.price(address, again=fetch.again, fresh=fetch.fresh) if bounded else "") or ""
            addresses.take(address, price, trusted=not read & UNTRUSTED)

    def answered(
        self,
        caller: Caller,
        target: CallTarget,
        arguments: bytes = b"",
        result: bytes | msgspec.Raw | None = b"",
    ) -> None:
        labels = self._labels(target)
        if caller.face is not Face.WEB:
            self._learn(caller, target, labels, arguments, result)
        now, last = self.trails.clock(), self._repeats
        if last is not None and last[0] is caller and last[1] is target and abs(now - last[2]) < REPEAT:
            return  # the same call as a moment ago: its labels are noted
        source = source_of(target)
        if caller.approval:
            self._let_pass(trail_key(caller), source)
        self.note(caller, labels.bits & READ_LABELS, source, target.name)
        self._repeats = None if caller.approval else (caller, target, now)

    def _learn(
        self,
        caller: Caller,
        target: CallTarget,
        labels: CallLabels,
        arguments: bytes,
        result: bytes | msgspec.Raw | None,
    ) -> None:
        """Note the addresses that a call was given and gave back, and what it gave back that is private."""
        given = arguments[:LONGEST_ARGUMENTS] if len(arguments) > len(b"{}") else b""
        if result is None and labels.bits & PRIVATE:
            self.trails.use(trail_key(caller)).addresses.whole = False
        if not given and not result:
            return
        key = trail_key(caller)
        trail, fetch = self.trails.use(key), fetch_of(target, labels.bits, arguments, self._sent)
        poisoned = labels_read(self._counting(key)) & UNTRUSTED
        if fetch is not None and caller.approval:
            for address in fetch.addresses:  # a person has seen it
                trail.addresses.know(address)
        if given and not poisoned:
            trail.addresses.hear(
                unescaped(given.decode("utf-8", "replace")), asks=bool(labels.bits & READ_LABELS)
            )
        elif given and fetch is None:
            trail.addresses.write(unescaped(given.decode("utf-8", "replace")))
            if not labels.bits & READ_LABELS and len(self._written) < MOST_WRITTEN:
                self._written[source_of(target)] = None
        if result:
            text = bytes(memoryview(result)[:LONGEST_TEXT]).decode("utf-8", "ignore")
            self._learn_result(trail, target, labels.bits, text, fetch, poisoned=bool(poisoned))

    def _learn_result(
        self, trail: Trail, target: CallTarget, bits: int, text: str, fetch: Fetch | None, *, poisoned: bool
    ) -> None:
        addresses, source = trail.addresses, source_of(target)
        if bits & PRIVATE or (fetch is not None and source in trail.private):
            addresses.keep(text)
            self._make_room()
        if not ("://" in text or "www." in text or "](" in text or "\\/" in text):
            return
        if bits & UNTRUSTED:
            addresses.link(unescaped(text), fetch.addresses[0] if fetch and fetch.addresses else "")
        elif not target.server:
            if bits & PRIVATE:
                mixed = trail.untrusted.keys() & {"documents", OTHERS} and source != "posts"
                mixed = mixed or (source == "hub" and "pages" in trail.untrusted)
                (addresses.link if mixed else addresses.find)(unescaped(text))
        elif not poisoned or (bits & PRIVATE and not self._is_written(source)):
            addresses.find(unescaped(text))

    def _is_written(self, source: str) -> bool:
        """Return whether a server may give back what was written after something untrusted was read."""
        return source in self._written or len(self._written) >= MOST_WRITTEN

    def _make_room(self) -> None:
        kept = sum(trail.addresses.kept for trail in self.trails)
        for trail in self.trails:
            if kept <= MOST_PRIVATE:
                return
            kept -= trail.addresses.kept
            trail.addresses.drop()

    def forget(self) -> None:
        """Note each call again: trails were removed, or labels have changed."""
        self._repeats = None

    def note(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        """Note that a caller gets something with these labels. What a person sees is no concern."""
        if caller.face is Face.WEB:
            return
        key = trail_key(caller)
        if not labels and self.trails.find(key) is None:
            return  # who has read nothing needs no trail
        trail = self.trails.use(key)
        grown = trail.add(labels, source, tool) if labels else False
        if grown or (trail.labels and trail.is_stale):
            self._grown(trail)

    def _let_pass(self, key: TrailKey, sink: str) -> None:
        """Note that a person has approved a call of this server, after being asked about it."""
        trail = self.trails.find(key)
        approved = {pair for pair in trail.asked if pair.endswith(f">{sink}")} if trail is not None else set()
        if trail is not None and approved:
            trail.passed |= approved
            trail.asked -= approved
            self._grown(trail)

    def read_by(self, caller: Caller) -> int:
        """Return the labels of what a caller has read."""
        found = 0
        for trail in self._counting(trail_key(caller)):
            found |= trail.labels
        return found

    def view(self, key: TrailKey, target: CallTarget, arguments: bytes = b"") -> FlowFinding | None:
        """Return what stands against a call of an assistant, without noting anything."""
        labels = self._labels(target)
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        return self._find(self._counting(key), labels, key.holder, target, arguments, fetch)

    def _find(
        self,
        trails: tuple[Trail, ...],
        labels: CallLabels,
        holder: str,
        target: CallTarget,
        arguments: bytes,
        fetch: Fetch | None,
    ) -> FlowFinding | None:
        bits = labels.bits
        if not trails:
            return None
        if labels.if_given and arguments and not _gives(arguments, labels.if_given):
            bits &= ~EXTERNAL
        if bits & EXTERNAL and fetch is not None and self._carries_nothing(trails, fetch):
            bits &= ~EXTERNAL
        return find_flow(self.policy, trails, bits, source_of(target), self._allowed(holder))

    def _carries_nothing(self, trails: tuple[Trail, ...], fetch: Fetch) -> bool:
        """Return whether the addresses of a call carry nothing out of what was read."""
        addresses = trails[0].addresses
        addresses.refill(self.trails.clock())
        if any(trail.labels & PRIVATE for trail in trails[1:]):
            addresses.whole = False
        if self.policy == "strict":
            return all(map(addresses.knows, fetch.addresses))
        return all(
            addresses.price(each, again=fetch.again, fresh=fetch.fresh) is not None
            for each in fetch.addresses
        )

    def _counting(self, key: TrailKey) -> tuple[Trail, ...]:
        """Return the trails that count for a caller: its own first."""
        own, spilled = self.trails.find(key), self.trails.spilled()
        return tuple(trail for trail in (own, spilled) if trail is not None)


def trail_key(caller: Caller) -> TrailKey:
    """Return whose trail a call belongs to."""
    folder = caller.cwd or (caller.roots[0] if caller.roots else "")
    return TrailKey(caller.access.holder, caller.client[:LONGEST_KEY], folder[:LONGEST_KEY])


def source_of(target: CallTarget) -> str:
    """Return what a target belongs to, as pairs name it: its server, or what it is of Tabane's own."""
    return target.server or target.source


def _judges(caller: Caller, target: CallTarget) -> bool:
    """Return whether a call is judged.

    A person at the web page does as they please, and so does one in a terminal with Tabane itself.
    """
    if caller.face is Face.WEB:
        return False
    return bool(target.server) or caller.face is Face.MCP


def _gives(arguments: bytes, names: tuple[str, ...]) -> bool:
    """Return whether one of these parameters has a value that is not empty."""
    if len(arguments) > LONGEST_ARGUMENTS:
        return True
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return True
    return not isinstance(given, dict) or any(given.get(name) for name in names)
