"""Scripts of a hub: the tools that they call, who follows them, their pauses, and their audit entries."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find
from tabane.catalog.tools.tool import Tool
from tabane.code.table import RUN, code_table
from tabane.errors import CallerError, HubError
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Operation, Outcome
from tabane.operations.door import CallVerdict
from tabane.settings import Settings
from tabane.wire import json
from tabane.wire.json import InvalidJson

if TYPE_CHECKING:
    from tabane.audit.log import AuditLog
    from tabane.catalog.operations.tool_operations import Learned
    from tabane.code.host_messages import ScriptLimits
    from tabane.code.monty_sandbox import MontySandbox
    from tabane.code.parameters import RunScript
    from tabane.code.sandbox import ScriptSnapshot
    from tabane.code.script_run import ScriptRun, ScriptSource, ToolNames
    from tabane.code.scripts import ScriptReport, Scripts
    from tabane.code.signatures import ScriptTool
    from tabane.hub.work.paused_scripts import PausedScripts
    from tabane.upstreams.call import ServerRequest, UpstreamReply

RULE = "script"

STOPPING = 5.0
"""Seconds in which scripts end when the hub does."""

OPEN = "open_result"
"""The function that opens a kept result by its handle."""

_OPEN_PARAMS = {
    "type": "object",
    "properties": {"handle": {"type": "string"}, "select": {"type": "string"}},
    "required": ["handle"],
    "additionalProperties": False,
}

_EXCEPTION = re.compile(r"(\w+)(: |$)")

MANY = 500
"""Tools above which their names are made in a thread."""

Perform = Callable[[Caller, str, dict[str, Any]], Awaitable[Raw]]
"""Calls one tool through the door, and returns its result. Raises TabaneError."""


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
        self.ended = ended
        if self._client is not None:
            self._client.progressed(ended, tool)

    def runs(self, run: ScriptRun) -> None:
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
        asked = [call.approval for call in snapshot.run.asked]
        return frozenset([each for each in asked if not await self._owner.is_decided(each)])

    async def decided(self, snapshot: ScriptSnapshot, versions: str) -> frozenset[str]:
        """Ask about each call of a paused script, one after another, until nobody answers.

        Raises ScriptPaused if the client is asked at the end of its request.
        """
        paused = self._owner.paused
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

    ``key`` returns the key that signs snapshots, and ``learned`` the type of a tool's results. ``approvals``
    are those that people decide about.
    """

    def __init__(
        self,
        gateway: Gateway,
        perform: Perform,
        settings: Callable[[], Settings],
        key: Callable[[], bytes],
        learned: Learned,
    ) -> None:
        self._settings, self._key = settings, key
        self._tools = ScriptTools(gateway, perform, learned)
        self._scripts: Scripts | None = None
        self._paused: PausedScripts | None = None
        self._followed: dict[str, FollowedScript] = {}
        self.running: dict[str, RunningScript] = {}
        self.meter: ScriptMeter | None = None
        self.approvals: ScriptApprovals | None = None

    def table(self) -> list[Operation]:

        return code_table(self.run)

    @property
    def paused(self) -> PausedScripts:
        """Return the snapshots of scripts that wait for a person."""
        if self._paused is None:
            from tabane.code.sandbox import signed_by
            from tabane.hub.work.paused_scripts import PausedScripts

            self._paused = PausedScripts(self._settings().home, lambda: signed_by(self._key()))
        return self._paused

    async def run(self, caller: Caller, params: RunScript) -> ScriptReport:
        """Run a script for a caller, or go on with it. Raises HubError if the sandbox is not installed."""
        scripts = self._loaded()
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
        return await self.paused.read(script, self._loaded().versions, holder)

    async def signatures(self, caller: Caller, names: Sequence[str]) -> str:
        """Return tools as typed functions: their imports, then their signatures."""
        return await self._tools.signatures(caller, names)

    async def close(self) -> None:
        """Stop the scripts that still run, then the sandbox."""
        tasks = [each.task for each in self.running.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOPPING)
        if self._paused is not None:
            self._paused.close()
        if self._scripts is not None:
            await self._scripts.close()

    def _loaded(self) -> Scripts:
        from tabane.extras import extra_command

        if self._scripts is None:
            if find_spec("pydantic_monty") is None:
                raise HubError(
                    say("Scripts need a package that is not installed. Run: {command}",
                        command=extra_command("code"))
                )  # fmt: skip
            from tabane.code.scripts import Scripts

            self._scripts = Scripts(
                self._tools, self._limits, lambda: self._settings().script_timeout, self._sandbox
            )
        return self._scripts

    def _sandbox(self, limits: ScriptLimits) -> MontySandbox:
        from tabane.code.monty_sandbox import MontySandbox
        from tabane.hub.work.script_cage import CagedWorkers

        return MontySandbox(limits, program=CagedWorkers(self._settings().home, os.environ).program)

    def _limits(self) -> ScriptLimits:
        from tabane.code.host_messages import ScriptLimits

        settings = self._settings()
        return ScriptLimits(
            settings.script_seconds,
            settings.script_memory,
            settings.script_output,
            settings.script_calls,
            settings.script_parallel,
            workers=settings.script_workers,
        )


