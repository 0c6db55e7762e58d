"""A search ends when the browser gives up: with the next key it asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from tabane.operations import LOCAL, Caller, Face
from tabane.web.page import Fragment, PageRequest
from tabane.web.pages import home, search

Page = Callable[[PageRequest], Awaitable[Fragment]]


class SlowDoor:
    """Answers nothing, and counts the operations that go on."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.going_on = 0
        self.table: dict[str, Any] = {}

    async def respond(self, *_: object, **__: object) -> bytes:
        self.going_on += 1
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.going_on -= 1
        return b""


@pytest.mark.parametrize("page", [home.search, search.results])
@pytest.mark.parametrize("kind", [b"", b"&in=posts"])
async def test_a_search_ends_when_the_browser_gives_up(page: Page, kind: bytes) -> None:
    door = SlowDoor()

    async def receive() -> dict[str, str]:
        await door.asked.wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"q=tea" + kind}
    caller = Caller(LOCAL.holder, Face.WEB, "web:1", access=LOCAL)
    hub: Any = SimpleNamespace(door=door)
    session: Any = None
    with pytest.raises(ClientDisconnect):
        await page(PageRequest(Request(scope, receive), hub, caller, session))
    await asyncio.sleep(0)
    assert door.going_on == 0
