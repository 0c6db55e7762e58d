"""Guards of a hub: rules that judge calls, and the desk for approvals.

Any rule may refuse a call, and any may ask for a person.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.catalog import ConfirmRule
from tabane.errors import Forbidden
from tabane.hub.context import HubContext
from tabane.hub.people.approvals.passphrase_file import PASSPHRASE
from tabane.hub.people.flows.hub_flows import FlowRuleOnDemand, HubFlows
from tabane.hub.work.scripts import HubScripts, ScriptRule
from tabane.messages import say
from tabane.operations import LOCAL, Caller, CallTarget, Lazy
from tabane.operations.door import CallRule, CallVerdict, OpenApproval

if TYPE_CHECKING:
    from tabane.guard.approvals.approvals import Approval
    from tabane.hub.people.approvals.desk import ApprovalDesk, GuardedCalls, ShownArguments
    from tabane.hub.people.approvals.passphrase import HubPassphrase
    from tabane.servers.configuration import ServersConfiguration

APPROVING = CallTarget("approve_call", source="admin", kind="operation")
"""The operation that a caller needs permission for to approve calls."""

Ask = Callable[[tuple[CallVerdict, ...], Caller, CallTarget, bytes, str], OpenApproval]
"""Returns what a call awaits: verdicts, caller, target, arguments, and the id of the request."""


class HubGuard:
    """Judges each call by its rules. ``ask`` returns what a call awaits that a person has to approve.

    ``rules`` are replaced when the settings change. Without one, a call costs a comparison.
    """

    def __init__(self, ask: Ask, rules: tuple[CallRule, ...] = ()) -> None:
        self._ask, self.rules = ask, rules
        self.flow: FlowRuleOnDemand | None = None

    def judge(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenApproval | None:
        """Return what a call awaits; None if it may begin. Raises Forbidden if a rule refuses it."""
        asking = self.check(caller, target, arguments) if self.rules else ()
        return self._ask(asking, caller, target, arguments, request) if asking else None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None:
        """Let the rule of flows, which is one of them, note what a caller gets to read."""
        if self.flow is not None:
            self.flow.answered(caller, target, arguments, result)

    def check(self, caller: Caller, target: CallTarget, arguments: bytes) -> tuple[CallVerdict, ...]:
        """Return the verdicts that ask for a person. Raises Forbidden if one refuses."""
        asking: tuple[CallVerdict, ...] = ()
        for rule in self.rules:
            verdict = rule.verdict(caller, target, arguments)
            if verdict is None:
                continue
            if verdict.action == "refuse":
                message = say(
                    "{tool} was not called ({rule}): {reason}",
                    tool=target.name,
                    rule=verdict.rule,
                    reason=verdict.reason,
                )
                raise Forbidden(message)
            asking += (verdict,)
        return asking


class HubGuards:
    """The guard of a hub, and what it needs. Most of it is imported with the first call that has to wait.

    ``allow`` is called with a holder and a pair that a person allows for later calls too.
    """

    def __init__(
        self,
        context: HubContext,
        gateway: Gateway,
        shown: ShownArguments,
        flows: HubFlows,
        scripts: HubScripts,
    ) -> None:
        self._context, self._gateway, self._shown = context, gateway, shown
        self.desk = Lazy(self._open_desk)
        """Returns where approvals are asked for."""
        self.passphrase = Lazy(self._open_passphrase)
        """Returns the passphrase of the hub, whether one is set or not."""
        self._calls = Lazy(self._open_calls)
        self._configuration: ServersConfiguration | None = None
        self._flows, self.allow, self._scripts = flows, flows.allow, scripts
        self.guard = HubGuard(self._ask)
        scripts.approvals = self

    def apply(self, configuration: ServersConfiguration) -> None:
        """Put the rules of these servers in force."""
        self._configuration = configuration
        rules: list[CallRule] = []
        if self._has_passphrase:
            rules.append(self.passphrase().rule)
        if confirm := ConfirmRule(configuration.servers, self._gateway.catalog.find):
            rules.append(confirm)
        self.guard.flow = self._flows.apply()
        if self.guard.flow is not None:
            rules.append(self.guard.flow)
        if (writes := self._context.settings.script_writes) != "allow":
            rules.append(ScriptRule(writes))
        self.guard.rules = tuple(rules)

    def _ask(
        self,
        verdicts: tuple[CallVerdict, ...],
        caller: Caller,
        target: CallTarget,
        arguments: bytes,
        request: str,
    ) -> OpenApproval:
        return self._calls().approval(verdicts, caller, target, arguments, request)

    def _open_calls(self) -> GuardedCalls:
        from tabane.hub.people.approvals.desk import GuardedCalls

        return GuardedCalls(self.desk(), self._gateway, self._scripts, self._flows, self.guard.check)

    def _open_passphrase(self) -> HubPassphrase:
        from tabane.hub.people.approvals.passphrase import HubPassphrase

        return HubPassphrase(self._context.home, self._context.loop)

    @property
    def _has_passphrase(self) -> bool:
        return (self._context.home / PASSPHRASE).exists()

    def passphrase_changed(self) -> None:
        """Put the rules in force again after the passphrase was set or removed."""
        if self._configuration is not None:
            self.apply(self._configuration)

    # -- what an approval needs ----------------------------------------------------------------------

    def _open_desk(self) -> ApprovalDesk:
        from tabane.hub.people.approvals.desk import ApprovalDesk

        return ApprovalDesk(self._context, self._shown, self._decided)

    def schema(self, approval: Approval) -> dict[str, Any]:
        """Return the input schema of the tool of an approval; empty if there is none."""
        tool = self._gateway.catalog.find(approval.binding.tool)
        return {} if tool is None else tool.schema

    async def is_decided(self, approval: str) -> bool:
        """Return whether a person has decided, or nobody can any more. Raises UnknownName."""
        return (await self.desk().approvals()).find(approval).state != "open"

    def leave(self, approval: str) -> None:
        """Note that nobody waits for an approval any more."""
        self.desk().leave(approval)

    def through_client(self, caller: Caller) -> bool:
        """Return whether the answer of a client's user counts as an approval.

        It does if the user of this machine is asked, or somebody who may approve calls of others too. The
        holder of a key would approve its own calls. With a passphrase, it does not: any program of the user
        could be a client that answers its own question.
        """
        access = caller.access
        if self._has_passphrase:  # which a dialog of a client must not ask for
            return False
        return access.holder == LOCAL.holder or access.allows(APPROVING)

    # -- the rest of the hub -------------------------------------------------------------------------

    def _decided(self, approval: Approval, remember: bool) -> None:
        if remember:
            for pair in approval.pairs:
                self.allow(approval.binding.holder, pair)

    def close(self) -> None:
        """Keep what waits for a person: its callers go on with the next hub."""
        if self.desk.opened is not None:
            self.desk.opened.close()

    async def written(self) -> None:
        """Wait until everything is on disk."""
        if self.desk.opened is not None:
            await self.desk.opened.written()
