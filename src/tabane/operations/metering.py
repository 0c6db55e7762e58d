"""Metering of calls: their limits, their audit entries and their counts, behind one protocol."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal, Protocol

from tabane.errors import (
    LoginRequired,
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)

if TYPE_CHECKING:
    from msgspec import Raw

    from tabane.operations.caller import Caller, CallTarget

Outcome = Literal["ok", "failed", "refused", "limited", "cancelled"]

FailureKind = Literal["tool_error", "protocol_error", "timeout", "unavailable", "failed"]
"""Why a call failed: the tool said so, the server answered with an error, it did not answer in time, it did
not run, or anything else."""


class FailureReason(str):
    """The reason of a failure in a few words, and its kind.

    ``unmade``: the server has refused to begin the call, so it can be made again with the same approval.
    """

    __slots__ = ("kind", "unmade")
    kind: FailureKind
    unmade: bool

    def __new__(cls, text: str, kind: FailureKind, unmade: bool = False) -> FailureReason:
        made = super().__new__(cls, text)
        made.kind, made.unmade = kind, unmade
        return made


def failure_reason(error: TabaneError) -> FailureReason:
    """Return the reason that an error gives."""
    kind: FailureKind = "failed"
    if isinstance(error, UpstreamTimeout):
        kind = "timeout"
    elif isinstance(error, UpstreamUnavailable | UpstreamDied | UpstreamOverloaded):
        kind = "unavailable"
    elif isinstance(error, UpstreamError):
        kind = "protocol_error"
    return FailureReason(str(error), kind, isinstance(error, LoginRequired))


class CallMarks(Protocol):
    """Receives the times of a watched call, its progress, its result's beginning and its credentials."""

    def admitted(self) -> None:
        """Note that no limit holds the call back any more."""
        ...

    def submitted(self) -> None:
        """Note that the call was handed to its server, where it may have to wait."""
        ...

    def sent(self) -> None:
        """Note that the call was sent to its server."""
        ...

    def answered(self, result: bytes | memoryview | None) -> None:
        """Note the answer: a result or an error, None if there is neither."""
        ...

    def credentials(self, where: str, kinds: tuple[str, ...], replaced: bool) -> None:
        """Note that there are credentials in the ``arguments`` or the ``result``, also after the end.

        ``replaced``: they were not passed on.
        """
        ...

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Note how far the server says it is; ``total`` is None if it does not say of how much."""
        ...


class OpenCall(Protocol):
    """A call that was admitted and has not ended."""

    __slots__ = ()

    @property
    def marks(self) -> CallMarks | None:
        """The receiver of the times of the call; None if nobody watches."""
        ...

    @property
    def waits(self) -> Awaitable[None] | None:
        """An awaitable that is done when the call may begin; None if it may begin now."""
        ...

    @property
    def most(self) -> int:
        """The largest allowed size of the result in bytes; 0 is no limit."""
        ...

    @property
    def meta(self) -> dict[str, Raw] | None:
        """Members for ``_meta`` of the request to the upstream."""
        ...

    def end(
        self,
        outcome: Outcome,
        size: int = 0,
        *,
        saved: int = 0,
        reason: str = "",
        result: bytes | Raw | None = None,
    ) -> Awaitable[None] | None:
        """Record how the call ended. Call it before the answer goes out; only the first call counts.

        If it returns something to await, the answer has to wait for that: then the record is on disk.

        ``size`` are the bytes of the result, ``saved`` the tokens that the client was spared, and ``reason``
        says in a few words why the call failed. ``result`` is the result of a tool as MCP has it. Raises
        TabaneError if the call may not be answered, because it cannot be recorded.
        """
        ...


class CallMeter(Protocol):
    """Applies limits to calls, and records them."""

    def begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
        """Return the call, which has to be ended. Raises RateLimited, and TabaneError if it is refused."""
        ...

    def refuse(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str, error: TabaneError
    ) -> None:
        """Record a call that the caller was not allowed to make."""
        ...


class UnmeteredCall(OpenCall):
    """A call without limits and records."""

    marks = None
    waits = None
    most = 0
    meta = None

    def end(
        self,
        outcome: Outcome,
        size: int = 0,
        *,
        saved: int = 0,
        reason: str = "",
        result: bytes | Raw | None = None,
    ) -> Awaitable[None] | None:
        return None


class NoMeter(CallMeter):
    """No limits, and no records: for tables that are not part of a hub."""

    def begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
        return UNMETERED

    def refuse(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str, error: TabaneError
    ) -> None:
        return None


UNMETERED: OpenCall = UnmeteredCall()


class CallBlock:
    """Ends a call that fails or is canceled in this block.

    As ``async with``, it also waits until the record of a failure is on disk, if that is wanted.
    """

    __slots__ = ("_opened",)

    def __init__(self, opened: OpenCall) -> None:
        self._opened = opened

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._end_with(error)

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (recorded := self._end_with(error)) is not None:
            await recorded

    def _end_with(self, error: BaseException) -> Awaitable[None] | None:
        if isinstance(error, TabaneError):
            return self._opened.end("failed", reason=failure_reason(error))
        if isinstance(error, Exception):
            return self._opened.end("failed", reason="internal error")
        # Canceled, or its generator was closed. Nobody gets an answer that was not recorded.
        with contextlib.suppress(TabaneError):
            self._opened.end("cancelled")
        return None


def ended(opened: OpenCall) -> CallBlock:
    """End a call that fails or is canceled in this block."""
    return CallBlock(opened)
