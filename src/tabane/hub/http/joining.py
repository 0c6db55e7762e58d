"""A transport that sends the head of a response together with the first of its body."""

from __future__ import annotations

import asyncio
from typing import Any

LARGEST = 64 << 10
"""Bytes of a body that are worth a copy to save a packet."""

_HEAD = b"HTTP/1.1 "


class Joining:
    """What uvicorn writes, less a packet: a client that is woken by the head finds the body there too.

    A head waits for what is written after it in the same turn of the loop, and no longer. Whatever else a
    transport does, the one underneath does.
    """

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""

    @property
    def plain(self) -> asyncio.Transport:
        """The transport underneath, for what is HTTP no more."""
        self._flush()
        return self._transport

    def write(self, data: bytes) -> None:
        if self._head and len(data) <= LARGEST:
            data, self._head = self._head + data, b""
        elif self._head:
            self._flush()
        elif data.startswith(_HEAD) and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
