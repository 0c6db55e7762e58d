"""An MCP client on a WebSocket that reads slowly: what it receives, and what replaces the rest."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from tabane.hub.clients.outlet import ROOM
from tabane.hub.http.websocket import WebSocketOutlet
from tabane.operations import Caller, Face

MOST = 64 << 10


class Socket:
    """A connection of which ``unsent`` bytes were not read yet."""

    ending = False

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent
        self.told: list[bytes] = []

    def tell(self, line: bytes) -> None:
        self.told.append(line)


def outlet(unsent: int) -> tuple[WebSocketOutlet, Socket]:
    socket = Socket(unsent)
    made = WebSocketOutlet(Caller("local", Face.MCP, "ws-1"), MOST, notes=True)
    made.open(cast("Any", socket), cast("Any", SimpleNamespace()))
    return made, socket


def test_an_answer_larger_than_the_outbox_is_given_while_little_waits() -> None:
    made, socket = outlet(ROOM)
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * (2 * MOST) + b'"}}\n'
    made.answer(b"1", line, True)
    assert socket.told == [line]


def test_an_answer_that_does_not_fit_becomes_an_error_and_a_notification_is_dropped() -> None:
    made, socket = outlet(ROOM + 1)
    made.answer(b"1", b'{"jsonrpc":"2.0","id":1,"result":{}}\n', True)
    made.tell(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n', None)
    [told] = socket.told
    error = json.loads(told)["error"]
    assert error["data"] == {"reason": "hub"}
    assert "was dropped, because the client has not read" in error["message"]  # as over any other transport
