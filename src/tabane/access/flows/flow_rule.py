"""The rule that judges calls by what their caller has read before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from tabane.access.flows.flow_reasons import flow_reason
from tabane.access.flows.labels import EXTERNAL, READ_LABELS, SINK_LABELS, CallLabels
from tabane.access.flows.own_labels import FETCHING
from tabane.access.flows.rules import FlowFinding, FlowPolicy, find_flow
from tabane.access.flows.trails import LONGEST_KEY, Trail, TrailKey, Trails
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.guarding import CallVerdict

RULE = "flow"
LONGEST_ADDRESS = 1 << 13
"""Bytes of arguments with an address that is remembered."""

REPEAT = 1.0
"""Seconds for which a repetition of the last call is not noted again."""

LONGEST_ARGUMENTS = 1 << 18
"""Bytes of arguments that are read to see whether a recipient is given. In longer ones there is one."""


class FlowRule:
    """Follows what callers read, and asks before a call that must not follow it.

    ``labels`` returns the labels of a target, ``allowed`` the pairs that a holder has allowed for always.
    ``grown`` is called with each trail that has to be on disk before the answer goes out.
    """

    def __init__(
        self,
        policy: FlowPolicy,
        trails: Trails,
        labels: Callable[[CallTarget], CallLabels],
        allowed: Callable[[str], Collection[str]],
        grown: Callable[[Trail], None],
    ) -> None:
        self.policy, self.trails = policy, trails
        self._labels, self._allowed, self._grown = labels, allowed, grown
        self._repeats: tuple[Caller, CallTarget, float] | None = None

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        labels = self._labels(target)
        if not labels.bits & SINK_LABELS or not _judges(caller, target):
            return None
        trails = self._counting(trail_key(caller))
        finding = self._find(trails, labels, caller.access.holder, target, arguments)
        if finding is None:
            self._know(caller, target, arguments)
            return None
        if finding.action == "ask":
            for trail in trails[:1]:
                trail.asked.update(finding.pairs)
        reason = flow_reason(finding, target.name, caller.access.holder)
        return CallVerdict(finding.action, RULE, reason, finding.pairs[0])

    def found(self, caller: Caller, addresses: Iterable[str]) -> None:
        """Note that a caller was given the addresses of pages, which it may then read."""
        if caller.face is not Face.WEB:
            trail = self.trails.use(trail_key(caller))
            for address in addresses:
                trail.know(address)

    def _know(self, caller: Caller, target: CallTarget, arguments: bytes) -> None:
        address = _address(target, arguments)
        if address:
            self.trails.use(trail_key(caller)).know(address)

    def answered(self, caller: Caller, target: CallTarget) -> None:
        now, last = self.trails.clock(), self._repeats
        if last is not None and last[0] is caller and last[1] is target and abs(now - last[2]) < REPEAT:
            return  # the same call as a moment ago: its labels are noted
        source = source_of(target)
        if caller.approval:
            self._let_pass(trail_key(caller), source)
        self.note(caller, self._labels(target).bits & READ_LABELS, source, target.name)
        self._repeats = None if caller.approval else (caller, target, now)

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
        return self._find(self._counting(key), self._labels(target), key.holder, target, arguments)

    def _find(
        self,
        trails: tuple[Trail, ...],
        labels: CallLabels,
        holder: str,
        target: CallTarget,
        arguments: bytes,
    ) -> FlowFinding | None:
        bits = labels.bits
        if not trails:
            return None
        if labels.if_given and arguments and not _gives(arguments, labels.if_given):
            bits &= ~EXTERNAL
        if bits & EXTERNAL and _address(target, arguments) in trails[0].addresses:
            bits &= ~EXTERNAL
        return find_flow(self.policy, trails, bits, source_of(target), self._allowed(holder))

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


def _address(target: CallTarget, arguments: bytes) -> str:
    """Return the address of the page that a call reads; empty if it reads none."""
    if target.server or target.name not in FETCHING or len(arguments) > LONGEST_ADDRESS:
        return ""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    address = given.get("url") if isinstance(given, dict) else None
    return address if isinstance(address, str) else ""


def _gives(arguments: bytes, names: tuple[str, ...]) -> bool:
    """Return whether one of these parameters has a value that is not empty."""
    if len(arguments) > LONGEST_ARGUMENTS:
        return True
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return True
    return not isinstance(given, dict) or any(given.get(name) for name in names)
