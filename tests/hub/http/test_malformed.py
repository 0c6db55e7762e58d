"""Malformed HTTP requests: each is refused with its reason, and affects no other client."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.hub.http.door import HttpWaits
from tests.harness.http_hub import HttpHub, http_hub, http_peer, modern, request
from tests.harness.patience import LONG, until
from tests.harness.running_hub import ENVELOPE

BROKEN = (400, -32700)
NO_REQUEST = (400, -32600)
PARAMS = (400, -32602)
MISMATCH = (400, -32020)

relaxed = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Served(NamedTuple):
    """A hub that runs in a thread of its own: Hypothesis has no loop."""

    port: int
    token: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found: list[Served] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with http_hub(tmp_path_factory.mktemp("served"), max_line=1 << 20) as here:
            found.append(Served(here.door.port, str(here.door.token)))
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(LONG)
    yield found[0]
    ended.set()
    thread.join()


class Wire:
    """A blocking connection."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.socket = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        self.file = self.socket.makefile("rb")

    def post(self, body: bytes, headers: dict[str, str | None], method: str = "POST") -> tuple[int, Any]:
        given = {
            "host": f"127.0.0.1:{self.served.port}",
            "authorization": f"Bearer {self.served.token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
        self.socket.sendall(f"{method} /mcp/full HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
        return self.answer()

    def answer(self) -> tuple[int, Any]:
        status = int(self.file.readline().split()[1])
        length = 0
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        body = self.file.read(length)
        return status, json.loads(body) if body else None

    def good(self) -> None:
        """A request that must be answered on this very connection."""
        message, headers = modern(request("tools/list", number="good"))
        named: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer = self.post(json.dumps(message).encode(), named)
        assert (status, answer["id"]) == (200, "good")

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Bad(NamedTuple):
    """A request, what makes it bad, and the status and code that it has to be answered with."""

    body: bytes
    headers: dict[str, str | None]
    expected: tuple[int, int]
    method: str = "POST"


GOOD, NAMED = modern(request("tools/list"))
HEADERS: dict[str, str | None] = {name.replace("_", "-"): value for name, value in NAMED.items()}
TEXT = json.dumps(GOOD).encode()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
scalars = st.none() | st.booleans() | st.integers() | st.text()


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    return True


def changed(**members: Any) -> bytes:
    return json.dumps({**GOOD, **members}).encode()


cut = st.integers(1, len(TEXT) - 1).map(lambda at: Bad(TEXT[:at], HEADERS, BROKEN))
doubled = st.sampled_from([b"}", b",", b"{", b"1", b"\x00", b"\xff"]).map(
    lambda more: Bad(TEXT + more, HEADERS, BROKEN)
)
noise = (
    st.binary(max_size=200)
    .filter(lambda body: not _is_json(body) and body.lstrip(b" \t\r\n")[:1] not in b"[{")
    .map(lambda body: Bad(body, HEADERS, BROKEN))
)
other_kinds = scalars.map(lambda value: Bad(json.dumps(value).encode(), HEADERS, NO_REQUEST))
batches = st.lists(json_values, max_size=3).map(
    lambda value: Bad(json.dumps(value).encode(), HEADERS, NO_REQUEST)
)
without_method = st.dictionaries(st.sampled_from(["id", "params", "jsonrpc"]), st.just("x")).map(
    lambda value: Bad(json.dumps(value).encode(), HEADERS, NO_REQUEST)
)
methods = st.one_of(st.integers(), st.booleans(), st.lists(st.integers(), max_size=2)).map(
    lambda value: Bad(changed(method=value), HEADERS, NO_REQUEST)
)
ids = st.sampled_from([None, True, False, [], {}, [1], {"a": 1}]).map(
    lambda value: Bad(changed(id=value), HEADERS, NO_REQUEST)
)
params = st.one_of(st.integers(), st.text(), st.none(), st.lists(json_values, max_size=2)).map(
    lambda value: Bad(changed(params=value), HEADERS, PARAMS)
)
metas = json_values.filter(lambda value: not isinstance(value, dict) or not set(value) & set(ENVELOPE)).map(
    lambda value: Bad(changed(params={"_meta": value}), HEADERS, PARAMS)
)
lacking = st.sampled_from(
    ["io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"]
).map(
    lambda key: Bad(
        changed(params={"_meta": {name: value for name, value in ENVELOPE.items() if name != key}}),
        HEADERS,
        PARAMS,
    )
)
header_texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
mismatched = (
    st.tuples(st.sampled_from(["mcp-method", "mcp-protocol-version"]), st.none() | header_texts)
    .filter(lambda pair: pair[1] != HEADERS[pair[0]])
    .map(lambda pair: Bad(TEXT, {**HEADERS, pair[0]: pair[1]}, MISMATCH))
)
kinds = st.sampled_from(
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json5",
        ";;",
    ]
).map(lambda kind: Bad(TEXT, {**HEADERS, "content-type": kind}, (415, -32600)))
accepts = st.sampled_from(["text/html", "image/*", "application/xml;q=0.9", "application/json;q=0"]).map(
    lambda kind: Bad(TEXT, {**HEADERS, "accept": kind}, (406, -32600))
)
verbs = st.sampled_from(["PUT", "PATCH", "TRACE", "PROPFIND"]).map(
    lambda verb: Bad(TEXT, HEADERS, (405, -32600), verb)
)
unknown = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30).map(
    lambda name: Bad(changed(method="x-" + name), {**HEADERS, "mcp-method": "x-" + name}, (404, -32601))
)
long = st.integers(1 << 20, (1 << 20) + 4096).map(
    lambda size: Bad(TEXT + b" " * size, HEADERS, (413, -32600))
)

