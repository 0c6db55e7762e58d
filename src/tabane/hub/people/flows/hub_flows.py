"""The flow policy of a hub: the rule in force, with what it remembers."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.errors import ReadError
from tabane.hub.context import HubContext
from tabane.hub.people.flows import TRAIL_FILE
from tabane.operations import Caller, CallTarget, Operation

if TYPE_CHECKING:
    from tabane.guard.flows.flow_rule import FlowPolicy, FlowRule
    from tabane.guard.flows.trails import Trail, TrailKey, Trails
    from tabane.hub.people.flows.flow_files import PairFile, TrailFile
    from tabane.hub.people.flows.labels import TargetLabels
    from tabane.hub.people.flows.operations import FlowOperations
    from tabane.operations.door import CallRule, CallVerdict

log = logging.getLogger(__name__)


class HubFlows:
    """Makes the rule of flows with the first call, if the settings want one.

    Without a call or a rule, nothing is imported or kept.

    ``changed`` is called when a trail or a pair has changed.
    """

    def __init__(self, context: HubContext, gateway: Gateway, changed: Callable[[], None]) -> None:
        self._context, self._gateway, self._changed = context, gateway, changed
        self._labels: TargetLabels | None = None
        self._pairs: PairFile | None = None
        self._file: TrailFile | None = None
        self._policy: FlowPolicy = "off"
        self._rule: FlowRule | None = None

    @property
    def rule(self) -> FlowRule | None:
        """Return the rule in force; None if the policy is off."""
        if self._rule is None and self._policy != "off":
            self._rule = self._begin(self._policy)
        return self._rule

    @property
    def home(self) -> Path:
        return self._context.home

    def apply(self) -> CallRule | None:
        """Return the rule that the settings want; None if the policy is off."""
        policy = self._policy = self._context.settings.flow_policy
        if policy == "off":
            self._end()
        if self._rule is not None:
            self._rule.policy = policy
            self._rule.forget()
        if self._labels is not None:
            self._labels.forget()
        return None if policy == "off" else _RuleOnDemand(self)

    @property
    def labels(self) -> TargetLabels:
        if self._labels is None:
            from tabane.hub.people.flows.labels import KnownTools, TargetLabels

            gateway = self._gateway
            self._labels = TargetLabels(
                KnownTools(
                    lambda name: gateway.servers.get(name),
                    lambda alias: gateway.catalogue.get(alias),
                    lambda server: gateway.catalogue.of_server(server),
                )
            )
        return self._labels

    @property
    def pairs(self) -> PairFile:
        if self._pairs is None:
            from tabane.hub.people.flows.flow_files import PairFile

            self._pairs = PairFile(self.home)
        return self._pairs

    def has_server(self, name: str) -> bool:
        return self._gateway.servers.get(name) is not None

    def allow(self, holder: str, pair: str) -> None:
        """Allow a pair for all later calls of a holder. Raises StoreError."""
        self.pairs.allow(holder, pair)
        self._changed()

    def table(
        self,
        find: Callable[[Caller, str], Awaitable[CallTarget]],
        known: Callable[[], Iterable[CallTarget]],
    ) -> list[Operation]:
        """Return the operations. ``find`` returns what a name stands for, ``known`` what can be called."""

        from tabane.hub.people.flows.table import flow_table

        def operations() -> FlowOperations:
            from tabane.hub.people.flows.operations import FlowOperations

            return FlowOperations(self, find, known)

        return flow_table(operations)

    def read_by(self, caller: Caller) -> int:
        """Return the labels of what a caller has read."""
        return self.rule.read_by(caller) if self.rule is not None else 0

    def found(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        """Note that a result holds something with labels of its own, such as a document."""
        if labels and self.rule is not None:
            self.rule.note(caller, labels, source, tool)

    def offered(self, caller: Caller, addresses: Iterable[str]) -> None:
        """Note that a result holds the addresses of pages."""
        if self.rule is not None:
            self.rule.found(caller, addresses)

    def forget(self, fits: Callable[[TrailKey], bool]) -> int:
        """Remove trails. Return their number. Raises OSError if they cannot be removed from the disk."""
        if self.rule is None or self._file is None:
            return 0
        count = self.rule.trails.forget(fits)
        self.rule.forget()
        self._file.write(self.rule.trails)
        return count

    def close(self) -> None:
        """Write when each trail was used last."""
        if self._rule is not None and self._file is not None:
            try:
                self._file.write(self._rule.trails)
            except OSError as error:
                log.warning("the trails of the flow policy cannot be written: %s", error)
            self._file.close()

    def abandon(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            self._file.close()
        self._policy, self._rule = "off", None

    def _begin(self, policy: FlowPolicy) -> FlowRule:
        from tabane.guard.flows.flow_rule import FlowRule
        from tabane.guard.flows.trails import Trails
        from tabane.hub.people.flows.flow_files import TrailFile

        file = self._file = TrailFile(self.home)
        trails = Trails(time.time)
        for trail in file.read():
            trails.restore(trail)
        return FlowRule(
            policy,
            trails,
            self.labels,
            lambda holder: self.pairs.of(holder),
            lambda trail: self._grown(trail, file, trails),
            _sent,
        )

    def _grown(self, trail: Trail, file: TrailFile, trails: Trails) -> None:
        file.add(trail, trails)
        self._changed()

    def _end(self) -> None:
        self._rule = None
        if self._file is None:
            if not (self.home / TRAIL_FILE).exists():
                return
            from tabane.hub.people.flows.flow_files import TrailFile

            self._file = TrailFile(self.home)
        self._file.remove()
        self._file = None


def _sent(address: str) -> str:
    """Return an address as the reader of pages sends it; empty if it does not read it."""
    from tabane.reader.guard import target  # with the first page of a hub

    try:
        return target(address).url
    except ReadError:
        return ""


class _RuleOnDemand:
    """The rule of flows, which is made with the first call."""

    def __init__(self, flows: HubFlows) -> None:
        self._flows = flows
        self._rule: FlowRule | None = None

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        rule = self._rule or self._made()
        return rule.verdict(caller, target, arguments) if rule is not None else None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes, result: bytes | Raw | None
    ) -> None:
        rule = self._rule or self._made()
        if rule is not None:
            rule.answered(caller, target, arguments, result)

    def _made(self) -> FlowRule | None:
        self._rule = self._flows.rule
        return self._rule
