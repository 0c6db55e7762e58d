"""A network that fails on demand: a TCP proxy on loopback in front of a PostgreSQL on its Unix socket.

It runs in a thread of its own, so it works while the test's event loop does not. With ``tls``, it ends the
encryption as PostgreSQL does (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from tests.harness.patience import LONG
from tests.harness.ports import reserved_port

_TLS_REQUEST = (80877103).to_bytes(4, "big")
_PIECES = 20  # a second, if the link is slow


class NetworkProxy:
    """Passes bytes on. ``rate``: bytes a second in each direction; None: as fast as it can.

    ``silent``: connections are accepted and stay, and nothing is passed on until it is False again.
    """

    def __init__(self, target: Path, tls: ssl.SSLContext | None = None) -> None:
        self.port = reserved_port(self)
        self.rate: int | None = None
        self.delay = 0.0
        self.tls = tls
        self.connections = 0  # that were made
        self.passed = 0  # bytes, in both directions
        self._target = target
        self._left: int | None = None  # bytes until all connections are cut
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._speaking = asyncio.Event()
        self._speaking.set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="network-proxy", daemon=True)
        self._thread.start()

    @property
    def silent(self) -> bool:
        return not self._speaking.is_set()

    @silent.setter
    def silent(self, silent: bool) -> None:
        self._do(self._speaking.clear if silent else self._speaking.set)

    def accept(self) -> None:
        """Accept connections (again)."""
        self._run(self._accept())

    def refuse(self) -> None:
        """Refuse new connections."""
        self._run(self._refuse())

    def cut(self) -> None:
        """Reset all connections."""
        self._do(self._cut)

    def cut_after(self, count: int) -> None:
        """Reset all connections after so many bytes, wherever in a message that is."""
        self._do(lambda: setattr(self, "_left", count))

    def close(self) -> None:
        """End it all. A second call is an error."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Callable[[], object]) -> None:
        async def doing() -> None:
            work()

        self._run(doing())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LONG)

    async def _accept(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _end(self) -> None:
        await self._refuse()
        self._cut()
        self._speaking.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _cut(self) -> None:
        self._left = None
        for each in self._open:
            each.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if self.tls is not None:
                await self._encrypt(reader, writer, self.tls)
            there, answers = await asyncio.open_unix_connection(str(self._target))
            self._open.add(answers)
            try:
                await asyncio.gather(self._pass(reader, answers), self._pass(there, writer))
            finally:
                self._open.discard(answers)
                answers.close()
        self._open.discard(writer)
        writer.close()

    async def _encrypt(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        while (await reader.readexactly(8))[4:] != _TLS_REQUEST:
            writer.write(b"N")  # it asked for GSSAPI first
        await self._speaking.wait()
        writer.write(b"S")
        await writer.start_tls(context)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(self._piece()):
                if self.rate is not None or self.delay:
                    await asyncio.sleep(self.delay + (len(data) / self.rate if self.rate else 0))
                await self._speaking.wait()
                await self._send(data, sink)
        finally:
            sink.close()

    def _piece(self) -> int:
        return 65_536 if self.rate is None else max(1, self.rate // _PIECES)

    async def _send(self, data: bytes, sink: asyncio.StreamWriter) -> None:
        if self._left is not None and len(data) >= self._left:
            sink.write(data[: self._left])
            self._cut()
            return
        if self._left is not None:
            self._left -= len(data)
        self.passed += len(data)
        sink.write(data)
        await sink.drain()


@contextlib.contextmanager
def network_proxy(target: Path, tls: ssl.SSLContext | None = None) -> Iterator[NetworkProxy]:
    """Yield a proxy that accepts connections to a Unix socket."""
    proxy = NetworkProxy(target, tls)
    try:
        proxy.accept()
        yield proxy
    finally:
        proxy.close()
