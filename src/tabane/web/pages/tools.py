"""Tools: found as an assistant finds them, listed by server, shown, called, pinned and hidden."""

from __future__ import annotations

import asyncio
import json as standard_json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from tabane.errors import BadArguments, TabaneError, Unauthorized
from tabane.messages import Message, say
from tabane.web.form_values import JsonFault, arguments_of, filled, read_json, shows, values_of
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.tool_apps import MOST_ANSWERED
from tabane.web.pages.tool_results import MOST_TEXT, printable, shown_result
from tabane.web.schema_fields import as_json, read_schema
from tabane.wire import json

ROWS = 100
"""Tools of a page of the list."""

FOUND = 20
"""Tools that a search shows. An assistant gets 5 by default."""

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


async def tools(request: PageRequest) -> WholePage | Fragment:
    """Show a search, the list of tools, or the hidden ones. A part of the page gets only what was found."""
    query = request.query.get("q", "").strip()[:LONGEST_QUERY]
    server = request.query.get("server") or None
    hidden = request.query.get("view") == "hidden"
    if hidden:
        context = await _hidden(request, server)
    else:
        context = await (_search(request, query, server) if query else _listed(request, server))
    context |= {"query": query, "server": server, "hidden": hidden}
    if request.partial:
        rows_only = "cursor" in request.query
        return Fragment("tools/rows.html" if rows_only else "tools/found.html", context)
    if query:
        context["servers"] = (await request.call("list_tools", limit=1))["servers"]
    return WholePage("tools/list.html", say("Tools"), context, module="tools")


async def _search(request: PageRequest, query: str, server: str | None) -> dict[str, Any]:
    found = await request.call("search_tools", query=query, limit=FOUND, server=server, explain=True)
    return {"found": found, "results": found["results"], "fields": FIELDS, "more": None}


async def _listed(request: PageRequest, server: str | None) -> dict[str, Any]:
    cursor = request.query.get("cursor") or None
    listed = await request.call("list_tools", server=server, limit=ROWS, cursor=cursor)
    servers = listed["servers"]
    if server is not None and cursor is None:
        servers = (await request.call("list_tools", limit=1))["servers"]
    more = {"cursor": listed["next"]} | ({"server": server} if server else {})
    return {
        "found": None,
        "results": listed["results"],
        "servers": servers,
        "total": listed["total"],
        "waiting": listed["waiting"],
        "failed": listed["failed"],
        "more": f"/tools?{urlencode(more)}" if listed["next"] else None,
    }


async def _hidden(request: PageRequest, server: str | None) -> dict[str, Any]:
    listed = await request.call("list_hidden_tools", server=server, limit=1_000)
    return {
        "found": None,
        "results": listed["results"],
        "servers": {},
        "total": listed["total"],
        "waiting": [],
        "failed": {},
        "more": None,
    }


# -- one tool --------------------------------------------------------------------------------------


async def tool(request: PageRequest) -> WholePage:
    """Show one tool: what it is, its schema, and a form to call it."""
    name = request.path("name")
    detail = json.decode(await request.answer("get_tool", name=name))
    definition = detail["tool"]
    schema = printable(as_json(definition.get("inputSchema", {})))
    form = await asyncio.to_thread(lambda: read_schema(standard_json.loads(schema)))
    context = {
        "tool": {
            name: printable(value) if isinstance(value, str) else value for name, value in detail.items()
        },
        "definition": printable(as_json(definition)),
        "schema": schema,
        "output": printable(as_json(definition["outputSchema"])) if "outputSchema" in definition else "",
        "form": filled(form),
        "command": f"tabane tools call {name}",
    }
    return WholePage("tools/tool.html", say("{name}", name=name), context, module="tools")


async def call(request: PageRequest) -> Fragment:
    """Call a tool with the arguments of the form, and show its result. If the browser gives up, cancel it."""
    name = request.path("name")
    form = await request.form()
    text = form.get("arguments", "") or "{}"
    whole = form.get("app") == "true"  # an app gets all of the result
    found = read_json(text)
    if isinstance(found, JsonFault):
        return _failed(found.message, 422)
    if not isinstance(found, dict):
        return _failed(say("The arguments must be a JSON object."), 422)
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
        return _failed(error.message, 200, 1000 * (time.perf_counter() - started))
    took = 1000 * (time.perf_counter() - started)
    return await _result(body, took, "tools/result.html", whole=whole)


