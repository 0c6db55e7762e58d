"""Tools: found as an assistant finds them, shown, called, pinned and hidden; their results and apps."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json as standard_json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from tabane.errors import BadArguments, TabaneError, Unauthorized, UpstreamError
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.flow_labels import LABELS, ORIGINS
from tabane.web.headers import allowed_domains
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, RawJson, Redirect, WholePage
from tabane.web.paths import APP_SANDBOX
from tabane.web.schema_forms import (
    JsonFault,
    arguments_of,
    as_json,
    filled,
    read_json,
    read_schema,
    shows,
    values_of,
)
from tabane.wire import json

MOST_BLOCKS = 200
MOST_TEXT = 400_000
"""Characters of a text, or of JSON, that are shown."""

MOST_MEDIA = 12_000_000
"""Characters of base64 of all images and recordings of a result."""

PART = "io.github.tabane/part"
"""The member of a result's ``_meta`` about the part that it is."""

_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"))
_AUDIO = re.compile(r"audio/[a-z0-9.+-]{1,40}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_MARKDOWN = re.compile(
    r"^(#{1,6} \S|\s*[-*+] \S|\s*\d+\. \S|```|> \S|\|.+\|\s*$)|\[[^\]\n]+\]\([^)\s]+\)|\*\*\S", re.MULTILINE
)

BlockKind = Literal["text", "json", "image", "audio", "link", "unknown"]

MOST_ROWS = 200
MOST_COLUMNS = 12
LONGEST_CELL = 2_000
"""Characters of a cell. A value with a longer text is shown as JSON, not as a table."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows of JSON as a table. ``left_out`` is how many rows more there are.

    ``columns`` has a name for each column, and whether all of it are numbers; ``rows`` has a text for each,
    and whether it is a number.
    """

    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[tuple[str, bool], ...], ...]
    left_out: int = 0


def table_of(value: object) -> ResultTable | None:
    """Return the table that a JSON value is: a list of flat objects, alone or in an object; else None.

    An object with ``columns`` and ``rows`` of as many values, as databases answer, is one too.
    """
    if isinstance(value, dict):
        names, rows = value.get("columns"), value.get("rows")
        if isinstance(names, list) and isinstance(rows, list) and all(isinstance(one, str) for one in names):
            if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
                return None
            return _table(tuple(names), [dict(zip(names, row, strict=True)) for row in rows])
        lists = [part for part in value.values() if isinstance(part, list | dict) and part]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list) or not all(isinstance(row, dict) and row for row in value):
        return None
    return _table(tuple(dict.fromkeys(name for row in value for name in row)), value)


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> ResultTable | None:
    if not rows or not 1 < len(columns) <= MOST_COLUMNS:
        return None
    cells = [[row.get(name, "") for name in columns] for row in rows]
    if any(isinstance(cell, dict | list) or len(str(cell)) > LONGEST_CELL for row in cells for cell in row):
        return None
    shown = tuple(tuple(_cell(cell) for cell in row) for row in cells[:MOST_ROWS])
    numbers = [all(row[at][1] for row in shown) for at in range(len(columns))]
    names = zip(map(printable, columns), numbers, strict=True)
    return ResultTable(tuple(names), shown, max(0, len(rows) - MOST_ROWS))


def _cell(value: object) -> tuple[str, bool]:
    """Return the text of a cell, and whether it is a number."""
    if value is None:
        return "–", False
    if isinstance(value, str):
        return printable(value), False
    return as_json(value), isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A block of a result. ``text`` is its text or JSON, ``uri`` that of a link or resource.

    ``source`` is the URL of an image or a recording. ``cut`` tells that not all is shown. ``markdown``: the
    text seems to be Markdown. ``table`` is what JSON has as a table.
    """

    kind: BlockKind
    text: str = ""
    type: str = ""
    name: str = ""
    uri: str = ""
    source: str = ""
    size: int = 0
    cut: bool = False
    markdown: bool = False
    table: ResultTable | None = None

    @property
    def is_web(self) -> bool:
        """Return whether the URI is one that a browser may open."""
        return bool(_WEB.match(self.uri))


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A result as the page shows it. ``raw`` is all of it as JSON; empty if that is too long.

    ``given`` of ``whole`` bytes are shown if it is a part, and ``next`` is the handle of the next one.
    """

    blocks: tuple[ResultBlock, ...]
    failed: bool = False
    structured: str = ""
    table: ResultTable | None = None
    raw: str = ""
    left_out: int = 0
    next: str = ""
    given: int = 0
    whole: int = 0


