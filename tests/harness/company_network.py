"""A company's network: a proxy that opens TLS with the company's own authority, as inspecting proxies do.

The proxy itself reaches the package registries as this machine does. A program gets there only if it uses the
proxy and trusts the authority.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

PATIENCE = 30.0
"""Seconds for a connection to a registry."""

_CHUNK = 1 << 16


class CompanyProxy:
    """A forward proxy on a free port of this computer, for CONNECT alone.

    ``hosts`` counts the tunnels by host; ``refused`` has the reasons of those that could not be made.
    ``password`` is what a client has to send as the password of a user, None if the proxy asks for none.
    """

    def __init__(self, folder: Path, password: str | None = None) -> None:
        self.hosts: Counter[str] = Counter()
        self.refused: list[str] = []
        self.authority = folder / "company.pem"
        self._password = password
        self._issuer = trustme.CA(organization_name="Company")
        self._issuer.cert_pem.write_to_path(str(self.authority))
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._outside = _trusting_this_machine()
        self._addresses: dict[str, asyncio.Future[str]] = {}
        self._port = 0

    @property
    def address(self) -> str:
        user = f"hana:{self._password}@" if self._password else ""
        return f"http://{user}127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """What the administrator tells everybody to write into their shell's profile."""
        return {
            "HTTP_PROXY": self.address,
            "HTTPS_PROXY": self.address,
            "NO_PROXY": "localhost,127.0.0.1",
            "SSL_CERT_FILE": str(self.authority),
            "REQUESTS_CA_BUNDLE": str(self.authority),
            "NODE_EXTRA_CA_CERTS": str(self.authority),
        }

    async def serve(self, ready: threading.Event, done: asyncio.Event) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await done.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._tunnel(reader, writer)
        except (OSError, ValueError, EOFError, TimeoutError, asyncio.CancelledError) as error:
            self.refused.append(f"{type(error).__name__}: {error}")
        finally:
            writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split("\r\n", 1)[0].split(" ", 2)
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            raise ValueError(f"{method} {target}")
        if self._password is not None and "proxy-authorization: basic" not in head.lower():
            writer.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                b'Proxy-Authenticate: Basic realm="company"\r\nContent-Length: 0\r\n\r\n'
            )
            raise ValueError(f"no password for {target}")
        host, _, port = target.rpartition(":")
        self.hosts[host] += 1
        far_reader, far_writer = await asyncio.wait_for(self._connect(host, int(port)), PATIENCE)
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.drain()
            await writer.start_tls(self._context(host))
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # Programs open hundreds of connections to a few hosts. Each lookup of a name would take a thread.
        if host not in self._addresses:
            self._addresses[host] = asyncio.ensure_future(_address(host, port))
        address = await asyncio.shield(self._addresses[host])
        return await asyncio.open_connection(address, port, ssl=self._outside, server_hostname=host)

    def _context(self, host: str) -> ssl.SSLContext:
        if host not in self._contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.set_alpn_protocols(["http/1.1"])
            self._issuer.issue_cert(host).configure_cert(context)
            self._contexts[host] = context
        return self._contexts[host]


def _trusting_this_machine() -> ssl.SSLContext:
    """Return a context for connections to the world: the variables of the tests' own process count."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for name in ("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        path = os.environ.get(name, "")
        if os.path.isfile(path):
            context.load_verify_locations(cafile=path)
    return context


async def _address(host: str, port: int) -> str:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, EOFError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def company_network(folder: Path, password: str | None = None) -> Iterator[CompanyProxy]:
    """The proxy serves in a thread while the block runs."""
    proxy = CompanyProxy(folder, password)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    done = asyncio.Event()

    def serve() -> None:
        loop.run_until_complete(proxy.serve(ready, done))
        loop.run_until_complete(_end_tasks())
        loop.run_until_complete(loop.shutdown_default_executor())

    thread = threading.Thread(target=serve, name="company proxy", daemon=True)
    thread.start()
    assert ready.wait(PATIENCE), "the proxy does not start"
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(PATIENCE)
        loop.close()
