"""The process of a script: it talks to the interpreter, and has all values of the script.

The interpreter is a process of its own, in a cage. What it sends is read here, not in the hub: values that
share their parts, that are nested deeply, or whose hash takes forever cost this process its memory and its
time, and the hub kills it. One script runs at a time.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pydantic_monty as monty
from msgspec import Raw
from pydantic_monty._binary import find_monty_binary

from tabane.code import host_messages
from tabane.code.host_messages import (
    Begin,
    Dump,
    HostAnswer,
    HostCalled,
    HostDumped,
    HostFailed,
    HostFinished,
    HostGreeting,
    HostWaiting,
    Judged,
    SentResult,
    Settle,
    decode_request,
)
from tabane.code.script_values import (
    JsonBudget,
    NoJson,
    TooLarge,
    ToolFailed,
    bounded_json,
    tool_value,
    without_surrogates,
)
from tabane.wire import json
from tabane.workers.serving import LoadedService, ReportProgress, serve_loaded

if TYPE_CHECKING:
    from pydantic_monty import ExternalSettledResult, SyncSnapshot

GRACE = 1.0
"""Seconds after a limit of time until the interpreter is killed: some work cannot be interrupted."""

SCRIPTS_OF_A_WORKER = 200
"""Scripts after which the interpreter is replaced, so that what it has gathered is given back."""

LONGEST_SLEEP = 60.0

CONVERSION = 5.0
"""Seconds of CPU time that this process may take for one step of a script."""

MOST_ARGUMENTS = 2 << 20
"""Bytes of the arguments of a call."""

MOST_VALUES = 100_000
"""Values in the arguments of a call: the hub looks at them."""

_LONGEST_TEXT = 32_000
"""Characters of the text of a failure that are sent."""

_ROOT, _FILE = "tools.", '"<python-input-0>"'
_SLEEPS = ("system.sleep", "system.async_sleep")


def main() -> None:
    """Serve scripts in this process until the hub ends it."""
    serve_loaded(load)


def load(opening: bytes) -> LoadedService:
    """Return the service. Its greeting names the interpreter."""
    greeting = HostGreeting(find_monty_binary())
    return LoadedService(host_messages.encode(greeting), ScriptHost().respond)


class _PrintedTooMuch(Exception):
    """A script has printed more than it may."""


class ScriptHost:
    """Answers requests about one script after another."""

    def __init__(self) -> None:
        self._pool: monty.Monty | None = None
        self._script: _HostedScript | None = None

    def respond(self, body: bytes, progress: ReportProgress) -> bytes:
        """Answer one request. What goes wrong here is the failure of the script, never the end of the hub."""
        signal.setitimer(signal.ITIMER_PROF, CONVERSION)
        try:
            answer = self._answer_request(body, progress)
        except MemoryError:
            answer = HostFailed("the values of the script need too much memory.", broken=True)
        except BaseException as error:  # a panic of the library is no Exception
            text = f"an internal error while the script ran: {type(error).__name__}: {error}"
            answer = HostFailed(text[:_LONGEST_TEXT], broken=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return host_messages.encode(answer)

    def _answer_request(self, body: bytes, progress: ReportProgress) -> HostAnswer:
        request = decode_request(body)
        if isinstance(request, Begin):
            if self._pool is None:
                self._pool = monty.Monty(
                    binary_path=request.program,
                    min_processes=0,
                    max_processes=1,
                    max_checkouts_per_worker=SCRIPTS_OF_A_WORKER,
                    feed_duration_limit_grace=GRACE,
                    turn_duration_limit_grace=GRACE,
                ).__enter__()
            self._script = _HostedScript(self._pool, request, progress)
            return self._script.begin(request)
        script = self._script
        assert script is not None
        if isinstance(request, Judged):
            return script.judge(request.refused)
        if isinstance(request, Settle):
            return script.settle({id: _settled_result(result) for id, result in request.results.items()})
        if isinstance(request, Dump):
            return script.dump(request.most)
        self._script = None
        script.leave()
        return HostDumped()


class _HostedScript:
    """One script. Its methods return where it stops next."""

    def __init__(self, pool: monty.Monty, begin: Begin, progress: ReportProgress) -> None:
        self._limits, self._most, self._progress = begin.limits, begin.output, progress
        module = _tools_module(begin.modules)
        self._session = pool.checkout(
            limits={
                "max_feed_duration_secs": begin.limits.seconds,
                "max_turn_duration_secs": begin.limits.seconds,
                "max_memory": begin.limits.memory,
                "max_recursion_depth": begin.limits.recursion,
                # A call stops the script twice: when it is made, and when its result is needed.
                # Imports stop it too.
                "max_suspensions": 3 * begin.limits.calls + 1_000,
            },
            external_modules={"tools": lambda: module},
        )
        self._entered, self._printed = False, 0
        self._at: SyncSnapshot | None = None

    def begin(self, begin: Begin) -> HostAnswer:
        try:
            self._session.__enter__()
        except (OSError, RuntimeError, monty.MontyError) as error:
            return HostFailed(f"the sandbox cannot start: {error}", broken=True)
        self._entered = True
        if begin.state:
            return self._until_stop(
                self._session.load_snapshot, begin.state, print_callback=self._send_printed
            )
        inputs = without_surrogates(json.decode(begin.inputs))
        return self._until_stop(
            self._session.feed_start, begin.code, inputs=inputs, print_callback=self._send_printed
        )

    def judge(self, refused: SentResult | None) -> HostAnswer:
        at = self._at
        assert isinstance(at, monty.FunctionSnapshot)
        given: Any = {"future": ...} if refused is None else _settled_result(refused)
        return self._until_stop(at.resume, given)

    def settle(self, results: dict[int, ExternalSettledResult]) -> HostAnswer:
        at = self._at
        assert isinstance(at, monty.FutureSnapshot)
        return self._until_stop(at.resume, results)

    def dump(self, most: int) -> HostAnswer:
        at = self._at
        assert isinstance(at, monty.FutureSnapshot)
        try:
            state = at.dump()
        except monty.MontyError as error:
            return self._failure_of(error)
        if len(state) > most:
            return HostFailed(
                f"it keeps {len(state) >> 10} KiB of values, but at most {most >> 10} KiB can wait. Keep "
                "only what is needed after the call."
            )
        return HostDumped(state)

    def leave(self) -> None:
        """Give the interpreter back."""
        if self._entered:
            with contextlib.suppress(monty.MontyError):
                self._session.__exit__(None, None, None)

    def _send_printed(self, stream: str, text: str) -> None:
        written = text.encode("utf-8", "replace")
        room = max(self._most - self._printed, 0)
        self._printed += len(written)
        if written[:room]:
            self._progress(written[:room])
        if len(written) > room:
            raise _PrintedTooMuch

    def _until_stop(self, step: Callable[..., SyncSnapshot], *values: Any, **options: Any) -> HostAnswer:
        """Take a step of the script, answer what needs no waiting, and return where the script stops."""
        try:
            snapshot = step(*values, **options)
            while not isinstance(snapshot, monty.FutureSnapshot | monty.MontyComplete):
                if isinstance(snapshot, monty.NameLookupSnapshot):
                    snapshot = snapshot.resume()
                elif snapshot.is_os_function:
                    snapshot = _refused_or_imported(snapshot)
                else:
                    self._at = snapshot
                    return _called_function(snapshot)
            if isinstance(snapshot, monty.MontyComplete):
                return _finished_with(snapshot.output, self._limits.output)
            self._at = snapshot
            return HostWaiting(tuple(snapshot.pending_call_ids))
        except (monty.MontyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            return self._failure_of(error)

    def _failure_of(self, error: Exception) -> HostFailed:
        if isinstance(error, monty.MontyCrashedError):
            if error.timed_out:
                seconds = self._limits.seconds
                return HostFailed(f"the script computed longer than {seconds:g} s (setting script_seconds).")
            return HostFailed(
                "the process of the script ended unexpectedly. Calls that it made may have taken effect."
            )
        if isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError):
            return HostFailed(_cut_middle(self._explain_error(error)))
        return HostFailed(_cut_middle(f"a value cannot be passed to the script, or from it: {error}"))

    def _explain_error(self, error: monty.MontyRuntimeError | monty.MontySyntaxError) -> str:
        limits, text = self._limits, str(error)
        if self._printed > self._most:
            return f"the script printed more than {limits.output >> 10} KiB (setting script_output)."
        if "time limit exceeded" in text:
            return f"the script computed longer than {limits.seconds:g} s (setting script_seconds)."
        if text.startswith(
            ("MemoryError: memory limit exceeded", "MemoryError: the worker exceeded its memory")
        ):
            return f"the script needs more memory than {limits.memory >> 20} MiB (setting script_memory)."
        return error.display().replace(_FILE, '"script.py"')


def _cut_middle(text: str) -> str:
    """Return a text without its middle if it is long."""
    half = _LONGEST_TEXT // 2
    return text if len(text) <= _LONGEST_TEXT else f"{text[:half]}\n…\n{text[-half:]}"


def _refused_or_imported(snapshot: monty.FunctionSnapshot) -> SyncSnapshot:
    """Answer a call of the system: modules are imported, sleeps are slept, all else is refused."""
    name = str(snapshot.function_name)
    if name == "import":
        return snapshot.resume_auto()
    if name in _SLEEPS:
        threading.Event().wait(min(max(float(snapshot.args[0]), 0.0), LONGEST_SLEEP))
        return snapshot.resume({"return_value": None})
    return snapshot.resume_not_handled()


def _called_function(snapshot: monty.FunctionSnapshot) -> HostCalled:
    arguments, unfit = b"", ""
    try:
        given = [list(snapshot.args), snapshot.kwargs]
        arguments = bounded_json(given, JsonBudget(MOST_ARGUMENTS, MOST_VALUES), strict=True)
    except TooLarge as error:
        limit = f"the limit is {MOST_ARGUMENTS >> 10} KiB and {MOST_VALUES:,} values"
        unfit = f"the arguments have {error}: {limit}"
    except NoJson as error:
        unfit = f"the arguments are {error}".replace("are no JSON", "are not JSON")
    place = snapshot.position
    return HostCalled(
        snapshot.call_id,
        str(snapshot.function_name).removeprefix(_ROOT),
        arguments,
        unfit,
        (place.start, place.end) if place.filename != "<string>" else (-1, -1),
        snapshot.allow_eager_await,
    )


def _finished_with(value: Any, most: int) -> HostFinished:
    try:
        return HostFinished(bounded_json(value, JsonBudget(most)))
    except TooLarge:
        return HostFinished(
            b"null",
            f"the result has more than {most >> 10} KiB, and at most so much (setting script_output) is "
            "returned. Select what you need in the script.",
        )
    except NoJson as error:
        return HostFinished(b"null", f"the result is {error}. Return less of it.")


def _settled_result(result: SentResult) -> ExternalSettledResult:
    kind: Any = result.kind
    if kind:
        return {"exc_type": kind, "message": result.text}
    try:
        return {"return_value": tool_value(Raw(result.result), wrapped=result.wrapped)}
    except ToolFailed as error:
        return {"exc_type": "RuntimeError", "message": str(error)}


def _tools_module(modules: Mapping[str, Sequence[str]]) -> monty.ExternalModule:
    """Return the module ``tools``. Its functions are names: this side sees each call, and makes it."""
    attributes: dict[str, Any] = dict.fromkeys(modules.get("", ()), _tool_stub)
    for module, names in modules.items():
        if module:
            attributes[module] = monty.ExternalModule(dict.fromkeys(names, _tool_stub))
    return monty.ExternalModule(attributes)


def _tool_stub(*given: Any, **named: Any) -> None:
    """Stand for a tool. The host answers its calls, so this is never called."""
    raise AssertionError


if __name__ == "__main__":
    main()
