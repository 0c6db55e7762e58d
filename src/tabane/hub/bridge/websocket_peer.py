"""Lines as messages of a WebSocket: the hub's side of a bridge over TCP."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from itertools import islice

from tabane.hub.bridge.connections import LinePeer
from tabane.wire import websocket
from tabane.wire.websocket import (
    Fault,
    OversizedMessage,
    WebSocketClosed,
    WebSocketDecoder,
    WebSocketMessage,
    WebSocketPing,
)


class WebSocketPeer(LinePeer):
    """A :class:`LinePeer` whose lines travel as masked WebSocket messages on one socket.

    A line that is valid UTF-8 is a text message, any other a binary one.
    """

    def __init__(self, fd: int, max_line: int) -> None:
        super().__init__(fd, fd, max_line)
        self._decoder = WebSocketDecoder(max_line, masked=False)
        self._sources: deque[bytes | None] = deque()
        """The line that each frame of the outbox carries; None for a control frame."""

    def feed(self, chunk: bytes) -> list[bytes]:
        lines: list[bytes] = []
        try:
            for event in self._decoder.feed(chunk):
                if isinstance(event, WebSocketMessage):
                    lines += self.received(event.data)
                elif isinstance(event, OversizedMessage):
                    self.oversized.append(event.head)
                elif isinstance(event, WebSocketPing):
                    self._frame(event.data, websocket.PONG)
                elif isinstance(event, WebSocketClosed):
                    self.ended = True
        except Fault:
            self.ended = True
        return lines

    def received(self, message: bytes) -> list[bytes]:
        """Return the lines in a message of the server."""
        return [message.rstrip(b"\r\n")]

    def send(self, line: bytes) -> None:
        self._frame(line, websocket.TEXT if websocket.is_text(line) else websocket.BINARY, line)

    def flush(self) -> None:
        super().flush()
        while len(self._sources) > len(self._outbox):
            self._sources.popleft()

    def not_begun(self) -> list[bytes]:
        while len(self._sources) > len(self._outbox):
            self._sources.popleft()
        waiting = islice(self._sources, 1 if self._begun else 0, None)
        return [line for line in waiting if line is not None]

    def close(self) -> None:
        if not self._outbox:
            # Tell the hub at once that this client left.
            with contextlib.suppress(OSError):
                os.write(self.write_fd, websocket.close_frame(websocket.NORMAL, key=os.urandom(4)))
        super().close()

    def _frame(self, payload: bytes, opcode: int, source: bytes | None = None) -> None:
        frame = websocket.frame(payload, opcode, os.urandom(4))
        self._outbox.append(frame)
        self._sources.append(source)
        self.unsent += len(frame)
