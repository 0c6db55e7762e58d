"""Guards of a hub: rules that judge calls, the desk for approvals, and the operations on them.

Any rule may refuse a call, and any may ask for a person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.tools.catalog import ConfirmRule
from tabane.errors import Forbidden
from tabane.hub.context import HubContext
from tabane.hub.people.approvals.passphrase_file import PASSPHRASE
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.work.scripts import HubScripts, ScriptRule
from tabane.messages import say
from tabane.operations import LOCAL, Caller, CallTarget, Operation
from tabane.operations.door import CallRule, CallVerdict, OpenApproval
from tabane.settings.table import APPROVAL_WAIT

if TYPE_CHECKING:
    from tabane.guard.approvals.approvals import Approval
    from tabane.hub.people.approvals.desk import ApprovalDesk
    from tabane.hub.people.approvals.passphrase import HubPassphrase
    from tabane.hub.work.scripts import RunningScript
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

    def judge(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenApproval | None:
        """Return what a call awaits; None if it may begin. Raises Forbidden if a rule refuses it."""
        asking = self.check(caller, target, arguments) if self.rules else ()
        return self._ask(asking, caller, target, arguments, request) if asking else None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None:
        """Let each rule note what a caller gets to read."""
        for rule in self.rules:
            rule.answered(caller, target, arguments, result)

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


class ShownArguments(Protocol):
    """Knows what of arguments is secret, and who watches the hub."""

    def without_secrets(self, arguments: bytes) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are long."""
        ...

    def approvals_changed(self) -> None:
        """Note that an approval was asked for, or changed."""
        ...

    @property
    def is_watched(self) -> bool:
        """Return whether the web page is open somewhere."""
        ...


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
        self._desk: ApprovalDesk | None = None
        self._passphrase: HubPassphrase | None = None
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
        if (flow := self._flows.apply()) is not None:
            rules.append(flow)
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
        from tabane.hub.people.approvals.desk import GuardedApproval

        return GuardedApproval(self, verdicts, caller, target, arguments, request)

    def table(self) -> list[Operation]:
        """Return the operations on approvals and the passphrase."""
        from tabane.hub.people.approvals.operations import ApprovalOperations, PassphraseOperations

        return [*ApprovalOperations(self).table(), *PassphraseOperations(self).table()]

    def passphrase(self) -> HubPassphrase:
        """Return the passphrase of the hub, whether one is set or not."""
        if self._passphrase is None:
            from tabane.hub.people.approvals.passphrase import HubPassphrase

            self._passphrase = HubPassphrase(self._context.home, self._context.loop)
        return self._passphrase

    @property
    def _has_passphrase(self) -> bool:
        return (self._context.home / PASSPHRASE).exists()

    def passphrase_changed(self) -> None:
        """Put the rules in force again after the passphrase was set or removed."""
        if self._configuration is not None:
            self.apply(self._configuration)

    # -- what an approval needs ----------------------------------------------------------------------

    def desk(self) -> ApprovalDesk:
        """Return where approvals are asked for. It is made with the first one."""
        if self._desk is None:
            from tabane.hub.people.approvals.desk import ApprovalDesk

            home = self._context.home
            self._desk = ApprovalDesk(home, self._context.loop, self._shown.approvals_changed, self._decided)
        return self._desk

    def tell(self, caller: Caller, approval: Approval) -> bool:
        """Tell a caller that watches what its call waits for. Return whether a person is asked there."""
        return self._desk is not None and self._desk.watches.tell(caller.session, approval)

    def definition(self, target: CallTarget) -> str:
        """Return a digest of a tool's definition: as its server gave it, and as an override shows it."""
        tool = self._gateway.catalog.find(target.name) if target.kind == "tool" else None
        return "" if tool is None else hashlib.sha256(tool.digest.encode() + tool.definition).hexdigest()

    def shown(self, arguments: bytes) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are long."""
        return self._shown.without_secrets(arguments)

    def wait(self, caller: Caller) -> float:
        """Return for how many seconds a call waits for a person.

        Unless the setting says otherwise, it does not wait if nobody would notice.
        """
        seconds = self._context.settings.approval_wait
        if seconds != APPROVAL_WAIT or self._shown.is_watched:
            return seconds
        return seconds if self._desk is not None and self._desk.watches.has(caller.session) else 0.0

    def script(self, caller: Caller) -> RunningScript | None:
        """Return the script that makes a call; None if none does."""
        return self._scripts.running.get(caller.script) if caller.script else None

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

    def check(self, caller: Caller, target: CallTarget, arguments: bytes) -> None:
        """Raise Forbidden if a rule refuses the call by now."""
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