def shown_result(result: object, size: int) -> ShownResult:
    """Return a result to show, whatever it is; ``size`` is the bytes of its JSON."""
    if not isinstance(result, dict):
        return ShownResult((_json_block(result),))
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    meta = result.get("_meta")
    part = meta.get(PART) if isinstance(meta, dict) else None
    part = part if isinstance(part, dict) else {}
    room = _MediaRoom()
    structured = result.get("structuredContent")
    if structured is not None and _repeats(structured, blocks):
        structured = None
    return ShownResult(
        tuple(_result_block(block, room) for block in blocks[:MOST_BLOCKS]),
        result.get("isError") is True,
        _bounded_json(structured) if structured is not None else "",
        table_of(structured),
        _bounded_json(result) if size <= MOST_TEXT else "",
        max(0, len(blocks) - MOST_BLOCKS),
        _text(part.get("next")),
        _count(part.get("bytes")),
        _count(part.get("of")),
    )


@dataclass(slots=True)
class _MediaRoom:
    """Characters of base64 that may still be shown."""

    left: int = MOST_MEDIA

    def take(self, size: int) -> bool:
        """Take room for so many characters. Return False if there is not enough."""
        if size > self.left:
            return False
        self.left -= size
        return True


def _result_block(block: object, room: _MediaRoom) -> ResultBlock:
    if not isinstance(block, dict):
        return _json_block(block)
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return _text_block(block["text"])
        case "image" | "audio":
            return _media_block(block, _text(block.get("data")), room)
        case "resource_link":
            return ResultBlock(
                "link",
                _text(block.get("description"))[:2_000],
                _text(block.get("mimeType"))[:100],
                (_text(block.get("title")) or _text(block.get("name")))[:300],
                _text(block.get("uri"))[:4_000],
                size=_count(block.get("size")),
            )
        case "resource" if isinstance(block.get("resource"), dict):
            resource = block["resource"]
            uri = _text(resource.get("uri"))[:4_000]
            if isinstance(resource.get("text"), str):
                return _text_block(resource["text"], uri=uri, type=_text(resource.get("mimeType"))[:100])
            return _media_block(resource, _text(resource.get("blob")), room, uri=uri)
    return ResultBlock("unknown", _bounded_json(block), type=_text(block.get("type"))[:100])


def _text_block(text: str, **more: Any) -> ResultBlock:
    if text[:1] in ("{", "[") and len(text) <= MOST_TEXT:
        found = read_json(text)
        if not isinstance(found, JsonFault):
            return ResultBlock("json", printable(text), size=len(text), table=table_of(found), **more)
    shown = text[:MOST_TEXT]
    markdown = len(_MARKDOWN.findall(shown[:20_000])) >= 2
    return ResultBlock(
        "text", printable(shown), size=len(text), cut=len(text) > MOST_TEXT, markdown=markdown, **more
    )


def _json_block(value: object) -> ResultBlock:
    text = _bounded_json(value)
    return (
        ResultBlock("json", text, size=len(text), table=table_of(value)) if text else ResultBlock("unknown")
    )


def _media_block(block: Mapping[str, Any], data: str, room: _MediaRoom, **more: Any) -> ResultBlock:
    kind = _text(block.get("mimeType")).lower().partition(";")[0].strip()
    size = len(data) * 3 // 4
    image = kind in _IMAGES
    if not (image or _AUDIO.fullmatch(kind)) or not _BASE64.fullmatch(data) or not room.take(len(data)):
        return ResultBlock("unknown", type=kind[:100], size=size, cut=True, **more)
    shown: BlockKind = "image" if image else "audio"
    return ResultBlock(shown, type=kind, source=f"data:{kind};base64,{data}", size=size, **more)


