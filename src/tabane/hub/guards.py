"""Guards of a hub, put together: the rules in force, the desk for approvals, and the operations on them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tabane.gateway.confirmation import ConfirmRule
from tabane.gateway.gateway import Gateway
from tabane.hub.flows.hub_flows import HubFlows
from tabane.hub.guarding import HubGuard
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.access.approvals.approval import Approval
    from tabane.gateway.servers.configuration import ServersConfiguration
    from tabane.hub.approvals.desk import ApprovalDesk
    from tabane.operations import Caller, CallTarget
    from tabane.operations.guarding import CallRule, CallVerdict, OpenApproval


class ShownArguments(Protocol):
    """Knows what of arguments is secret, and who watches the hub."""

    def without_secrets(self, arguments: bytes) -> bytes:
        """Return the beginning of arguments without secrets. It may be no valid JSON then."""
        ...

    def approvals_changed(self) -> None:
        """Note that an approval was asked for, or changed."""
        ...


class HubGuards:
    """The guard of a hub, and what it needs. Most of it is imported with the first call that has to wait.

    ``allow`` is called with a holder and a pair that a person allows for later calls too.
    """

    def __init__(
        self,
        gateway: Gateway,
        settings: Callable[[], Settings],
        loop: asyncio.AbstractEventLoop,
        shown: ShownArguments,
        flows: HubFlows,
    ) -> None:
        self._gateway, self._settings, self._loop, self._shown = gateway, settings, loop, shown
        self._desk: ApprovalDesk | None = None
        self._flows, self.allow = flows, flows.allow
        self.guard = HubGuard(self._ask)

    def apply(self, configuration: ServersConfiguration) -> None:
        """Put the rules of these servers in force."""
        rules: list[CallRule] = []
        if confirm := ConfirmRule(configuration.servers, self._gateway.catalogue.find):
            rules.append(confirm)
        if (flow := self._flows.apply()) is not None:
            rules.append(flow)
        self.guard.rules = tuple(rules)

    def _ask(
        self,
        verdicts: tuple[CallVerdict, ...],
        caller: Caller,
        target: CallTarget,
        arguments: bytes,
        request: str,
    ) -> OpenApproval:
        from tabane.hub.approvals.guarded_approval import GuardedApproval

        return GuardedApproval(self, verdicts, caller, target, arguments, request)

    # -- what an approval needs ----------------------------------------------------------------------

    def desk(self) -> ApprovalDesk:
        if self._desk is None:
            from tabane.hub.approvals.desk import ApprovalDesk

            home = self._settings().home
            self._desk = ApprovalDesk(home, self._loop, self._shown.approvals_changed, self._decided)
        return self._desk

    def definition(self, target: CallTarget) -> str:
        tool = self._gateway.catalogue.find(target.name) if target.kind == "tool" else None
        return hashlib.sha256(tool.definition).hexdigest() if tool is not None else ""

    def shown(self, arguments: bytes) -> bytes:
        return self._shown.without_secrets(arguments)

    def wait(self) -> float:
        return self._settings().approval_wait

    def check(self, caller: Caller, target: CallTarget, arguments: bytes) -> None:
        self.guard.check(caller, target, arguments)

    # -- the rest of the hub -------------------------------------------------------------------------

    def _decided(self, approval: Approval, remember: bool) -> None:
        if remember:
            for pair in approval.pairs:
                self.allow(approval.binding.holder, pair)

    def close(self) -> None:
        """Keep what waits for a person: its callers go on with the next hub."""
        if self._desk is not None:
            self._desk.close()

    async def written(self) -> None:
        """Wait until everything is on disk."""
        if self._desk is not None:
            await self._desk.written()
