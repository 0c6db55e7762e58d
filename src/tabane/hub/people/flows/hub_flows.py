"""The flow policy of a hub: the rule in force, with what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.hub.context import HubContext
from tabane.hub.people.flows import TRAIL_FILE
from tabane.operations import Caller, CallTarget, Lazy

if TYPE_CHECKING:
    from tabane.guard.flows.flow_rule import FlowPolicy, FlowRule
    from tabane.guard.flows.trails import Trail
    from tabane.hub.people.flows.flow_state import FlowState
    from tabane.operations.door import CallVerdict


class HubFlows:
    """Makes the rule of flows with the first call, if the settings want one.

    Without a call or a rule, nothing is imported or kept.

    ``changed`` is called when a trail or a pair has changed.
    """

    def __init__(self, context: HubContext, gateway: Gateway, changed: Callable[[], None]) -> None:
        self._context, self._gateway, self._changed = context, gateway, changed
        self._policy: FlowPolicy = "off"
        self.state = Lazy(self._open_state)
        """Returns the labels, pairs and trails."""

    def _open_state(self) -> FlowState:
        from tabane.hub.people.flows.flow_state import FlowState

        return FlowState(self._context.home, self._gateway, self._changed)

    @property
    def rule(self) -> FlowRule | None:
        """The rule in force; None if the policy is off."""
        return None if self._policy == "off" else self.state().rule(self._policy)

    def apply(self) -> FlowRuleOnDemand | None:
        """Return the rule that the settings want; None if the policy is off."""
        policy = self._policy = self._context.settings.flow_policy
        if self.state.opened is not None or (policy == "off" and (self._context.home / TRAIL_FILE).exists()):
            self.state().apply(policy)
        return None if policy == "off" else FlowRuleOnDemand(self)

    def has_server(self, name: str) -> bool:
        """Return whether there is a server of that name."""
        return self._gateway.servers.get(name) is not None

    def allow(self, holder: str, pair: str) -> None:
        """Allow a pair for all later calls of a holder. Raises StoreError."""
        self.state().pairs.allow(holder, pair)
        self._changed()

    def labels_of(self, target: CallTarget) -> tuple[str, ...]:
        """Return the labels of a target. Their table is opened with the first call."""
        return tuple(self.state().labels(target).names)

    def trails_of(self, caller: Caller) -> tuple[Trail, ...]:
        """Return what a caller has read. There is nothing if the policy is off."""
        return self.rule.trails_of(caller) if self.rule is not None else ()

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

    def close(self) -> None:
        """Write when each trail was used last."""
        if self.state.opened is not None:
            self.state.opened.close()

    def abandon(self) -> None:
        """Write nothing more."""
        self._policy = "off"
        if self.state.opened is not None:
            self.state.opened.abandon()


class FlowRuleOnDemand:
    """The rule of flows, which is made with the first call."""

    def __init__(self, flows: HubFlows) -> None:
        self._flows = flows
        self._rule: FlowRule | None = None

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return the objection to a call; None if there is none."""
        rule = self._rule or self._made()
        return rule.verdict(caller, target, arguments) if rule is not None else None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes, result: bytes | Raw | None
    ) -> None:
        """Note what a caller gets to read: a result, or an error with its text."""
        rule = self._rule or self._made()
        if rule is not None:
            rule.answered(caller, target, arguments, result)

    def _made(self) -> FlowRule | None:
        self._rule = self._flows.rule
        return self._rule
