"""Requests to an authorization server that misbehaves, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tabane.access.oauth.fetching import AuthorizationServerHttp, FetchFailed
from tests.harness.ports import reserved_port

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def sends(*parts: bytes, holds: bool = False) -> Answer:
    """Return a server that sends those bytes, whatever is asked, and then closes or holds the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
        if holds:
            await reader.read()
        writer.close()

    return answer


@asynccontextmanager
async def server(answer: Answer, tls: trustme.LeafCert | None = None) -> AsyncIterator[str]:
    context = None
    if tls is not None:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.configure_cert(context)
    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{port}/keys?secret=1"
    finally:
        listening.close()


async def problem(answer: Answer, limit: int = 1000, timeout: float = 30) -> str:
    """Return why a request to that server failed."""
    http = AuthorizationServerHttp(timeout, None, {})
    try:
        async with server(answer) as url:
            with pytest.raises(FetchFailed) as caught:
                await http.get(url, limit)
    finally:
        await http.close()
    assert "secret" not in str(caught.value)
    return str(caught.value)


async def test_a_body_is_returned_and_a_form_is_sent() -> None:
    seen = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.readuntil(b"\r\n\r\n"))
        seen.extend(await reader.readexactly(9))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    http = AuthorizationServerHttp(30, None, {})
    async with server(answer) as url:
        assert await http.post(url, {"token": "a=b"}, "Basic x", 2) == b"{}"
    await http.close()
    head = seen.lower()
    assert b"authorization: basic x" in head
    assert b"accept-encoding: identity" in head
    assert seen.endswith(b"token=a%3")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"),
            "redirects",
        ),
        (sends(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), "status 500"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"x" * 5000), "more than 1000 bytes"),
        (sends(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 5000, holds=True), "more than 1000 bytes"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"), "compressed"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nx"), "ended too early"),
        (sends(b"SSH-2.0-OpenSSH\r\n\r\n"), "http"),
        (sends(b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 200_000 + b"\r\n\r\n"), "not http"),
        (sends(), "closed the connection"),
    ],
)
async def test_an_answer_of_another_kind_is_an_error(answer: Answer, expected: str) -> None:
    assert expected in (await problem(answer)).lower()


@pytest.mark.parametrize(
    "answer",
    [
        sends(holds=True),
        sends(b"HTTP/1.1 200 OK\r\n", holds=True),
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", holds=True),
    ],
)
async def test_a_server_that_hangs_is_given_up(answer: Answer) -> None:
    assert "no answer within 0.5 s" in await problem(answer, timeout=0.5)


async def test_nobody_at_the_port_is_an_error() -> None:
    http = AuthorizationServerHttp(5, None, {})
    with pytest.raises(FetchFailed):
        await http.get(f"http://127.0.0.1:{reserved_port(http)}/", 10)
    await http.close()


async def test_certificates_are_checked_and_an_own_authority_can_be_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    answer = sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    async with server(answer, authority.issue_cert("127.0.0.1")) as url:
        stranger = AuthorizationServerHttp(30, None, {})
        with pytest.raises(FetchFailed, match="is not trusted"):
            await stranger.get(url, 10)
        await stranger.close()
        trusting = AuthorizationServerHttp(30, tmp_path / "ca.pem", {})
        assert await trusting.get(url, 10) == b"{}"
        await trusting.close()


async def test_a_missing_file_of_certificates_is_an_error_each_time(tmp_path: Path) -> None:
    http = AuthorizationServerHttp(30, tmp_path / "none.pem", {})
    for _ in range(2):
        with pytest.raises(FetchFailed, match="No such file"):
            await http.get("https://127.0.0.1:1/", 10)
    await http.close()
