"""Pages in a real browser that may not use the hub: every request a page can make is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.running_hub import child

PATIENCE = 120.0
"""Seconds for a browser to start and for a page to try everything, on a machine that does other things."""

PAGE = Path(__file__).with_name("hostile_page.html").read_text(encoding="utf-8")


@dataclass
class Site:
    """A web server with one page, which reports the results of its attempts to it."""

    port: int
    page: str = ""
    said: dict[str, str] = field(default_factory=dict)
    told: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            if head.startswith("post /said"):
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                found.said = json.loads(await reader.readexactly(length))
                found.told.set()
            body = found.page.encode()
            kind = "content-type: text/html; charset=utf-8\r\nconnection: close\r\n"
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}content-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    found = Site(server.sockets[0].getsockname()[1])
    async with server:
        yield found


@asynccontextmanager
async def shown(browser: str, url: str, folder: Path) -> AsyncIterator[None]:
    """Start a browser that shows that URL, until the block ends."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    process = await asyncio.create_subprocess_exec(
        browser, *options, f"--user-data-dir={folder / 'profile'}", url,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        await process.wait()


def read(said: dict[str, str]) -> dict[str, str]:
    """Return the attempts by which a page got an answer of the hub."""
    signs = ('"result"', "tabane_", '"status"', '"jsonrpc"', "loaded")
    return {name: found for name, found in said.items() if any(sign in found for sign in signs)}


async def tried(
    here: HttpHub, found: Site, browser: str, url: str, folder: Path, token: str | None = None
) -> dict[str, str]:
    """Return the result of each attempt of a page at that URL."""
    hubs = [f"127.0.0.1:{here.door.port}", f"localhost:{here.door.port}"]
    given = [hubs, f"http://localhost:{found.port}/said", token]
    found.page = PAGE % json.dumps(json.dumps(given))
    if url.startswith("file:"):
        (folder / "page.html").write_text(found.page)
    async with shown(browser, url, folder):
        await asyncio.wait_for(found.told.wait(), PATIENCE)
    assert len(found.said) == 2 * (7 * 5 + 4)
    return found.said


@pytest.mark.parametrize("where", ["localhost", "127.0.0.1", "evil.localhost", "file"])
async def test_a_page_that_is_not_listed_reads_nothing_and_stops_nothing(
    tmp_path: Path, browser: str, where: str
) -> None:
    async with (
        site() as found,
        http_hub(tmp_path, {"up": child()}, origins=["http://localhost:1", "https://127.0.0.1:*"]) as here,
    ):
        url = f"http://{where}:{found.port}/"
        url = (tmp_path / "page.html").as_uri() if where == "file" else url
        said = await tried(here, found, browser, url, tmp_path)
        assert read(said) == {}
        assert (here.process.ends, here.process.kept_on) == ([], 0)
        assert (await (await here.peer()).get("/readyz")).status == 200


@pytest.mark.heavy("input that is expensive on purpose")
async def test_a_listed_page_without_the_token_reads_the_archive_alone(tmp_path: Path, browser: str) -> None:
    async with site() as found:
        listed = f"http://localhost:{found.port}"
        async with http_hub(tmp_path, {"up": child()}, origins=[listed]) as here:
            said = await tried(here, found, browser, f"{listed}/", tmp_path)
            answered = read(said)
            for hub in (f"127.0.0.1:{here.door.port}", f"localhost:{here.door.port}"):
                assert '"init_completed"' in answered[f"post check_init {hub}"]
                assert '"init_completed"' in answered[f"socket check_init {hub}"]
                for way in ("post", "socket"):
                    for method in ("list_tools", "stop_server", "keep_server"):
                        assert "-31403" in answered[f"{way} {method} {hub}"]
                for way in ("plain", "blob", "beacon", "form"):
                    assert not [name for name in answered if name.startswith(way)]
                assert 'server="' not in answered[f"get {hub}"]
            assert (here.process.ends, here.process.kept_on) == ([], 0)


async def test_a_listed_page_with_the_token_may_stop_the_hub(tmp_path: Path, browser: str) -> None:
    """Check that the attempts above do reach a hub that allows them."""

    async with site() as found:
        listed = f"http://localhost:{found.port}"
        async with http_hub(tmp_path, origins=[listed]) as here:
            said = await tried(here, found, browser, f"{listed}/", tmp_path, here.door.token)
            assert here.process.ends == ["stop"] * 4
            assert '"stopping"' in said[f"post stop_server 127.0.0.1:{here.door.port}"]
