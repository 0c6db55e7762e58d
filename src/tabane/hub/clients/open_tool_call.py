"""A call of a client to a server's tool, from its admission to the record of its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Raw, Struct

from tabane.catalog.tools.tool import Tool, ToolCallRequest, says_failed
from tabane.hub.clients.session import Session
from tabane.operations import OpenCall, Outcome
from tabane.wire.json import Members

BYTES_OF_TOKEN = 4
"""Bytes of a result that count as one token where what was saved is estimated."""


class OpenToolCall(Struct):
    """A call of a session to an upstream's tool. ``through``: it came by call_tool.

    ``inner`` are its name and parameters, ``meta`` is the ``_meta`` of its request. ``guarded``: it was
    approved by a person.
    """

    session: Session
    key: bytes
    tool: Tool
    opened: OpenCall
    through: bool
    inner: ToolCallRequest
    meta: Members
    guarded: bool = False

    def end(self, result: Raw, given: Raw) -> Awaitable[None] | None:
        """Record the result; ``given`` is the part of it that the client gets."""
        saved = (len(result) - len(given)) // BYTES_OF_TOKEN if given is not result else 0
        outcome: Outcome = "failed" if says_failed(result) else "ok"
        return self.opened.end(outcome, len(result), saved=max(0, saved), result=result)

    def after(self, recorded: Awaitable[None] | None, give: Callable[[], None]) -> None:
        """Give the answer, after it is on disk that it was given if that is wanted."""
        if recorded is None:
            give()
        else:
            self.session.prepare(self.key, 0, self._later(recorded, give))

    async def _later(self, recorded: Awaitable[None], give: Callable[[], None]) -> None:
        await recorded
        give()
