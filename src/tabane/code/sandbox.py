"""What a sandbox is for code mode: a session runs one script, and stops at each call of a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from msgspec import Raw

from tabane.code.limits import ScriptLimits


class ScriptFailed(Exception):
    """A script has failed: by an error of its own, at a limit, or because its process is gone.

    ``text`` is for whoever wrote the script, and ``printed`` what it had printed before.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Raised(NamedTuple):
    """An exception that a call raises in the script: its type, which Python has, and its text."""

    kind: str
    text: str


class Returned(NamedTuple):
    """The result of a call, as :func:`tabane.code.tool_values.tool_value` reads it."""

    result: Raw
    wrapped: bool = False


Settled = Raised | Returned


class ToolCalled(NamedTuple):
    """The script calls a function of ``tools``: ``github.search_issues``.

    ``unfit`` says why its arguments cannot be given to a tool; then there are none here. ``awaited``: it
    waits for the result at once, and nothing else of it can run. ``place`` is that of the call in the
    source, as offsets in bytes.
    """

    id: int
    function: str
    given: Sequence[Any]
    named: Mapping[str, Any]
    unfit: str
    place: tuple[int, int]
    awaited: bool


class Waiting(NamedTuple):
    """The script cannot go on before one of these calls has ended."""

    ids: Sequence[int]


class Finished(NamedTuple):
    """The script has ended. ``value`` is that of its last expression; ``unfit`` says why it has none."""

    value: Raw
    unfit: str = ""


Stop = Waiting | Finished

Judge = Callable[[ToolCalled], Raised | None]
"""Judges each call that a script makes: an exception for the script, or None to accept the call.
Raises ScriptFailed to end the script."""


class SandboxSession(Protocol):
    """One script in a process. Methods return where it stops next, and raise ScriptFailed."""

    @property
    def printed(self) -> str:
        """Return what the script has printed."""
        ...

    async def start(self, code: str, inputs: Mapping[str, Any], judge: Judge) -> Stop:
        """Start a script. ``inputs`` are its first variables."""
        ...

    async def settle(self, results: Mapping[int, Settled], judge: Judge) -> Stop:
        """Give the results of calls that the script waits for."""
        ...

    async def dump(self) -> bytes:
        """Return the state of a script that waits for calls. Another session can go on with it."""
        ...

    async def restore(self, state: bytes, printed: str, judge: Judge) -> Stop:
        """Put a script where it was, instead of starting one. ``printed`` is what it had printed."""
        ...


Modules = Mapping[str, Sequence[str]]
"""Names of functions by module; those of the module ``""`` are imported from ``tools`` itself."""


class Sandbox(Protocol):
    """Runs scripts in processes of their own. ``version`` is that of the interpreter."""

    version: str

    def session(self, modules: Modules, limits: ScriptLimits) -> AbstractAsyncContextManager[SandboxSession]:
        """Return a session for one script. If it is left early, its process is killed.

        Raises ScriptFailed if no process is free in time.
        """
        ...

    async def close(self) -> None:
        """End all processes."""
        ...
