"""One run of a script: each call of a tool is checked and made, and its result goes back into the script.

The source is checked before it runs: names that it uses, and calls without an await. Tools have the names
that scripts give them. An error gets a hint, found by its text, about what to write instead.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw, Struct

from tabane.code.host_messages import ScriptLimits
from tabane.code.sandbox import (
    AskedCall,
    Finished,
    HeldCall,
    Judge,
    Modules,
    PausedRun,
    Raised,
    ScriptFailed,
    Settled,
    Stop,
    ToolCalled,
    Waiting,
)
from tabane.code.signatures import ScriptTool, WrongArguments, identifier, identifiers
from tabane.text.nearest_names import nearest
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.code.monty_sandbox import MontySession

LONGEST_AT_ONCE = 4_096
"""Characters of a source above which it is read in a thread."""

_DYNAMIC = frozenset(
    {"getattr", "dir", "vars", "globals", "locals", "eval", "exec", "__import__", "__dict__"}
)

_USES: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Expr: ("value",),
    ast.Attribute: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.Compare: ("left", "comparators"),
    ast.FormattedValue: ("value",),
    ast.For: ("iter",),
    ast.comprehension: ("iter",),
    ast.If: ("test",),
    ast.While: ("test",),
    ast.IfExp: ("test",),
    ast.Assert: ("test",),
}
"""Where a value is used at once, so that a call there has no other chance to be awaited."""


class ScriptSource(NamedTuple):
    """``names`` are all that the source uses; ``dynamic``: it may use others, too.

    ``used_at_once`` has the places of calls whose value is used without an await, as offsets in bytes.
    ``unawaited`` names a function of the script itself that is called so, with the line.
    """

    code: str
    names: frozenset[str] = frozenset()
    dynamic: bool = True
    used_at_once: frozenset[tuple[int, int]] = frozenset()
    unawaited: tuple[str, int] | None = None

    def uses(self, name: str) -> bool:
        """Return whether the source may use a name."""
        return self.dynamic or name in self.names


def read_source(code: str) -> ScriptSource:
    """Return what a source says. One that Python cannot parse says nothing: the sandbox reports its error."""
    code = code.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ScriptSource(code)
    nodes = list(ast.walk(tree))
    names = frozenset(name for node in nodes for name in _names_in(node))
    starts = [0]
    for line in code.encode("utf-8", "surrogatepass").split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    lost = [call for node in nodes for call in _lost_calls(node)]
    places = frozenset(_place_of_call(call, starts) for call in lost)
    own = {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}
    own -= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    missing = [(call.func.id, call.lineno) for call in lost if isinstance(call.func, ast.Name)]
    unawaited = next((each for each in missing if each[0] in own), None)
    return ScriptSource(code, names, bool(names & _DYNAMIC) or "*" in names, places, unawaited)


def _place_of_call(call: ast.Call, starts: list[int]) -> tuple[int, int]:
    end = starts[(call.end_lineno or call.lineno) - 1] + (call.end_col_offset or 0)
    return starts[call.lineno - 1] + call.col_offset, end


def _names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield from node.name.split(".")


def _lost_calls(node: ast.AST) -> Iterator[ast.Call]:
    for field in _USES.get(type(node), ()):
        value = getattr(node, field)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.Call):
                yield each


SANDBOX_MODULES = frozenset(
    {
        "asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime",
        "decimal", "functools", "gc", "hashlib", "itertools", "json", "math", "os", "pathlib", "posixpath",
        "random", "re", "sys", "time", "tomllib", "typing", "unicodedata",
    }
)  # fmt: skip
"""Modules that the sandbox has itself. It refuses a server of such a name, and a script may need both."""


def module_name(server: str) -> str:
    """Return the name of a server as a module, with an underscore if the sandbox has one: ``time_``."""
    found = identifier(server, "server")
    return f"{found}_" if found in SANDBOX_MODULES else found


class NamedTool(Struct, frozen=True):
    """A tool of a server under its public name, and the function that it is in a script."""

    name: str
    module: str
    function: str


class ToolNames:
    """The functions of all tools. Whoever may call only some of them uses the same names.

    ``tools`` has the server (empty for the hub's own), the tool's name there, and its public name.
    """

    def __init__(self, tools: Iterable[tuple[str, str, str]]) -> None:
        by_server: dict[str, dict[str, str]] = {}
        for server, name, public in tools:
            by_server.setdefault(server, {})[name] = public
        own = identifiers(by_server.pop("", {}), "tool")
        modules = identifiers(by_server, "server", own.values(), SANDBOX_MODULES)
        named = [NamedTool(name, "", function) for name, function in own.items()]
        for server, found in by_server.items():
            functions = identifiers(found, "tool")
            named += (NamedTool(public, modules[server], functions[name]) for name, public in found.items())
        self.by_name: Mapping[str, NamedTool] = {each.name: each for each in named}
        self._by_module: dict[str, list[NamedTool]] = {}
        for each in self.by_name.values():
            self._by_module.setdefault(each.module or each.function, []).append(each)

    def used(self, source: ScriptSource) -> list[NamedTool]:
        """Return the tools that a script may use: those of the modules that it names."""
        if source.dynamic:
            return list(self.by_name.values())
        return [each for name in source.names for each in self._by_module.get(name, ())]


AWAIT = "A tool is an async function. Write: await {call}"

MODULES = (
    "asyncio (gather, run, sleep), base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, "
    "functools, hashlib, itertools, json, math, random, re, time, typing, unicodedata"
)

_HINTS: Sequence[tuple[str, str]] = (
    (r"support yield expressions", "There are no generators. Append to a list, and return the list."),
    (r"support the 'del' statement", "Use mapping.pop(key) or a new list; a variable can be set to None."),
    (r"class inheritance", "Write functions, or a class without a base class."),
    (r"support async for", "Await the call first, then loop over its result with for."),
    (r"support async context", "Call the function with await, without async with."),
    (r"support exception groups", "Use try and except without the star."),
    (r"support async generators|support async comprehensions", "Use a loop that appends to a list."),
    (r"method decorators|'property' instances", "Write a plain method or function, and call it."),
    (r"support type aliases", "Leave out the type: types are not checked."),
    (r"support template strings", "Write an f-string."),
    (r"gather\(\) does not yet support", "Catch the exception inside the async function that you gather."),
    (
        r"module 'asyncio' has no attribute",
        "asyncio has only gather, run and sleep. Write: await asyncio.gather(*calls)",
    ),
    (r"No module named 'statistics'", "Compute it: sum(values) / len(values)."),
    (
        r"No module named '(requests|httpx|aiohttp|urllib[\w.]*|socket|http[\w.]*)'",
        "A script has no network. Read a page with: from tools import read_url_content",
    ),
    (
        r"No module named '(subprocess|multiprocessing|threading|shutil|ctypes)'",
        "A script cannot start anything.",
    ),
    (r"No module named 'tools\.", "Write: from tools import name"),
    (r"No module named", f"There are only these modules, and tools: {MODULES}."),
    (
        r"from 'tools'",
        "Find the names with search_tools. A server whose name is that of a module here ends with _: time_",
    ),
    (
        r"Permission denied|FileNotFoundError|No such file",
        "A script has no files. Call a tool that has them.",
    ),
    (
        r"'os\.\w+|is not supported in this environment",
        "A script has no operating system: only values and tools.",
    ),
    (r"'coroutine' object|external_future", "An await is missing before the call of an async function."),
    (r"'list' object is not an iterator", "A generator expression is a list. Write: next(iter(values))"),
    (r"can't be awaited|cannot be awaited", "Only calls of async functions are awaited. Leave out await."),
    (r"memory limit exceeded", "Keep less at once: select what you need, and drop the rest."),
    (r"maximum recursion depth", "Use a loop instead of recursion."),
    (r"monty syntax parser does not yet support", "Write it with plain functions, loops and if."),
)

_COMPILED = tuple((re.compile(pattern), hint) for pattern, hint in _HINTS)
_COROUTINE = re.compile(r"<coroutine (external_future\(|object )")


def hint(error: str) -> str:
    """Return what to write instead of what led to an error; empty if nothing is known."""
    return next((hint for pattern, hint in _COMPILED if pattern.search(error)), "")


def shows_coroutine(text: str) -> bool:
    """Return whether a text has the form of a call that was not awaited."""
    return _COROUTINE.search(text) is not None


_MISSING = re.compile(r"module 'tools\.(\w+)' has no attribute '(\w+)'")


def missing_function(error: str) -> tuple[str, str] | None:
    """Return the module of tools and the name that it does not have; None for any other error."""
    found = _MISSING.search(error)
    return (found[1], found[2]) if found else None


_MOST_NAMED = 20

_LONGEST_FAILURE = 8_000
"""Characters of the text of a failure."""

NO_VALUE = Raw(b"null")
"""The result of a script that has none."""

_SHORT = 4_000
"""Bytes of a result that may be the text of a call that was not awaited."""


class Asking(NamedTuple):
    """A call that was not sent: a person has to approve it first. ``text`` says so."""

    approval: str
    text: str


Perform = Callable[[ScriptTool, dict[str, Any]], Awaitable[Settled | Asking]]
"""Calls a tool with arguments. What it raises is no failure of the tool, and ends the script."""

Progress = Callable[[int, str], None]
"""Called at the end of each call with the number of ended calls, and the name of the tool."""


class ScriptEnd(Struct, frozen=True):
    """How a script ended. ``failure`` is empty if it has come to its end. ``calls`` counts those of tools."""

    value: Raw
    printed: str
    calls: int
    failure: str = ""


def modules_of(tools: Sequence[ScriptTool]) -> Modules:
    """Return the names of the tools of a script by module: it can import nothing else."""
    found: dict[str, list[str]] = {}
    for tool in tools:
        found.setdefault(tool.module, []).append(tool.function)
    return found


class ScriptRun:
    """Runs one script in a session. ``tools`` are all that it can call.

    Calls are made when the script waits for one of them: then all that it has begun run in parallel. So a
    call that nothing waits for is not made, and the script fails. If all that it waits for are calls that a
    person has to approve first, it pauses: then its whole state is a value, and the session can be left.
    """

    def __init__(
        self,
        session: MontySession,
        tools: Sequence[ScriptTool],
        limits: ScriptLimits,
        perform: Perform,
        progress: Progress = lambda ended, tool: None,
    ) -> None:
        self._session, self._limits = session, limits
        self._tools = {tool.path: tool for tool in tools}
        self._perform, self._progress = perform, progress
        self._turns = asyncio.Semaphore(limits.parallel)
        self._held: dict[int, tuple[ScriptTool, dict[str, Any], tuple[int, int]]] = {}
        self._running: dict[int, asyncio.Task[Settled | AskedCall]] = {}
        self._asked: list[AskedCall] = []
        self._accepted = self._made = self._over = 0
        self._clock: asyncio.Timeout | None = None
        self._stops, self._left = 0, 0.0
        self._judge: Judge = lambda call: None

    async def run(
        self, source: ScriptSource, inputs: Mapping[str, Any], seconds: float
    ) -> ScriptEnd | PausedRun:
        """Run a script, and return how it ended, or where it pauses. It is stopped after ``seconds``.

        If this is canceled, so are the calls of the script.
        """
        return await self._run_within(source, seconds, self._start_script(source, inputs))

    async def go_on(
        self, source: ScriptSource, paused: PausedRun, undecided: Container[str] = ()
    ) -> ScriptEnd | PausedRun:
        """Go on with a script, as :meth:`run` does. Its calls that waited for an approval are repeated.

        A call that is still not approved fails now, and is not tried if its approval is ``undecided``.
        """
        self._accepted, self._made, self._over = paused.accepted, paused.made, paused.over
        return await self._run_within(source, paused.left, self._restore_script(source, paused, undecided))

    async def _run_within(
        self, source: ScriptSource, seconds: float, begun: Coroutine[Any, Any, Stop]
    ) -> ScriptEnd | PausedRun:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds) as self._clock:
                stop = await self._run_to_end(await begun)
                if stop is None:
                    left = (self._clock.when() or loop.time()) - loop.time()
                    return await self._pause_run(max(left, 0.001))
            self._check_awaited(source, stop.value)
            if stop.unfit:
                return self._failed_end(stop.unfit)
        except TimeoutError:
            return self._failed_end(
                f"the script did not end within {seconds:g} s (timeout). Its calls may have taken effect."
            )
        except ScriptFailed as failure:
            advice = self._hint_of_names(failure.text) or hint(failure.text)
            return self._failed_end(f"{failure.text}\n{advice}" if advice else failure.text)
        finally:
            self._clock = None
            for task in self._running.values():
                task.cancel()
            if self._running:
                await asyncio.gather(*self._running.values(), return_exceptions=True)
        return ScriptEnd(stop.value, self._session.printed, self._made)

    def stop_clock(self) -> Callable[[], None]:
        """Do not count the time until the returned function is called: a person is asked."""
        clock, loop = self._clock, asyncio.get_running_loop()
        if clock is not None and not self._stops:
            self._left = (clock.when() or loop.time()) - loop.time()
            clock.reschedule(None)
        self._stops += 1
        open_stops = [None]

        def start() -> None:
            if not open_stops:
                return
            open_stops.clear()
            self._stops -= 1
            if self._clock is not None and not self._stops and not self._clock.expired():
                self._clock.reschedule(loop.time() + self._left)

        return start

    def _hint_of_names(self, error: str) -> str:
        """Return a hint for a name that a module of tools does not have; empty for any other error."""
        if (found := missing_function(error)) is None:
            return ""
        module, name = found
        known = [tool.function for tool in self._tools.values() if tool.module == module]
        near = nearest(name, known) or known[:_MOST_NAMED]
        return f"{module} has: {', '.join(near)}" + ("" if len(near) == len(known) else ", …")

    def _failed_end(self, text: str) -> ScriptEnd:
        if len(text) > _LONGEST_FAILURE:
            half = _LONGEST_FAILURE // 2
            text = f"{text[:half]}\n…\n{text[-half:]}"
        return ScriptEnd(NO_VALUE, self._session.printed, self._made, text)

    async def _start_script(self, source: ScriptSource, inputs: Mapping[str, Any]) -> Stop:
        if source.unawaited is not None:
            name, line = source.unawaited
            raise ScriptFailed(f"line {line}: {name} is an async function. Write: await {name}(…)")
        self._judge = partial(self._judge_call, source)
        return await self._session.start(source.code, inputs, self._judge)

    async def _run_to_end(self, stop: Stop) -> Finished | None:
        """Return the end of the script; None if it pauses."""
        while not isinstance(stop, Finished):
            later = await self._wait_for_calls(stop)
            if later is None:
                return None
            stop = later
        return stop

    # -- pauses --------------------------------------------------------------------------------------

    async def _pause_run(self, left: float) -> PausedRun:
        held = tuple(
            HeldCall(id, tool.path, json.encode(arguments), place)
            for id, (tool, arguments, place) in self._held.items()
        )
        try:
            state = await self._session.dump()
        except ScriptFailed as failure:
            first = self._asked[0].path
            raise ScriptFailed(
                f"the script cannot wait for the approval of {first}: {failure.text}"
            ) from None
        return PausedRun(
            state, self._session.printed, held, tuple(self._asked), self._accepted,
            self._made, self._over, left,
        )  # fmt: skip

    async def _restore_script(
        self, source: ScriptSource, paused: PausedRun, undecided: Container[str]
    ) -> Stop:
        self._judge = partial(self._judge_call, source)
        stop = await self._session.restore(paused.state, paused.printed, self._judge)
        for held in paused.held:
            self._held[held.id] = (self._known_tool(held.path), json.decode(held.arguments), held.place)
        for asked in paused.asked:
            self._running[asked.id] = asyncio.ensure_future(
                self._try_again(asked, given_up=asked.approval in undecided)
            )
        return stop

    def _known_tool(self, path: str) -> ScriptTool:
        """Return a tool that the script has called. Raises ScriptFailed if there is no such tool any more."""
        if path not in self._tools:
            raise ScriptFailed(f"{path} is gone: it was there when the script began.")
        return self._tools[path]

    async def _try_again(self, asked: AskedCall, *, given_up: bool) -> Settled:
        """Repeat a call that waited for an approval. It was never sent."""
        if given_up:
            return Raised("PermissionError", asked.text)
        result = await self._make_call(asked.id, self._known_tool(asked.path), json.decode(asked.arguments))
        return Raised("PermissionError", result.text) if isinstance(result, AskedCall) else result

    # -- calls ---------------------------------------------------------------------------------------

    def _judge_call(self, source: ScriptSource, call: ToolCalled) -> Raised | None:
        """Accept a call, or return an exception for the script.

        Raises ScriptFailed at the limit of calls.
        """
        if (tool := self._tools.get(call.function)) is None:
            near = nearest(call.function, list(self._tools))[:_MOST_NAMED]
            hint = f" Tools with similar names, imported from tools: {', '.join(near)}" if near else ""
            line = _line_of(source, call.place)
            return Raised("NameError", f"{line}: name {call.function!r} is not defined.{hint}")
        if call.place in source.used_at_once and not call.awaited:
            missing = AWAIT.format(call=f"{call.function}(…)")
            return Raised("TypeError", f"{_line_of(source, call.place)}: {missing}")
        try:
            if call.unfit:
                raise WrongArguments(f"{tool.path}: {call.unfit}")
            arguments = tool.arguments(call.given, call.named)
        except WrongArguments as wrong:
            return Raised("TypeError", str(wrong))
        if self._accepted >= self._limits.calls:
            raise ScriptFailed(
                f"the script made {self._limits.calls} calls, which is the limit (setting script_calls)."
            )
        self._accepted += 1
        self._held[call.id] = (tool, arguments, call.place)
        return None

    async def _wait_for_calls(self, stop: Waiting) -> Stop | None:
        """Make all calls that were accepted, and give the script the results of those that have ended.

        Return None if the script waits only for calls that a person has to approve.
        """
        if len(stop.ids) == 1 and not self._running and (id := stop.ids[0]) in self._held:
            # The usual case: one call, whose result the script waits for.
            return await self._give_results({id: await self._make_call(id, *self._take_call(id))})
        for id in stop.ids:
            if id in self._held:
                self._running[id] = asyncio.ensure_future(self._make_call(id, *self._take_call(id)))
        while waited := {id: self._running[id] for id in stop.ids if id in self._running}:
            await asyncio.wait(waited.values(), return_when=asyncio.FIRST_COMPLETED)
            ended = {id: self._running.pop(id).result() for id, task in waited.items() if task.done()}
            if (later := await self._give_results(ended)) is not None:
                return later
        if not {asked.id for asked in self._asked}.issuperset(stop.ids):
            raise ScriptFailed("the script waits for a call whose result it did not want before.")
        if self._running:  # sent, and nothing waits for them any more
            await asyncio.wait(self._running.values())
        return None

    async def _give_results(self, ended: Mapping[int, Settled | AskedCall]) -> Stop | None:
        """Give results to the script; those of calls that were not sent are put aside."""
        self._asked += [result for result in ended.values() if isinstance(result, AskedCall)]
        results = {id: result for id, result in ended.items() if not isinstance(result, AskedCall)}
        return await self._session.settle(results, self._judge) if results else None

    def _take_call(self, id: int) -> tuple[ScriptTool, dict[str, Any]]:
        tool, arguments, _ = self._held.pop(id)
        self._made += 1
        return tool, arguments

    async def _make_call(self, id: int, tool: ScriptTool, arguments: dict[str, Any]) -> Settled | AskedCall:
        async with self._turns:
            result = await self._perform(tool, arguments)
        if isinstance(result, Asking):
            return AskedCall(id, tool.path, json.encode(arguments), *result)
        self._over += 1
        self._progress(self._over, tool.name)
        return result

    # -- the end -------------------------------------------------------------------------------------

    def _check_awaited(self, source: ScriptSource, value: Raw) -> None:
        """Raise ScriptFailed if the script has not awaited a call: it would have an empty result."""
        if self._held:
            tool, _, place = next(iter(self._held.values()))
            raise ScriptFailed(
                f"{_line_of(source, place)}: {tool.path} was not called, because nothing awaits the call. "
                f"{AWAIT.format(call=f'{tool.path}(…)')}"
            )
        shown = (json.text(value) or "") if len(value) < _SHORT else ""
        if shows_coroutine(shown) or shows_coroutine(self._session.printed):
            raise ScriptFailed("the script used an async function without await. Write: await function(…)")


def _line_of(source: ScriptSource, place: tuple[int, int]) -> str:
    before = source.code.encode("utf-8", "surrogatepass")[: max(place[0], 0)]
    return f"line {before.count(bytes([10])) + 1}"
