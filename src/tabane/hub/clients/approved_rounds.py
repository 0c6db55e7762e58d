"""Calls that were approved and go on over several requests, because a modern server asks in between."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import NamedTuple

from msgspec import Raw

from tabane.catalog.tools.tool import Tool, ToolCallRequest
from tabane.hub.clients.rounds import asks_for_input
from tabane.hub.clients.session import Session
from tabane.upstreams.call import UpstreamReply
from tabane.wire import json
from tabane.wire.json import InvalidJson

MOST_OPEN = 1024
"""Calls that wait for the next request of their client. The oldest are forgotten."""

LIFE = 600.0
"""Seconds for which one waits."""


class _Round(NamedTuple):
    """The next request of a call: who makes it, of what, and the state of the server that it repeats."""

    holder: str
    tool: str
    arguments: bytes
    state: bytes


class ApprovedRounds:
    """The requests that go on with an approved call. Each does so once: a repetition is a new call."""

    def __init__(self) -> None:
        self._open: OrderedDict[_Round, float] = OrderedDict()

    def note(self, session: Session, tool: Tool, inner: ToolCallRequest, reply: UpstreamReply) -> None:
        """Note the reply to a call that was approved: it may ask for another request."""
        if reply.result is None or not asks_for_input(reply):
            return
        try:
            state = json.fields(reply.result).get("requestState", Raw(b""))
        except InvalidJson:
            return
        self._open[_round(session, tool, inner, bytes(state))] = time.monotonic() + LIFE
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def goes_on(self, session: Session, tool: Tool, inner: ToolCallRequest) -> bool:
        """Return whether a request goes on with a call that was approved."""
        if not self._open:
            return False
        state = bytes(inner.params.get("requestState", b""))
        return self._open.pop(_round(session, tool, inner, state), 0.0) > time.monotonic()


def _round(session: Session, tool: Tool, inner: ToolCallRequest, state: bytes) -> _Round:
    from tabane.wire.argument_digest import argument_digest

    return _Round(session.caller.access.holder, tool.alias, argument_digest(inner.arguments), state)
