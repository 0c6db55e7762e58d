"""Apps of tools (MCP Apps) on the page of a tool: their HTML for the sandbox, and what they ask for."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from tabane.errors import BadArguments, UpstreamError
from tabane.messages import say
from tabane.web.app_sandbox import allowed_domains
from tabane.web.page import Json, PageRequest, PageRoute, RawJson
from tabane.web.paths import APP_SANDBOX
from tabane.wire import json

PAGE = "text/html;profile=mcp-app"
"""The media type of an app's page."""

MOST_HTML = 8 << 20
"""Characters of a page. Apps come as one file with all their scripts."""

MOST_ASKED = 1 << 20
"""Bytes of a call of an app."""

MOST_ANSWERED = 8 << 20
"""Bytes of an answer to an app."""

_PERMISSIONS = ("camera", "microphone", "geolocation", "clipboardWrite")


class AppRequest(msgspec.Struct, frozen=True):
    """What an app asks for: a resource by its URI, or a call of a tool of its server."""

    uri: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}


async def page(request: PageRequest) -> Json:
    """Return the page of a tool: its HTML, the URL of its frame, and what it gets of what it wants."""
    name = request.path("name")
    body = await request.answer("read_app_resource", name=name)
    tool = json.decode(await request.answer("get_tool", name=name))
    shown = await asyncio.to_thread(_page_of, body)
    return Json(shown | {"tool": {**_plain(tool["tool"]), "name": tool["original"]}})


async def read(request: PageRequest) -> RawJson:
    """Read a resource for an app."""
    asked = _asked(await request.body(MOST_ASKED))
    if not asked.uri:
        raise BadArguments(say("uri: a URI is required"), "uri")
    body = await request.answer("read_app_resource", name=request.path("name"), uri=asked.uri)
    return _answer(bytes(json.fields(body)["result"]))


async def call(request: PageRequest) -> RawJson:
    """Call a tool for an app. If the browser gives up, cancel the call."""
    asked = _asked(await request.body(MOST_ASKED))
    name = request.path("name")
    work = request.answer("call_app_tool", name=name, tool=asked.tool, arguments=asked.arguments)
    return _answer(await request.while_connected(work))


def _asked(body: bytes) -> AppRequest:
    try:
        return msgspec.json.decode(body, type=AppRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadArguments(say("The request of the app cannot be read: {reason}", reason=error)) from None


def _answer(body: bytes) -> RawJson:
    if len(body) > MOST_ANSWERED:
        raise UpstreamError(
            say("The answer for the app is too large: {size:,} {size:byte|bytes}.", size=len(body))
        )
    return RawJson(body)


def _page_of(body: bytes) -> dict[str, Any]:
    """Return the page in what was read. Raises UpstreamError if it is none."""
    read = json.decode(body)
    result, listed = read.get("result"), read.get("listed")
    contents = result.get("contents") if isinstance(result, dict) else None
    first = contents[0] if isinstance(contents, list) and contents else None
    html = _html(first) if isinstance(first, dict) else None
    if html is None or len(html) > MOST_HTML:
        raise UpstreamError(
            say("The page of this tool cannot be shown: it is not HTML of an app, or it is too long.")
        )
    wanted = _ui(first) or _ui(listed)
    domains = allowed_domains(wanted.get("csp"))
    permissions = wanted.get("permissions")
    pairs = [(name, domain) for name, found in domains.items() for domain in found]
    return {
        "html": html.encode(errors="replace").decode(),
        "frame": f"{APP_SANDBOX}?{urlencode(pairs)}" if pairs else APP_SANDBOX,
        "csp": domains,
        "domains": list(dict.fromkeys(domain for found in domains.values() for domain in found)),
        "refused": [name for name in _PERMISSIONS if isinstance(permissions, dict) and name in permissions],
        "border": wanted.get("prefersBorder") is not False,
    }


def _html(content: Mapping[str, Any]) -> str | None:
    kind = content.get("mimeType")
    if not isinstance(kind, str) or kind.replace(" ", "").lower() != PAGE:
        return None
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str):
        return text
    if not isinstance(blob, str):
        return None
    try:
        return base64.b64decode(blob, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return None


def _ui(item: object) -> Mapping[str, Any]:
    """Return ``_meta.ui`` of a resource; empty if there is none."""
    meta = item.get("_meta") if isinstance(item, dict) else None
    ui = meta.get("ui") if isinstance(meta, dict) else None
    return ui if isinstance(ui, dict) else {}


def _plain(definition: Any) -> dict[str, Any]:
    """Return a definition that Python can encode again."""
    text = json.encode(definition).decode(errors="replace")
    found = json.decode(text.encode())
    return found if isinstance(found, dict) else {}


ROUTES = (
    PageRoute("/tools/{name}/app", page, method="POST"),
    PageRoute("/tools/{name}/app/read", read, method="POST"),
    PageRoute("/tools/{name}/app/call", call, method="POST"),
)
