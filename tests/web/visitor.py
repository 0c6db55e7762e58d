"""A browser that is written by hand: requests to the web page, byte for byte, with its two secrets."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.http_hub import Answer, HttpClient, HttpHub, http_hub

WANTS = {"hx_request": "true", "accept": "text/html"}
"""Headers of a request of the page's script for content."""


class WebVisitor:
    """One browser at a hub: its connection, its cookie and the secret that its page keeps."""

    def __init__(self, hub: HttpHub, client: HttpClient) -> None:
        self.hub, self.client = hub, client
        self.cookie = self.page = ""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.hub.door.port}"

    async def sign_in(self, *, key: str = "", code: str | None = None, **headers: str | None) -> Answer:
        """Show a key or a code; without either, the code of a new link."""
        if code is None and not key:
            code = self.hub.door.sign_in_link().partition("#")[2]
        shown = {"key": key} if key else {"code": code}
        answer = await self.ask("POST", "/sign-in", json.dumps(shown).encode(), **headers)
        if answer.status == 200:
            self.page = answer.json["page"]
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    async def ask(self, method: str, path: str, body: bytes = b"", /, **headers: str | None) -> Answer:
        """Send a request as the page's script does. A header of None is left out."""
        given: dict[str, str | None] = {
            "authorization": None,
            "origin": self.origin if method == "POST" else None,
            "sec_fetch_site": "same-origin",
            "sec_fetch_mode": "cors",
            "sec_fetch_dest": "empty",
            "cookie": self.cookie or None,
            "tabane_page": self.page or None,
            "content_type": "application/json" if body else None,
            **headers,
        }
        self.client.send(method, path, {name.replace("_", "-"): given[name] for name in given}, body)
        return await self._answer()

    async def open(self, path: str, **headers: str | None) -> Answer:
        """Open an address, as a person does: the browser sends the cookie, and no header of the page."""
        of_browser = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document", "sec_fetch_site": "none"}
        return await self.ask("GET", path, **{"tabane_page": None, **of_browser, **headers})

    async def content(self, path: str, **headers: str | None) -> Answer:
        """Fetch the content of a page."""
        return await self.ask("GET", path, **{**WANTS, **headers})

    async def _answer(self) -> Answer:
        found = await self.client.head()
        if "content-length" in found.headers:
            found.body = await self.client.reader.readexactly(int(found.headers["content-length"]))
        elif found.headers.get("transfer-encoding") == "chunked" and not found.streams:
            while part := await self.client.chunk():
                found.body += part
        return found


def text(answer: Answer) -> str:
    return answer.body.decode()


def title(answer: Answer) -> str:
    """Return the title of a page's content."""
    found = re.search(r"<title>([^<]*)</title>", text(answer))
    assert found, text(answer)[:500]
    return found[1]


@asynccontextmanager
async def web_hub(folder: Path, servers: Any = None, **settings: Any) -> AsyncIterator[HttpHub]:
    """Run a hub with the page."""
    async with http_hub(folder, servers, **settings) as here:
        yield here


async def visitor(here: HttpHub) -> WebVisitor:
    """Return a browser that has not signed in."""
    return WebVisitor(here, await here.peer())