def _repeats(structured: object, blocks: list[Any]) -> bool:
    """Return whether the one text has the structured content too, as servers do for old clients.

    Some libraries put what is no object into one with a single member.
    """
    texts = [
        block["text"]
        for block in blocks[:2]
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    if len(texts) != 1 or texts[0][:1] not in ("{", "[") or len(texts[0]) > MOST_TEXT:
        return False
    said = read_json(texts[0])
    alone = next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else None
    return bool(said in (structured, alone))


def _bounded_json(value: object) -> str:
    try:
        text = as_json(value)
    except (ValueError, RecursionError):
        return ""
    return printable(text) if len(text) <= MOST_TEXT else ""


def printable(text: str) -> str:
    """Return a text with a question mark for each half of a surrogate pair, which no page can have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def visible_text(text: str, longest: int) -> str:
    """Return the beginning of an untrusted text, in which no character is hidden."""
    return shown_controls(printable(text[:longest] + ("…" if len(text) > longest else "")))


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


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
    """A request of an app: a resource by its URI, or a call of a tool of its server."""

    uri: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}


async def page(request: PageRequest) -> Json:
    """Return the page of a tool: its HTML, the URL of its frame, and the granted permissions."""
    name = request.path("name")
    body = await request.answer("read_app_resource", name=name)
    tool = json.decode(await request.answer("get_tool", name=name))
    shown = await asyncio.to_thread(_read_app_page, body)
    # Python cannot encode every definition that a server sends.
    definition = json.decode(json.encode(tool["tool"]).decode(errors="replace").encode())
    named = {**(definition if isinstance(definition, dict) else {}), "name": tool["original"]}
    return Json(shown | {"tool": named})


async def read(request: PageRequest) -> RawJson:
    """Read a resource for an app."""
    wanted = _read_app_request(await request.body(MOST_ASKED))
    if not wanted.uri:
        raise BadArguments(say("uri: a URI is required"), "uri")
    body = await request.answer("read_app_resource", name=request.path("name"), uri=wanted.uri)
    return _app_answer(bytes(json.fields(body)["result"]))


async def call_from_app(request: PageRequest) -> RawJson:
    """Call a tool for an app. If the browser gives up, cancel the call."""
    wanted = _read_app_request(await request.body(MOST_ASKED))
    name = request.path("name")
    work = request.answer("call_app_tool", name=name, tool=wanted.tool, arguments=wanted.arguments)
    return _app_answer(await request.while_connected(work))


def _read_app_request(body: bytes) -> AppRequest:
    try:
        return msgspec.json.decode(body, type=AppRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadArguments(say("The request of the app cannot be read: {reason}", reason=error)) from None


def _app_answer(body: bytes) -> RawJson:
    if len(body) > MOST_ANSWERED:
        raise UpstreamError(
            say("The answer for the app is too large: {size:,} {size:byte|bytes}.", size=len(body))
        )
    return RawJson(body)


def _read_app_page(body: bytes) -> dict[str, Any]:
    """Return the page in what was read. Raises UpstreamError if it is none."""
    read = json.decode(body)
    result, listed = read.get("result"), read.get("listed")
    contents = result.get("contents") if isinstance(result, dict) else None
    first = contents[0] if isinstance(contents, list) and contents else None
    html = _page_html(first) if isinstance(first, dict) else None
    if html is None or len(html) > MOST_HTML:
        raise UpstreamError(
            say("The page of this tool cannot be shown: it is not HTML of an app, or it is too long.")
        )
    wanted = _ui_members(first) or _ui_members(listed)
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


def _page_html(content: Mapping[str, Any]) -> str | None:
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


def _ui_members(item: object) -> Mapping[str, Any]:
    """Return ``_meta.ui`` of a resource; empty if there is none."""
    meta = item.get("_meta") if isinstance(item, dict) else None
    ui = meta.get("ui") if isinstance(meta, dict) else None
    return ui if isinstance(ui, dict) else {}


ROWS = 100
"""Tools of a page of the list."""

FOUND = 20
"""Tools that a search shows. An assistant gets 5 by default."""

LEAST_SCORE = 0.005
"""The least score of a row: a lower one is shown as 0.00."""

LOW_SCORE = 0.35
"""The best score of a search below which perhaps nothing fits."""

MOST_FOUND = 50
"""Results of a search of which those of one kind are shown."""

LONGEST_QUERY = 2_000
PART_TOKENS = 25_000
"""Tokens of a result that are shown at once."""

MOST_BODY = 3 << 20
"""Bytes of a schema with the values of its form."""

SMALL_BODY = 32 << 10
"""Bytes of it up to which it is converted on the event loop."""

FIELDS: Mapping[str, Message] = {
    "name": say("name"),
    "title": say("display name"),
    "lead": say("first sentence"),
    "rest": say("description"),
    "params": say("parameters"),
    "hints": say("descriptions of parameters"),
    "place": say("server and tags"),
    "notes": say("your words about it"),
}
"""The parts of a definition that search reads, as a person calls them."""


# -- the list --------------------------------------------------------------------------------------

KINDS: Mapping[str, Message] = {
    "": say("All kinds"),
    "read_only": say("Read-only"),
    "destructive": say("Destructive"),
    "external": say("Leaves this machine"),
}
"""The kinds of tools that a list can be limited to."""

USAGE_DAYS = 30
MOST_LABELED = 1_000
"""Tools whose labels are looked at."""


async def tools(request: PageRequest) -> WholePage | Fragment:
    """Show a search, the list of tools, the most used or the hidden ones. A part gets only what was found."""
    query = request.query.get("q", "").strip()[:LONGEST_QUERY]
    server = request.query.get("server") or None
    kind = request.query.get("kind", "") if request.query.get("kind", "") in KINDS else ""
    view = request.query.get("view", "") if request.query.get("view", "") in ("used", "hidden") else ""
    if view == "hidden":
        listed = await request.call("list_hidden_tools", server=server, limit=1_000)
        context = {**_NOTHING_LISTED, "results": listed["results"], "total": listed["total"]}
    elif view == "used":
        context = await _most_used(request)
    elif query:
        context = await _search_page(request, query, server, kind)
    else:
        context = await _list_page(request, server, kind)
    context |= {
        "query": query, "server": server, "kind": kind, "view": view, "hidden": view == "hidden",
        "days": USAGE_DAYS,
    }  # fmt: skip
    if request.partial:
        rows_only = "cursor" in request.query
        return Fragment("tools/rows.html" if rows_only else "tools/found.html", context)
    if query:
        context["servers"] = (await request.call("list_tools", limit=1))["servers"]
    return WholePage("tools/list.html", say("Tools"), context | {"kinds": KINDS}, module="tools")


_NOTHING_LISTED: Mapping[str, Any] = {
    "found": None, "servers": {}, "waiting": [], "failed": {}, "more": None,
}  # fmt: skip


async def _search_page(request: PageRequest, query: str, server: str | None, kind: str) -> dict[str, Any]:
    """Search. Rows are in the order of their scores; ``place`` is where an assistant gets a tool."""
    given = {"query": query, "limit": MOST_FOUND if kind else FOUND, "server": server, "explain": True}
    if kind == "external":
        found, names = await asyncio.gather(request.call("search_tools", **given), _external_names(request))
    else:
        found, names = await request.call("search_tools", **given), frozenset[str]()
    for place, row in enumerate(found["results"], start=1):
        row["place"] = place
    rows = sorted(
        (row for row in found["results"] if row["score"] >= LEAST_SCORE), key=lambda row: -row["score"]
    )
    for rank, row in enumerate(rows, start=1):
        row["moved"] = row["place"] if row["place"] != rank else 0
    if kind:
        rows = [row for row in rows if (row["name"] in names if kind == "external" else row[kind])][:FOUND]
    parts = {term["kind"] for row in rows for term in row["terms"]}
    low = bool(rows) and rows[0]["score"] < LOW_SCORE
    return {"found": found, "results": rows, "fields": FIELDS, "more": None, "parts": parts, "low": low}


async def _list_page(request: PageRequest, server: str | None, kind: str) -> dict[str, Any]:
    cursor = request.query.get("cursor") or None
    given: dict[str, Any] = {"server": server, "limit": ROWS, "cursor": cursor}
    if kind == "external":
        given["names"] = sorted(await _external_names(request))
    elif kind:
        given["marked"] = kind
    listed = await request.call("list_tools", **given)
    servers = listed["servers"]
    if (server is not None or kind) and cursor is None:
        servers = (await request.call("list_tools", limit=1))["servers"]
    more = (
        {"cursor": listed["next"]} | ({"server": server} if server else {}) | ({"kind": kind} if kind else {})
    )
    page = {name: listed[name] for name in ("results", "total", "waiting", "failed")}
    return {
        **page,
        "found": None,
        "servers": servers,
        "more": f"/tools?{urlencode(more)}" if listed["next"] else None,
    }


async def _most_used(request: PageRequest) -> dict[str, Any]:
    """Return the tools of servers that were called most, with their calls."""
    usage = await request.call(
        "get_usage_stats", by="tool", start=f"{USAGE_DAYS - 1}d", limit=ROWS, of_servers=True
    )
    counts = {row["tool"]: row for row in usage["results"]}
    listed = await request.call("list_tools", names=list(counts))
    rows = [row | {"usage": counts[row["name"]]} for row in listed["results"] if row["server"]]
    return {**_NOTHING_LISTED, "results": rows, "total": len(rows)}


async def _external_names(request: PageRequest) -> frozenset[str]:
    """Return the names of tools that pass on what they are given to a place that others can read."""
    rows = (await request.call("list_flow_labels", limit=MOST_LABELED))["results"]
    return frozenset(
        row["tool"] for row in rows if any(label["label"] == "external" for label in row["labels"])
    )


# -- one tool --------------------------------------------------------------------------------------


async def tool(request: PageRequest) -> WholePage:
    """Show one tool: what it is, a form to call it, what an assistant sees, its usage and its labels."""
    name = request.path("name")
    detail = json.decode(await request.answer("get_tool", name=name))
    usage, labels = await asyncio.gather(
        _usage_of(request, detail["name"]), _labels_of(request, detail["name"])
    )
    definition = detail["tool"]
    schema = printable(as_json(definition.get("inputSchema", {})))
    loaded = await asyncio.to_thread(standard_json.loads, schema)
    form = await asyncio.to_thread(read_schema, loaded)
    context = {
        "tool": {
            name: printable(value) if isinstance(value, str) else value for name, value in detail.items()
        },
        "definition": printable(as_json(definition)),
        "schema": schema,
        "output": printable(as_json(definition["outputSchema"])) if "outputSchema" in definition else "",
        "form": filled(form),
        "usage": usage,
        "labels": labels,
        "days": USAGE_DAYS,
    }
    return WholePage("tools/tool.html", say("{name}", name=name), context, module="tools")


async def _usage_of(request: PageRequest, name: str) -> dict[str, Any] | None:
    """Return the sums of the calls of a tool; None if nobody counts them, or the caller may not see it."""
    if not request.may("get_usage_stats") or set(name) & set("*?["):  # signs of a pattern
        return None
    try:
        found = await request.call(
            "get_usage_stats", by="day", tool=name, start=f"{USAGE_DAYS - 1}d", limit=USAGE_DAYS, lookups=True
        )
    except TabaneError:
        return None
    sums: dict[str, Any] = found["sum"]
    return sums


async def _labels_of(request: PageRequest, name: str) -> list[dict[str, Any]]:
    """Return the flow labels of a tool with their meaning and origin."""
    if not request.may("list_flow_labels"):
        return []
    try:
        rows = (await request.call("list_flow_labels", name=name, limit=1))["results"]
    except TabaneError:
        return []
    return [
        {
            "words": LABELS[label["label"]].words,
            "meaning": LABELS[label["label"]].meaning,
            "color": LABELS[label["label"]].color,
            "origin": ORIGINS.get(label["from"], Message(label["from"])),
        }
        for row in rows
        for label in row["labels"]
    ]


async def call(request: PageRequest) -> Fragment:
    """Call a tool with the arguments of the form, and show its result. If the browser gives up, cancel it."""
    name = request.path("name")
    form = await request.form()
    text = form.get("arguments", "") or "{}"
    whole = form.get("app") == "true"  # an app gets all of the result
    found = read_json(text)
    if isinstance(found, JsonFault):
        return _failed_result(found.message, 422)
    if not isinstance(found, dict):
        return _failed_result(say("The arguments must be a JSON object."), 422)
    started = time.perf_counter()
    try:
        body = await request.while_connected(
            request.answer(
                "call_tool",
                name=name,
                arguments=msgspec.Raw(text.encode()),
                max_tokens=None if whole else PART_TOKENS,
            )
        )
    except Unauthorized:
        raise
    except TabaneError as error:
        return _failed_result(error.message, 200, 1000 * (time.perf_counter() - started))
    took = 1000 * (time.perf_counter() - started)
    return await _result_fragment(body, took, "tools/result.html", whole=whole)


async def read_more(request: PageRequest) -> Fragment:
    """Show the next part of a long result."""
    started = time.perf_counter()
    body = await request.answer("read_more", handle=(await request.form()).get("handle", ""))
    return await _result_fragment(body, 1000 * (time.perf_counter() - started), "tools/blocks.html")


async def markdown(request: PageRequest) -> Fragment:
    """Show a text of a result as Markdown."""
    text = (await request.body(4 * MOST_TEXT)).decode(errors="replace")
    return Fragment("tools/markdown.html", {"text": await request.markdown(text, top=4)})


async def _result_fragment(body: bytes, took: float, template: str, *, whole: bool = False) -> Fragment:
    try:
        result = await asyncio.to_thread(json.decode, body)
        shown = await asyncio.to_thread(shown_result, result, len(body))
    except json.InvalidJson:
        message = say("The result cannot be shown: it is not JSON that this page can read.")
        return _failed_result(message, 200, took)
    sizes = {"took": took, "bytes": len(body), "tokens": -(-len(body) // 4)}
    for_app = body.decode(errors="replace") if whole and len(body) <= MOST_ANSWERED else ""
    return Fragment(template, {"result": shown, "error": None, "app_result": for_app, **sizes})


def _failed_result(message: Message, status: int, took: float | None = None) -> Fragment:
    context = {"result": None, "error": message, "took": took, "bytes": 0, "tokens": 0}
    return Fragment("tools/result.html", context, status)


async def set_visibility(request: PageRequest) -> Redirect:
    """Pin, unpin, hide or show a tool."""
    name, form = request.path("name"), await request.form()
    wanted = {key: form[key] == "true" for key in ("pinned", "hidden") if key in form}
    found = await request.call("set_tool_visibility", name=name, **wanted)
    if found["hidden"]:
        return Redirect("/tools?view=hidden", say("{name} is hidden now.", name=name))
    message = say("{name} is always listed now.", name=name)
    if wanted.get("pinned") is False:
        message = say("{name} is no longer pinned.", name=name)
    if wanted.get("hidden") is False:
        message = say("{name} is no longer hidden.", name=name)
    return Redirect(f"/tools/{name}", message)


# -- forms and JSON --------------------------------------------------------------------------------


class ConvertForm(msgspec.Struct, frozen=True):
    """The values of a form, to be converted to arguments."""

    schema: Any
    values: dict[str, list[str]]


class ConvertArguments(msgspec.Struct, frozen=True):
    """Arguments as JSON, to be shown in a form."""

    schema: Any
    arguments: str


async def to_arguments(request: PageRequest) -> Json:
    """Return the arguments that a form says, and what is wrong by field. The schema comes from the page."""
    body = await request.body(MOST_BODY)
    lang = request.lang

    def convert() -> dict[str, Any]:
        given = _decode_form(body, ConvertForm)
        read = arguments_of(read_schema(given.schema), given.values)
        errors = {path: error.render(lang) for path, error in read.errors.items()}
        return {
            "arguments": read.arguments,
            "text": standard_json.dumps(read.arguments, ensure_ascii=False, indent=2),
            "errors": errors,
        }

    return Json(await _convert_form(convert, len(body)))


async def to_form(request: PageRequest) -> Fragment | Json:
    """Return the form that shows arguments; status 422 with an error if no form can show them."""
    body = await request.body(MOST_BODY)
    given = _decode_form(body, ConvertArguments)
    found = read_json(given.arguments or "{}")
    if isinstance(found, JsonFault):
        return Json({"error": found.message.render(request.lang)}, 422)
    if not isinstance(found, dict):
        return Json({"error": say("The arguments must be a JSON object.").render(request.lang)}, 422)

    def convert() -> Any:
        form = read_schema(given.schema)
        return filled(form, values_of(form, found)) if shows(form, found) else None

    form = await _convert_form(convert, len(body))
    if form is None:
        text = say("The form cannot show all of this. It is sent as it is here.")
        return Json({"error": text.render(request.lang)}, 422)
    return Fragment("tools/form.html", {"form": form})


async def _convert_form(convert: Any, size: int) -> Any:
    return convert() if size <= SMALL_BODY else await asyncio.to_thread(convert)


def _decode_form(body: bytes, shape: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadArguments(say("The form cannot be read: {reason}", reason=error)) from None


ROUTES = (
    PageRoute("/tools/{name}/app", page, method="POST"),
    PageRoute("/tools/{name}/app/read", read, method="POST"),
    PageRoute("/tools/{name}/app/call", call_from_app, method="POST"),
    PageRoute("/tools", tools),
    PageRoute("/tools/-/arguments", to_arguments, method="POST"),
    PageRoute("/tools/-/form", to_form, method="POST"),
    PageRoute("/tools/-/more", read_more, method="POST"),
    PageRoute("/tools/-/markdown", markdown, method="POST"),
    PageRoute("/tools/{name}", tool),
    PageRoute("/tools/{name}/call", call, method="POST"),
    PageRoute("/tools/{name}/visibility", set_visibility, method="POST"),
)