def new_script_id() -> str:
    """Return a new id of a script, for the audit log."""
    return os.urandom(6).hex()


def brief_reason(error: str) -> str:
    """Return why a script failed without its values: the name of the exception, or the limit."""
    last = error.strip().rpartition("Traceback")[2].splitlines() if "Traceback" in error else []
    named = (_EXCEPTION.match(line) for line in reversed(last))
    found = next((match[1] for match in named if match), "")
    return found or ("" if last else error.partition("\n")[0])


class ScriptTools:
    """The tools of a gateway as functions. Their names are made again when the catalog has changed."""

    def __init__(self, gateway: Gateway, perform: Perform, learned: Learned) -> None:
        self._gateway, self._perform, self._learned = gateway, perform, learned
        self._names: ToolNames | None = None
        self._version, self._own = -1, tuple[Tool, ...]()
        self._known: dict[str, tuple[Tool, ScriptTool]] = {}

    async def call(self, caller: Caller, name: str, arguments: dict[str, Any]) -> Raw:
        return await self._perform(caller, name, arguments)

    async def used(self, caller: Caller, source: ScriptSource) -> list[ScriptTool]:
        """Return the tools that a script may use, without those that its caller may not find."""
        from tabane.code.script_run import module_name

        catalogue = self._gateway.catalogue
        if any(source.uses(module_name(name)) and not catalogue.has(name) for name in self._gateway.servers):
            await self._gateway.wait_listed(caller)
        names = await self._current()
        found = (self._function(names, each.name) for each in names.used(source) if each.name != OPEN)
        tools = [function for tool, function in found if _callable(caller, tool)]
        return [*tools, _open_result()] if source.uses(OPEN) else tools

    async def signatures(self, caller: Caller, public: Sequence[str]) -> str:
        from tabane.code.signatures import signatures_text

        names = await self._current()
        found = [self._function(names, name) for name in public if name in names.by_name]
        return signatures_text(
            [self._typed(caller, tool, function) for tool, function in found if _callable(caller, tool)]
        )

    def _typed(self, caller: Caller, tool: Tool | None, function: ScriptTool) -> ScriptTool:
        """Return a tool with the type of its results, if that was learned and is not declared."""
        found = self._learned(caller, tool) if tool is not None and function.result is None else None
        if found is None:
            return function
        return structs.replace(function, result=found.schema, learned=found.results)

    async def _current(self) -> ToolNames:
        from tabane.code.script_run import ToolNames

        catalogue = self._gateway.catalogue
        version, own = catalogue.version, catalogue.own
        if self._names is None or version != self._version or own is not self._own:
            tools = [(each.server, each.shown_name, each.alias) for each in (*own, *catalogue.tools)]
            tools.append(("", OPEN, OPEN))  # so that no server has this name
            made = await asyncio.to_thread(ToolNames, tools) if len(tools) > MANY else ToolNames(tools)
            self._names, self._version, self._own = made, version, own
            self._known.clear()
        return self._names

    def _function(self, names: ToolNames, public: str) -> tuple[Tool | None, ScriptTool]:
        from tabane.code.signatures import ScriptTool

        tool = self._gateway.catalogue.find(public)
        known = self._known.get(public)
        if known is not None and known[0] is tool:
            return known
        named = names.by_name[public]
        if tool is None:
            return None, ScriptTool(named.module, named.function, public)
        made = ScriptTool(
            named.module, named.function, public, tool.description, tool.schema, _result(tool),
            tool.target.changes,
        )  # fmt: skip
        self._known[public] = (tool, made)
        return tool, made


def _open_result() -> ScriptTool:
    from tabane.code.signatures import ScriptTool

    about = "Return a kept result as a value, or what a JMESPath selects of it."
    return ScriptTool("", OPEN, OPEN, about, _OPEN_PARAMS)


def _callable(caller: Caller, tool: Tool | None) -> bool:
    return tool is not None and tool.app.for_model and may_find(caller, tool.target)


def _result(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of the results of a tool; None if it declares none that can be read."""
    try:
        found = json.decode(json.fields(tool.definition).get("outputSchema", Raw(b"null")))
    except InvalidJson:
        return None
    return found if isinstance(found, dict) else None


class ScriptRule:
    """Asks for a person before a script changes something, as ``script_writes`` says.

    A host that lets its user confirm each call of a tool shows the code of a script, not its calls.
    """

    def __init__(self, writes: str) -> None:
        self._refuses = writes == "refuse"

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        if not caller.script or not target.changes or target.kind not in ("tool", "operation"):
            return None
        reason = say("A script calls it, and it is not marked read-only (setting script_writes).")
        return CallVerdict("refuse" if self._refuses else "ask", RULE, reason)

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes, result: bytes | Raw | None
    ) -> None:
        return None
