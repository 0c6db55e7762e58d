"""The egress proxy alone, as seen by any program that finds its port."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.reader.fetching.network import GuardedNetworkBackend
from tabane.reader.guard import Guard
from tabane.reader.rendering import RenderLimits
from tabane.reader.rendering.egress_proxy import EgressProxy
from tests.reader.site import Site


async def none(host: str) -> Sequence[str]:
    raise OSError(-2, "Name or service not known")


def gate(site: Site, **limits: int) -> EgressProxy:
    guard = Guard(site.allowed)
    network = GuardedNetworkBackend(guard, none, lambda address, port: None)
    return EgressProxy(guard, network, replace(RenderLimits(), **limits), 5.0)


async def said(it: EgressProxy, data: bytes) -> bytes:
    """All that comes back for it, until the gate closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def talked(site: Site, *requests: str, known: bool = True, **limits: int) -> tuple[list[bytes], EgressProxy]:
    """What is answered to each; {key} is the password as a header, {at} the site."""

    async def scenario() -> tuple[list[bytes], EgressProxy]:
        async with gate(site, **limits) as it:
            key = base64.b64encode(f"{it.user}:{it.password}".encode()).decode()
            header = f"Proxy-Authorization: Basic {key if known else 'cGFnZTo='}\r\n"
            found = []
            for one in requests:
                text = one.replace("{key}", header).replace("{at}", f"127.0.0.1:{site.port}")
                found.append(await said(it, text.encode()))
            return found, it

    return asyncio.run(scenario())


def test_a_request_is_passed_on_without_what_is_the_gates_own(site: Site) -> None:
    site.put("/a?b=c%20d", "there")
    request = (
        "GET http://{at}/a?b=c%20d HTTP/1.1\r\nHost: elsewhere.example\r\n{key}"
        "Proxy-Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: x\r\nX-Own: 1\r\n\r\n"
    )
    [answer], _ = talked(site, request)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\nthere")
    assert answer.lower().count(b"connection: close") == 1
    [asked] = site.asked
    assert asked.target == "/a?b=c%20d"
    assert asked.headers == {"host": f"127.0.0.1:{site.port}", "connection": "close", "x-own": "1"}


def test_a_second_request_does_not_follow_the_first_where_it_was_judged(site: Site) -> None:
    came: list[bytes] = []

    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read(1000))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")

    site.wild("/a", first)
    begin = "POST http://{at}/a HTTP/1.1\r\n{key}Content-Length: 3\r\n\r\nabc"
    for second in ("GET /b HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://10.0.0.1/b HTTP/1.1\r\n{key}\r\n"):
        [answer], _ = talked(site, begin + second)
        assert answer.endswith(b"first")
    assert came == [b"abc", b"abc"]


def test_nobody_without_the_password_is_answered(site: Site) -> None:
    requests = ("GET http://{at}/ HTTP/1.1\r\n{key}\r\n", "GET http://{at}/ HTTP/1.1\r\nHost: x\r\n\r\n",
                "CONNECT {at} HTTP/1.1\r\n{key}\r\n")  # fmt: skip
    answers, it = talked(site, *requests, known=False)
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 407"] * 3
    assert not site.asked
    assert not it.refused


@pytest.mark.parametrize(
    "where",
    ["10.0.0.1:443", "[::1]:443", "localhost:22", "0x7f.1:80", "127.0.0.1:1", "[::ffff:127.0.0.1]:80"],
)
def test_what_the_guard_refuses_is_not_connected_to(site: Site, where: str) -> None:
    answers, it = talked(
        site, f"CONNECT {where} HTTP/1.1\r\n{{key}}\r\n", f"GET http://{where}/ HTTP/1.1\r\n{{key}}\r\n"
    )
    assert answers[0].startswith(b"HTTP/1.1 403")
    assert answers[1] == b""
    assert it.refused[where].cause == "refused"


@pytest.mark.parametrize(
    "request_",
    [
        "nothing that is HTTP\r\n{key}\r\n",
        "GET /path HTTP/1.1\r\n{key}\r\n",
        "GET https://{at}/ HTTP/1.1\r\n{key}\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\n{key}\r\n",
        "CONNECT 10.0.0.1 HTTP/1.1\r\n{key}\r\n",
        "POST http://{at}/ HTTP/1.1\r\n{key}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST http://{at}/ HTTP/1.1\r\n{key}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ],
)
def test_what_is_no_request_is_passed_to_nobody(site: Site, request_: str) -> None:
    [answer], _ = talked(site, request_)
    assert not answer.startswith(b"HTTP/1.1 200")
    assert not site.asked


def test_a_tunnel_is_the_connection_itself(site: Site) -> None:
    site.put("/a", "through")
    [answer], _ = talked(
        site, "CONNECT {at} HTTP/1.1\r\n{key}\r\nGET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 200 Open\r\n\r\nHTTP/1.1 200 ")
    assert answer.endswith(b"through")


def test_the_gate_shuts_when_a_limit_is_reached(site: Site) -> None:
    site.put("/a", "x" * 1000)
    request = "GET http://{at}/a HTTP/1.1\r\n{key}\r\n"
    answers, it = talked(site, *[request] * 4, connections=2)
    assert [len(answer) > 1000 for answer in answers] == [True, True, False, False]
    assert it.spent
    answers, it = talked(site, *[request] * 4, traffic=2500)
    assert [len(answer) > 1000 for answer in answers] == [True, True, False, False]
    assert it.spent


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            ["GET ", "CONNECT ", "http://", "{at}", "/", " HTTP/1.1", "\r\n", "\n", "{key}", ":", "10.0.0.1",
             "\0", "Host: x", "Content-Length: ", "7", "é", "@", "#", "Transfer-Encoding: chunked"]
        ),
        max_size=25,
    )
)  # fmt: skip
def test_whatever_is_said_the_password_goes_nowhere(grounds: Site, words: list[str]) -> None:
    grounds.clear()
    talked(grounds, "".join(words) + "\r\n\r\n")
    assert not any("proxy-authorization" in asked.headers for asked in grounds.asked)
