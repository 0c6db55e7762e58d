"""One call as it is watched: who makes it, how it ends, and the times between its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tabane.operations import Caller, CallTarget, Outcome

HEAD = 16 << 10
"""Bytes of arguments and of a result that are shown."""

MOST_KEPT = HEAD + (1 << 10)
"""Bytes of each that are kept, so that a secret at the cut is recognized."""

LONGEST = 500
"""Characters of a name or reason; longer ones are cut."""

_NOT_YET = -1.0


class WatchedText:
    """The beginning of a JSON text as it was sent, with its secrets. ``size`` is the size of all of it."""

    __slots__ = ("head", "size")

    def __init__(self, text: bytes | memoryview) -> None:
        self.size = len(text)
        self.head = bytes(memoryview(text)[:MOST_KEPT]) if self.size > MOST_KEPT else bytes(text)


class LiveCall:
    """A call that runs or has ended. It takes the time of each step that it is told of.

    ``on_end`` is called once, when it has ended. ``on_find`` is called when credentials were found in it,
    also after that. Times are in seconds: ``began`` since 1970.
    """

    __slots__ = (
        "_admitted", "_answered", "_found", "_on_end", "_on_find", "_over", "_sent", "_started", "_submitted",
        "arguments", "began", "client", "face", "holder", "kind", "label", "number", "outcome", "reason",
        "request", "result", "saved", "script", "server", "size", "tool",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        caller: Caller,
        target: CallTarget,
        arguments: bytes,
        request: str,
        on_end: Callable[[LiveCall], None],
        on_find: Callable[[LiveCall], None],
    ) -> None:
        self.number, self._on_end, self._on_find = number, on_end, on_find
        self.began, self._started = time.time(), time.perf_counter()
        self._admitted = self._submitted = self._sent = self._answered = self._over = _NOT_YET
        access = caller.access
        self.holder, self.label, self.client = access.holder, access.label, caller.client[:LONGEST]
        self.face, self.script, self.request = caller.face.value, caller.script, request[:LONGEST]
        self.tool, self.server, self.kind = target.name[:LONGEST], target.server, target.kind
        self.arguments: WatchedText | None = WatchedText(arguments)
        self.result: WatchedText | None = None
        self.outcome: Outcome | None = None
        self.reason, self.size, self.saved = "", 0, 0
        self._found: dict[str, tuple[tuple[str, ...], bool]] = {}

    # -- steps -----------------------------------------------------------------------------------

    def admitted(self) -> None:
        """Note that it is the call's turn: no limit holds it back."""
        self._admitted = time.perf_counter()

    def submitted(self) -> None:
        """Note that the call was handed to its server."""
        self._submitted = time.perf_counter()

    def sent(self) -> None:
        """Note that the call was sent to its server."""
        self._sent = time.perf_counter()

    def answered(self, result: bytes | memoryview | None) -> None:
        """Note the answer."""
        self._answered = time.perf_counter()
        if result is not None:
            self.result = WatchedText(result)

    def credentials(self, where: str, kinds: tuple[str, ...], replaced: bool) -> None:
        """Note which kinds of credentials are in its ``arguments`` or its ``result``."""
        self._found[where] = kinds, replaced
        self._on_find(self)

    def ended(self, outcome: Outcome, size: int, saved: int, reason: str) -> None:
        """Note how the call ended."""
        self._over = time.perf_counter()
        self.outcome, self.size, self.saved, self.reason = outcome, size, saved, reason[:LONGEST]
        self._on_end(self)

    # -- reports ---------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Return how long it took, or takes until now."""
        return (self._over if self.outcome else time.perf_counter()) - self._started

    @property
    def weight(self) -> int:
        """Return the bytes that are kept of arguments and result."""
        return sum(len(text.head) for text in (self.arguments, self.result) if text is not None)

    def forget_texts(self) -> None:
        self.arguments = self.result = None

    def row(self) -> dict[str, Any]:
        """Return the call as a row of a list, without arguments and result."""
        return {
            "number": self.number,
            "time": round(self.began, 3),
            "holder": self.holder,
            "label": self.label,
            "client": self.client,
            "face": self.face,
            "tool": self.tool,
            "server": self.server,
            "kind": self.kind,
            "outcome": self.outcome or "running",
            "reason": self.reason,
            "ms": round(self.seconds * 1000, 3),
            "bytes": self.size,
            "saved": self.saved,
            "credentials": [
                {"where": where, "kinds": kinds, "replaced": replaced}
                for where, (kinds, replaced) in self._found.items()
            ],
        }

    def steps(self) -> list[dict[str, Any]]:
        """Return the steps that the call has made, in their order, each with its milliseconds.

        ``limits``: it waited for its turn. ``hub``: Tabane worked on it. ``queue``: it waited for a free
        place at its server, or for the start of the server. ``server``: the server worked on it. ``answer``:
        Tabane worked on the answer.
        """
        over = self._over if self.outcome else time.perf_counter()
        marks = [("limits", self._admitted)] if self._admitted >= 0 else []
        if self._submitted >= 0:
            marks += [("hub", self._submitted), ("queue", self._sent), ("server", self._answered)]
        else:  # an operation of the hub itself
            marks += [("hub", self._answered)]
        steps, before, rest = [], self._started, "answer"
        for name, at in marks:
            if at < 0:
                rest = name
                break
            steps.append({"step": name, "ms": round(max(at - before, 0.0) * 1000, 3)})
            before = max(at, before)
        return [*steps, {"step": rest, "ms": round(max(over - before, 0.0) * 1000, 3)}]