async def read_more(request: PageRequest) -> Fragment:
    """Show the next part of a long result."""
    started = time.perf_counter()
    body = await request.answer("read_more", handle=(await request.form()).get("handle", ""))
    return await _result(body, 1000 * (time.perf_counter() - started), "tools/blocks.html")


async def markdown(request: PageRequest) -> Fragment:
    """Show a text of a result as Markdown."""
    text = (await request.body(4 * MOST_TEXT)).decode(errors="replace")
    return Fragment("tools/markdown.html", {"text": await request.markdown(text, top=4)})


async def _result(body: bytes, took: float, template: str, *, whole: bool = False) -> Fragment:
    try:
        shown = await asyncio.to_thread(lambda: shown_result(json.decode(body), len(body)))
    except json.InvalidJson:
        return _failed(say("The result cannot be shown: it is not JSON that this page can read."), 200, took)
    sizes = {"took": took, "bytes": len(body), "tokens": -(-len(body) // 4)}
    for_app = body.decode(errors="replace") if whole and len(body) <= MOST_ANSWERED else ""
    return Fragment(template, {"result": shown, "error": None, "app_result": for_app, **sizes})


def _failed(message: Message, status: int, took: float | None = None) -> Fragment:
    context = {"result": None, "error": message, "took": took, "bytes": 0, "tokens": 0}
    return Fragment("tools/result.html", context, status)


async def set_visibility(request: PageRequest) -> Redirect:
    """Pin, unpin, hide or show a tool."""
    name, form = request.path("name"), await request.form()
    wanted = {key: form[key] == "true" for key in ("pinned", "hidden") if key in form}
    found = await request.call("set_tool_visibility", name=name, **wanted)
    if found["hidden"]:
        return Redirect("/tools?view=hidden", say("{name} is hidden now.", name=name))
    said = say("{name} is always listed now.", name=name)
    if wanted.get("pinned") is False:
        said = say("{name} is no longer pinned.", name=name)
    if wanted.get("hidden") is False:
        said = say("{name} is no longer hidden.", name=name)
    return Redirect(f"/tools/{name}", said)


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
        given = _decoded(body, ConvertForm)
        read = arguments_of(read_schema(given.schema), given.values)
        errors = {path: error.render(lang) for path, error in read.errors.items()}
        return {"arguments": read.arguments, "text": _indented(read.arguments), "errors": errors}

    return Json(await _converted(convert, len(body)))


async def to_form(request: PageRequest) -> Fragment | Json:
    """Return the form that shows arguments; status 422 with an error if no form can show them."""
    body = await request.body(MOST_BODY)
    given = _decoded(body, ConvertArguments)
    found = read_json(given.arguments or "{}")
    if isinstance(found, JsonFault):
        return Json({"error": found.message.render(request.lang)}, 422)
    if not isinstance(found, dict):
        return Json({"error": say("The arguments must be a JSON object.").render(request.lang)}, 422)

    def convert() -> Any:
        form = read_schema(given.schema)
        return filled(form, values_of(form, found)) if shows(form, found) else None

    form = await _converted(convert, len(body))
    if form is None:
        text = say("The form cannot show all of this. It is sent as it is here.")
        return Json({"error": text.render(request.lang)}, 422)
    return Fragment("tools/form.html", {"form": form})


async def _converted(convert: Any, size: int) -> Any:
    return convert() if size <= SMALL_BODY else await asyncio.to_thread(convert)


def _decoded(body: bytes, shape: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadArguments(say("The form cannot be read: {reason}", reason=error)) from None


def _indented(value: object) -> str:
    return standard_json.dumps(value, ensure_ascii=False, indent=2)


ROUTES = (
    PageRoute("/tools", tools),
    PageRoute("/tools/-/arguments", to_arguments, method="POST"),
    PageRoute("/tools/-/form", to_form, method="POST"),
    PageRoute("/tools/-/more", read_more, method="POST"),
    PageRoute("/tools/-/markdown", markdown, method="POST"),
    PageRoute("/tools/{name}", tool),
    PageRoute("/tools/{name}/call", call, method="POST"),
    PageRoute("/tools/{name}/visibility", set_visibility, method="POST"),
)
