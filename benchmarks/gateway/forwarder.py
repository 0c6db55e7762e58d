"""A bare forwarder before one server over stdio: what a gateway in Python costs at least.

    python forwarder.py LOOP COMMAND …        LOOP is asyncio or epoll

It parses each message one level deep, renames ``server__tool``, and counts the ids. It has no limits, no
permissions, no log and no era, and a peer that does not read stops it.
"""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec
from msgspec import UNSET, Raw, UnsetType

READ_SIZE = 1 << 16


class Message(msgspec.Struct, gc=False):
    """A request, a notification or an answer."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_messages = msgspec.json.Decoder(Message)
_members = msgspec.json.Decoder(dict[str, Raw])


class Forwarder:
    """Carries messages between a client (descriptors 0 and 1) and a server."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self.write_fd, self.read_fd = write_fd, read_fd
        self._ids: dict[int, bytes] = {}
        self._number = 0
        self._rest = {0: b"", read_fd: b""}

    def from_client(self) -> None:
        """Forward the requests that have arrived."""
        lines = [self._to_server(_messages.decode(line)) for line in self._lines(0)]
        if lines:
            _write(self.write_fd, b"".join(lines))

    def from_server(self) -> None:
        """Forward the answers that have arrived."""
        lines = [self._to_client(_messages.decode(line)) for line in self._lines(self.read_fd)]
        if lines:
            _write(1, b"".join(lines))

    def _to_server(self, message: Message) -> bytes:
        params = _members.decode(message.params) if message.params is not UNSET else {}
        if message.method == "tools/call":
            name = msgspec.json.decode(params["name"], type=str)
            params["name"] = Raw(msgspec.json.encode(name.partition("__")[2]))
        method, given = msgspec.json.encode(message.method), msgspec.json.encode(params)
        if message.id is UNSET:
            return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (method, given)
        self._number = number = self._number + 1
        self._ids[number] = bytes(message.id)
        return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (number, method, given)

    def _to_client(self, message: Message) -> bytes:
        if message.id is UNSET:
            return b""
        name = self._ids.pop(int(bytes(message.id)))
        kind, body = (b"result", message.result) if message.error is UNSET else (b"error", message.error)
        return b'{"jsonrpc":"2.0","id":%b,"%b":%b}\n' % (
            name,
            kind,
            bytes(body) if body is not UNSET else b"",
        )

    def _lines(self, fd: int) -> list[bytes]:
        chunk = os.read(fd, READ_SIZE)
        if not chunk:
            end()
        *lines, self._rest[fd] = (self._rest[fd] + chunk).split(b"\n")
        return lines


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def end() -> NoReturn:
    """End the process: one of the peers has gone."""
    sys.exit()


def on_asyncio(forwarder: Forwarder) -> None:
    """Run a forwarder in readiness callbacks of asyncio's event loop."""
    loop = asyncio.new_event_loop()
    loop.add_reader(0, forwarder.from_client)
    loop.add_reader(forwarder.read_fd, forwarder.from_server)
    loop.run_forever()


def on_epoll(forwarder: Forwarder) -> None:
    """Run a forwarder on epoll, with nothing between."""
    poll = select.epoll()
    handlers: dict[int, Callable[[], None]] = {
        0: forwarder.from_client,
        forwarder.read_fd: forwarder.from_server,
    }
    for fd in handlers:
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            handlers[fd]()


def main(loop: str, command: Sequence[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        forwarder = Forwarder(server.stdin.fileno(), server.stdout.fileno())
        try:
            {"asyncio": on_asyncio, "epoll": on_epoll}[loop](forwarder)
        finally:
            server.stdin.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