bad_requests = st.one_of(
    *(cut, doubled, noise, other_kinds, batches, without_method, methods, ids, params, metas, lacking),
    *(mismatched, kinds, accepts, verbs, unknown, long),
)


@pytest.mark.heavy("a hub with real servers")
@relaxed
@given(st.lists(bad_requests, min_size=1, max_size=4))
def test_a_malformed_message_is_refused_rightly_and_its_connection_lives_on(
    served: Served, bad: list[Bad]
) -> None:
    wire = Wire(served)
    try:
        for one in bad:
            status, answer = wire.post(one.body, one.headers, one.method)
            assert (status, answer["error"]["code"]) == one.expected, answer
            assert answer["jsonrpc"] == "2.0"
            wire.good()
    finally:
        wire.close()


@relaxed
@given(
    st.one_of(
        st.binary(min_size=1, max_size=300),
        st.builds(
            lambda line, headers, body: b"%b\r\n%b\r\n\r\n%b" % (line, b"\r\n".join(headers), body),
            st.sampled_from([b"POST /mcp HTTP/1.1", b"GET /mcp HTTP/9.9", b"POST  HTTP/1.1", b"\x16\x03\x01"])
            | st.binary(max_size=40),
            st.lists(
                st.sampled_from(
                    [
                        b"host: x",
                        b"content-length: -1",
                        b"content-length: 9" * 3,
                        b"transfer-encoding: chunked",
                    ]
                )
                | st.binary(max_size=40),
                max_size=4,
            ),
            st.binary(max_size=60),
        ),
    )
)
def test_what_is_not_http_ends_its_own_connection_alone(served: Served, data: bytes) -> None:
    other = Wire(served)
    wire = Wire(served)
    try:
        wire.socket.sendall(data)
        wire.socket.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := _received(wire.socket):
            got += chunk
        assert not got or got.startswith((b"HTTP/1.1 4", b"HTTP/1.1 100 Continue")), got
        other.good()
    finally:
        wire.close()
        other.close()


def _received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(1 << 16)
    except ConnectionError:
        return b""


async def refused(here: HttpHub, data: bytes) -> int:
    """The status that bytes are answered with, after which the connection is closed."""
    peer = await here.peer()
    peer.write(data)
    answer = await peer.answer()
    assert answer.headers["connection"] == "close"
    assert answer.json["jsonrpc"] == "2.0"
    assert await peer.closed()
    return answer.status


async def test_heads_that_are_too_long_are_refused(tmp_path: Path) -> None:
    async with http_hub(tmp_path) as here:
        many = b"".join(b"x-%d: 1\r\n" % number for number in range(200))
        assert await refused(here, b"GET /healthz HTTP/1.1\r\n" + many + b"\r\n") == 431
        assert await refused(here, b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 400_000) == 431
        assert await refused(here, b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\n\r\n") == 414
        assert await refused(here, b"\x16\x03\x01\x02\x00\x01\x00") == 400


async def test_a_body_that_is_said_to_be_too_long_is_not_waited_for(tmp_path: Path) -> None:
    async with http_peer(tmp_path, max_line=1 << 16) as (here, peer):
        host = f"host: 127.0.0.1:{here.door.port}\r\nauthorization: {here.bearer}\r\n"
        head = f"POST /mcp HTTP/1.1\r\n{host}content-type: application/json\r\n"
        peer.write(f"{head}content-length: 99999999999\r\nexpect: 100-continue\r\n\r\n".encode())
        assert (await peer.answer()).status == 413
        chunked = await here.peer()
        chunked.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        chunked.write(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
        chunked.write(b"8001\r\n" + b" " * 0x8001 + b"\r\n")
        assert (await chunked.answer()).status == 413
        chunked.write(b"0\r\n\r\n")
        assert (await chunked.get("/healthz")).status == 200


async def test_a_request_that_does_not_arrive_ends(tmp_path: Path) -> None:
    async with http_hub(tmp_path, waits=HttpWaits(0.2, 0.2, 0.05)) as here:
        for start in (b"", b"GET /hea", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: "):
            peer = await here.peer()
            peer.write(start)
            assert (await peer.answer()).status == 408
            assert await peer.closed()
        host = f"host: 127.0.0.1:{here.door.port}\r\nauthorization: {here.bearer}\r\n"
        head = f"POST /mcp HTTP/1.1\r\n{host}content-type: application/json\r\n"
        peer = await here.peer()
        peer.write(f"{head}content-length: 50\r\n\r\n{{".encode())
        assert (await peer.answer()).status == 408
        assert await peer.closed()
        await until(lambda: here.door.connections == 0, "all of them are gone")


async def test_requests_sent_without_waiting_are_answered_in_their_order(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        for number in range(20):
            message, headers = modern(request("tools/list", number=number))
            peer.send_message(message, **headers)
        assert [(await peer.answer()).json["id"] for _ in range(20)] == list(range(20))


async def test_an_upgrade_that_is_not_offered_is_passed_over(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        message, headers = modern(request("tools/list", number="h2c"))
        upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c"}
        assert (await peer.post(message, **headers, **upgrade)).json["id"] == "h2c"
