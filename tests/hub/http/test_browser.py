"""A page in a real browser as a client of the hub: CORS, the token, both eras, a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.patience import LONG
from tests.harness.running_hub import ENVELOPE, child

PATIENCE = LONG
"""Seconds for a browser to start, show a page and end, on a machine that has other things to do."""

PAGE = Path(__file__).with_name("client_page.html").read_text(encoding="utf-8")


@contextlib.asynccontextmanager
async def site(pages: list[str]) -> AsyncIterator[int]:
    """A web server with the last of those pages at every path; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            body = pages[-1].encode()
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def stage(folder: Path, token: str | None = None) -> AsyncIterator[tuple[HttpHub, int]]:
    """A hub whose settings list a page, and the port of that page, which knows the token or shows another."""
    served: list[str] = []
    async with (
        site(served) as port,
        http_hub(folder, {"up": child()}, origins=[f"http://localhost:{port}"]) as here,
    ):
        served.append(page_for(here, token))
        yield here, port


async def shown(browser: str, url: str, folder: Path) -> Any:
    """What the page at that URL wrote once its script had run."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    process = await asyncio.create_subprocess_exec(
        browser, *options, f"--user-data-dir={folder / 'profile'}", "--dump-dom", url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = re.search(r'<pre id="said">(.*?)</pre>', out.decode(), re.DOTALL)
    assert found, out
    return json.loads(unescape(found[1]))


def page_for(here: HttpHub, token: str | None = None) -> str:
    """The page, which knows the token unless it is given another."""
    url = f"http://127.0.0.1:{here.door.port}/mcp/full"
    return PAGE % json.dumps(json.dumps([url, token or here.door.token, ENVELOPE]))


async def test_a_listed_page_speaks_both_eras(tmp_path: Path, browser: str) -> None:
    async with stage(tmp_path) as (_, port):
        said = await shown(browser, f"http://localhost:{port}/", tmp_path)
    echo, steps = said["modern"]
    assert (echo["status"], echo["messages"][0]["result"]["structuredContent"]) == (200, {"text": "束ね"})
    progress = [m["params"]["progress"] for m in steps["messages"] if m.get("method")]
    assert progress == [1, 2]
    assert steps["messages"][-1]["result"]["content"][0]["text"] == "done"
    begun, echo, ended = said["legacy"]
    assert begun
    assert echo["messages"][0]["result"]["structuredContent"] == {"text": "束ね"}
    assert ended in (200, 204)


async def test_a_page_without_the_token_gets_nothing(tmp_path: Path, browser: str) -> None:
    async with stage(tmp_path, "guessed") as (_, port):
        said = await shown(browser, f"http://localhost:{port}/", tmp_path)
    assert [answer["status"] for answer in said["modern"]] == [401, 401]


async def test_a_page_from_elsewhere_is_told_nothing_token_or_not(tmp_path: Path, browser: str) -> None:
    async with stage(tmp_path) as (_, port):
        # A name that is no name of this machine, though it leads here: another origin to the browser.
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        said = await shown(browser, f"http://evil.localhost:{port}/", folder)
    assert "TypeError" in said["modern"]
    assert "TypeError" in said["legacy"]
