"""A hub reads pages for other clients while one client has requested an expensive page."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil

from tests.harness.running_hub import Json, SocketClient, child, running_hub, text
from tests.reader.conversion.test_hostile_pages import NORMAL, page_of
from tests.reader.site import running


def workers() -> list[psutil.Process]:
    """Return the processes that convert pages for this one."""
    found = []
    for process in psutil.Process().children():
        try:
            if "tabane.reader.conversion" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def read(line: SocketClient, url: str) -> Json:
    """Return the result of reading a URL, however long it takes."""
    params = {"name": "read_url_content", "arguments": {"url": url}}
    response = await line.begin("tools/call", params)
    result: Json = response["result"]
    return result


async def test_a_page_of_the_same_site_is_read_while_a_hostile_one_is_pending(tmp_path: Path) -> None:
    with running() as site:
        site.put("/hostile", page_of("attributes"))
        for number in range(3):
            site.put(f"/normal{number}", NORMAL)
        settings = {"reader_allow": site.allowed, "model": "none"}
        async with running_hub(tmp_path, {"good": child()}, **settings) as here:
            hostile, other = await here.connect(), await here.connect()
            pending = asyncio.ensure_future(read(hostile, site.url("/hostile")))
            while not (found := workers()):  # noqa: ASYNC110  (processes; the test has a limit)
                await asyncio.sleep(0.01)
            os.kill(found[0].pid, signal.SIGSTOP)  # pending for as long as this takes, however fast it is
            for number in range(3):
                result = await read(other, site.url(f"/normal{number}"))
                assert "Something happened today." in text(result), result
                assert text(await other.through("good__echo", text="x")) == '{"text": "x"}'
            assert not pending.done()
            assert len(workers()) == 2
            os.kill(found[0].pid, signal.SIGCONT)
            pending.cancel()
    assert workers() == []
