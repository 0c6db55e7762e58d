"""A network that is limited to hosts: what the proxy lets through, from inside a real empty network."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.cages.network_proxy import HostRules, NetworkProxy, target
from tests.guard.cages.test_escapes import needed
from tests.harness.caged_world import CagedWorld, Way, caged_world
from tests.harness.cases import cases_beside
from tests.harness.child_processes import linux

CASES = cases_beside(__file__)

GET = """
import sys, urllib.request
try:
    print("done", urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
except OSError as error:
    print("refused", error)
"""

RELAY = """
import socket, sys, os
proxy = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
with socket.create_connection((proxy[0], int(proxy[1])), timeout=60) as client:
    client.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode())
    print(client.makefile().readline().split()[1], end=" ")
    client.settimeout(60)
    print(client.recv(100).decode()[-7:] if len(sys.argv) > 2 else "")
"""


@contextmanager
def website() -> Iterator[int]:
    """Answer each request with its first line."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    line = client.recv(10_000).split(b"\r\n")[0]
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(line), line))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CagedWorld]:
    with caged_world(tmp_path) as made:
        yield made


@linux
@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_listed_hosts_can_be_reached_and_no_others(way: Way, world: CagedWorld) -> None:
    needed(way)

    async def get(host: str, listed: list[str]) -> tuple[str, str]:
        run = await world.run(way, {"network": listed}, sys.executable, "-c", GET, f"http://{host}/path?q=1")
        return run[0].strip(), run[1]

    with website() as port:
        said, _ = await get(f"localhost:{port}", ["localhost"])
        assert said == "done GET /path?q=1 HTTP/1.1"
        said, log = await get(f"127.0.0.1:{port}", ["localhost"])
        assert said.startswith("refused")
        assert f"sandbox: 127.0.0.1:{port} is not among the hosts of this server" in log
        said, _ = await get(f"localhost:{port}", [f"localhost:{port + 1}"])
        assert said.startswith("refused")


@linux
@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_a_connection_is_relayed_to_a_listed_host_alone(way: Way, world: CagedWorld) -> None:
    needed(way)

    async def relay(host: str, *more: str) -> str:
        run = await world.run(
            way, {"network": ["localhost"]}, sys.executable, "-c", RELAY, f"{host}:{world.tcp}", *more
        )
        return run[0].strip()

    assert (await relay("localhost", "read")).startswith("200")
    assert await relay("127.0.0.1") == "403"


@linux
@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_nothing_is_reached_past_the_proxy(way: Way, world: CagedWorld) -> None:
    needed(way)
    said = await world.attempt(way, {"network": ["localhost"]}, "connect_tcp", world.tcp)
    assert said.startswith("refused")
    said = await world.attempt(way, {"network": ["localhost"]}, "send_udp", world.udp)
    assert said.startswith("refused")


@pytest.mark.parametrize(("listed", "host", "port", "allowed"), CASES["a_host_is_compared_as_a_whole"])
def test_a_host_is_compared_as_a_whole(listed: str, host: str, port: int, allowed: bool) -> None:
    assert HostRules([listed]).allows(host, port) is allowed


def private(address: str) -> str | None:
    return "private" if address.startswith(("10.", "127.", "::1")) else None


def test_a_name_may_not_lead_into_the_own_network() -> None:
    rules = HostRules(["api.example.com", "localhost"])
    assert rules.refusal("api.example.com", "10.0.0.1", 443, private) == "private"
    assert rules.refusal("api.example.com", "127.0.0.1", 443, private) == "private"
    assert rules.refusal("api.example.com", "93.184.216.34", 443, private) is None
    assert rules.refusal("localhost", "127.0.0.1", 443, private) is None
    assert HostRules(["a.example", "10.0.0.1"]).refusal("a.example", "10.0.0.1", 443, private) is None


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"CONNECT a.example:443 HTTP/1.1\r\nHost: other", ("a.example", 443, b"")),
        (
            b"GET http://a.example/x?y HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nA: b",
            ("a.example", 80, b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nA: b\r\n\r\n"),
        ),
    ],
)
def test_the_host_of_a_request_is_that_of_its_address(head: bytes, expected: tuple[str, int, bytes]) -> None:
    assert target(head) == expected


@given(st.binary(max_size=200))
def test_no_request_breaks_the_proxy(request: bytes) -> None:
    """A request gets an answer or the end of its connection."""
    proxy = NetworkProxy(HostRules([]), private)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(request + b"\r\n\r\n")
        ours.shutdown(socket.SHUT_WR)
        try:
            proxy._serve(theirs)
        except OSError:
            return
        theirs.shutdown(socket.SHUT_WR)
        assert ours.recv(100).startswith(b"HTTP/1.1 4")
