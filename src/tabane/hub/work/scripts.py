"""Scripts of a hub: the tools that they call, who follows them, their pauses, and their audit entries."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import structs

from tabane.catalog.gateway import Gateway
from tabane.code.table import RUN, code_table
from tabane.errors import CallerError
from tabane.hub.context import HubContext
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Lazy, Operation, Outcome
from tabane.operations.door import CallVerdict
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.audit.log import AuditLog
    from tabane.catalog.operations.tool_operations import Learned, Perform
    from tabane.code.sandbox import ScriptSnapshot
    from tabane.code.script_run import ScriptRun
    from tabane.code.scripts import ScriptReport, Scripts
    from tabane.code.table import RunScript
    from tabane.hub.work.paused_scripts import PausedScripts
    from tabane.hub.work.script_tools import ScriptTools
    from tabane.upstreams.call import ServerRequest, UpstreamReply

RULE = "script"

STOPPING = 5.0
"""Seconds in which scripts end when the hub does."""

_EXCEPTION = re.compile(r"(\w+)(: |$)")


class ScriptClient(Protocol):
    """The request of a client that runs a script."""

    def progressed(self, ended: int, tool: str) -> None:
        """Tell the client that a call has ended, the ``ended``-th of the script."""
        ...

    def question(self, server: str, name: str, request: ServerRequest) -> bool:
        """Put a question of a server that it has during a call. Return whether the client can be asked."""
        ...

    def asks_later(self) -> bool:
        """Return whether the client is asked at the end of this request, and makes it again then."""
        ...

    async def ask(self, approval: str) -> bool:
        """Ask the client's user for an approval, and return when somebody has decided.

        Return False if the client cannot ask its user in the middle of a request.
        """
        ...


class ScriptPaused(Exception):
    """A script was left paused: a modern client is asked about ``approval``, and then goes on with it."""

    def __init__(self, script: str, approval: str) -> None:
        super().__init__(script)
        self.script, self.approval = script, approval


class FollowedScript(NamedTuple):
    """The request that a script is run for, and the snapshot that it goes on from; None to begin.

    ``origins``: the tools from which the script has read, in order.
    """

    client: ScriptClient
    snapshot: ScriptSnapshot | None
    origins: dict[CallTarget, None]


class ScriptApprovals(Protocol):
    """Approvals of calls of scripts."""

    async def is_decided(self, approval: str) -> bool:
        """Return whether a person has decided, or nobody can any more. Raises UnknownName."""
        ...

    def leave(self, approval: str) -> None:
        """Note that the script that asked is gone."""
        ...


class ScriptMeter(Protocol):
    """Has the audit log; None if calls are not recorded."""

    recorder: AuditLog | None


class RunningScript:
    """A script, and the request that runs it; None if nobody follows it."""

    def __init__(
        self, owner: HubScripts, caller: Caller, params: RunScript, client: ScriptClient | None
    ) -> None:
        self._owner, self._caller, self._params, self._client = owner, caller, params, client
        self._waits: dict[str, Callable[[], Awaitable[object]]] = {}
        self._run: ScriptRun | None = None
        self.ended, self.began = 0, time.time()
        self.task = asyncio.current_task()

    def progressed(self, ended: int, tool: str) -> None:
        """Count a call that has ended, and tell the client."""
        self.ended = ended
        if self._client is not None:
            self._client.progressed(ended, tool)

    def runs(self, run: ScriptRun) -> None:
        """Note the run, whose clock stops while a question is answered."""
        self._run = run

    def question(self, server: str, name: str, request: ServerRequest) -> bool:
        """Put a question that a server has during a call of the script, as for a call of the client itself.

        The time of the script stands still until it is answered.
        """
        if self._client is None or self._run is None:
            return False
        answer, start = request.on_answer, self._run.stop_clock()

        def answered(request: ServerRequest, reply: UpstreamReply) -> None:
            start()
            answer(request, reply)

        request.on_answer = answered
        if not self._client.question(server, name, request):
            start()
            return False
        withdrawn = request.on_withdrawn

        def gone(reason: str) -> None:
            start()
            if withdrawn is not None:
                withdrawn(reason)

        request.on_withdrawn = gone
        return True

    def asks(self, approval: str, wait: Callable[[], Awaitable[object]]) -> None:
        """Note how to wait for an approval if the client cannot be asked."""
        self._waits[approval] = wait

    async def undecided(self, snapshot: ScriptSnapshot) -> frozenset[str]:
        """Return the approvals of a paused script that nobody has decided about."""
        asked = [call.approval for call in snapshot.run.asked]
        return frozenset([each for each in asked if not await self._owner.is_decided(each)])

    async def decided(self, snapshot: ScriptSnapshot, versions: str) -> frozenset[str]:
        """Ask about each call of a paused script, one after another, until nobody answers.

        Raises ScriptPaused if the client is asked at the end of its request.
        """
        paused = self._owner.paused()
        asked = [call.approval for call in snapshot.run.asked]
        if self._client is not None and self._client.asks_later():
            snapshot = structs.replace(snapshot, read=self._owner.origins(snapshot.script))
            await paused.keep(snapshot, versions, lambda: self.record("cancelled"))
            raise ScriptPaused(snapshot.script, asked[0])
        with paused.waiting(snapshot):
            for approval in asked:
                if self._client is None or not await self._client.ask(approval):
                    await self._waits[approval]()
                if not await self._owner.is_decided(approval):
                    break
            return await self.undecided(snapshot)

    def leave(self) -> None:
        """Note that nobody wants the calls any more that were asked about."""
        for approval in self._waits:
            self._owner.leave(approval)

    def record(self, outcome: Outcome, calls: int | None = None, reason: str = "") -> None:
        """Write the entry of the whole script."""
        seconds = max(time.time() - self.began, 0.0)
        self._owner.record(
            self._caller, self._params, outcome, self.ended if calls is None else calls, seconds, reason
        )


class HubScripts:
    """Runs scripts over the tools of a gateway. The sandbox is imported with the first script.

    ``key`` returns the key that signs snapshots, and makes it if there is none. ``learned`` returns the type
    of a tool's results. ``approvals`` are those that people decide about.
    """

    def __init__(
        self,
        context: HubContext,
        gateway: Gateway,
        perform: Perform,
        key: Callable[[], bytes],
        learned: Learned,
    ) -> None:
        self._context, self._gateway, self._key = context, gateway, key
        self._perform, self._learned = perform, learned
        self._tools, self._scripts = Lazy(self._open_tools), Lazy(self._open_scripts)
        self.paused = Lazy(self._open_paused)
        """Returns the snapshots of scripts that wait for a person."""
        self._followed: dict[str, FollowedScript] = {}
        self.running: dict[str, RunningScript] = {}
        self.meter: ScriptMeter | None = None
        self.approvals: ScriptApprovals | None = None

    def table(self) -> list[Operation]:
        """Return the operation that runs a script."""
        return code_table(self.run)

    def _open_tools(self) -> ScriptTools:
        from tabane.hub.work.script_tools import ScriptTools

        return ScriptTools(self._gateway, self._perform, self._learned)

    def _open_paused(self) -> PausedScripts:
        from tabane.hub.work.paused_scripts import PausedScripts

        return PausedScripts(self._context.home, self._key)

    def _open_scripts(self) -> Scripts:
        return self._tools().open_scripts(self._context)

    async def run(self, caller: Caller, params: RunScript) -> ScriptReport:
        """Run a script for a caller, or go on with it. Raises HubError if the sandbox is not installed."""
        scripts = self._scripts()
        if caller.script in self.running:
            raise CallerError(say("A script cannot run another script. Write all of it in one."))
        caller = structs.replace(caller, script=caller.script or new_script_id())
        client, snapshot, _ = self._followed.get(caller.script, (None, None, None))
        script = self.running[caller.script] = RunningScript(self, caller, params, client)
        try:
            if snapshot is None:
                report = await scripts.run(caller, params, script)
            else:
                script.began, script.ended = snapshot.began, snapshot.run.over
                report = await scripts.resume(caller, snapshot, script)
        except ScriptPaused:
            raise
        except BaseException as error:
            outcome: Outcome = "failed" if isinstance(error, Exception) else "cancelled"
            script.leave()
            script.record(outcome, reason=type(error).__name__ if outcome == "failed" else "")
            raise
        finally:
            del self.running[caller.script]
        script.record("failed" if report.error else "ok", report.calls, brief_reason(report.error))
        return report

    def record(
        self, caller: Caller, params: RunScript, outcome: Outcome, calls: int, seconds: float, reason: str
    ) -> None:
        """Record a script in the audit log, if there is one."""
        recorder = self.meter.recorder if self.meter is not None else None
        if recorder is None:
            return
        from tabane.audit.entry import RecordedScript

        source = params.code.encode("utf-8", "surrogatepass")
        recorder.record(
            caller,
            CallTarget(RUN, kind="operation", source="hub"),
            recorder.prepare(json.encode(params)),
            caller.request,
            outcome,
            seconds,
            reason=reason,
            script=RecordedScript(hashlib.sha256(source).hexdigest(), len(source), calls),
        )

    async def is_decided(self, approval: str) -> bool:
        """Return whether a person has decided about an approval."""
        return self.approvals is None or await self.approvals.is_decided(approval)

    def leave(self, approval: str) -> None:
        """Note that the script that asked for an approval is gone."""
        if self.approvals is not None:
            self.approvals.leave(approval)

    @contextmanager
    def followed(
        self, caller: Caller, client: ScriptClient, snapshot: ScriptSnapshot | None = None
    ) -> Iterator[Caller]:
        """Have the script of a request followed by its client. Give the caller for it."""
        script = new_script_id() if snapshot is None else snapshot.script
        origins = dict.fromkeys(snapshot.read if snapshot is not None else ())
        self._followed[script] = FollowedScript(client, snapshot, origins)
        try:
            yield structs.replace(caller, script=script)
        finally:
            del self._followed[script]

    def note_read(self, caller: Caller, target: CallTarget) -> None:
        """Note that a script has read from a tool."""
        if (followed := self._followed.get(caller.script)) is not None:
            followed.origins[target] = None

    def origins(self, script: str) -> tuple[CallTarget, ...]:
        """Return the tools from which a script has read, while its client follows it."""
        followed = self._followed.get(script)
        return tuple(followed.origins) if followed is not None else ()

    async def waiting(self, script: str, holder: str) -> ScriptSnapshot:
        """Return the snapshot of a script that waits. Raises CallerError if it cannot go on."""
        return await self.paused().read(script, self._scripts().versions, holder)

    async def signatures(self, caller: Caller, names: Sequence[str]) -> str:
        """Return tools as typed functions: their imports, then their signatures."""
        return await self._tools().signatures(caller, names)

    async def close(self) -> None:
        """Stop the scripts that still run, then the sandbox."""
        tasks = [each.task for each in self.running.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOPPING)
        if self.paused.opened is not None:
            self.paused.opened.close()
        if self._scripts.opened is not None:
            await self._scripts.opened.close()


def new_script_id() -> str:
    """Return a new id of a script, for the audit log."""
    return os.urandom(6).hex()


def brief_reason(error: str) -> str:
    """Return why a script failed without its values: the name of the exception, or the limit."""
    last = error.strip().rpartition("Traceback")[2].splitlines() if "Traceback" in error else []
    named = (_EXCEPTION.match(line) for line in reversed(last))
    found = next((match[1] for match in named if match), "")
    return found or ("" if last else error.partition("\n")[0])


class ScriptRule:
    """Asks for a person before a script changes something, as ``script_writes`` says.

    A host that lets its user confirm each call of a tool shows the code of a script, not its calls.
    """

    def __init__(self, writes: str) -> None:
        self._refuses = writes == "refuse"

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return the verdict on a call of a script that changes something; None for any other."""
        if not caller.script or not target.changes or target.kind not in ("tool", "operation"):
            return None
        reason = say("A script calls it, and it is not marked read-only (setting script_writes).")
        return CallVerdict("refuse" if self._refuses else "ask", RULE, reason)
