"""Pages of the servers: the list, one server with its tools, its log and its definition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from tabane.errors import UnknownName
from tabane.messages import Message, say
from tabane.messages.server_states import state_of_row, words_of_state
from tabane.web.page import Fragment, Json, Notice, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages import server_editing, server_logins
from tabane.web.pages.server_tools import tool_detail, tools_of

PER_PAGE = 100
LOG_LINES = 500
"""Lines of stderr that a page begins with, and gets at once at most."""

TROUBLE = frozenset({"waiting", "circuit open"})

FILTERS: Mapping[str, Message] = {
    "": say("All states"),
    "running": say("Running"),
    "trouble": say("Need attention"),
    "disabled": say("Disabled"),
}


def server_url(name: str) -> str:
    """Return the URL of a server's page. A name may have slashes."""
    return f"/servers/{quote(name, safe='/')}"


# -- the list ----------------------------------------------------------------------------------------


async def server_list(request: PageRequest) -> WholePage:
    """Show all servers."""
    return WholePage("servers/list.html", say("Servers"), await _listed(request), module="servers")


async def server_rows(request: PageRequest) -> Fragment:
    """Return the rows that a filter leaves, as they are now."""
    return Fragment("servers/rows.html", await _listed(request))


async def _listed(request: PageRequest) -> dict[str, Any]:
    rows = [_shown(row) for row in (await request.call("list_servers"))["results"]]
    counts = {name: sum(1 for row in rows if _is_in(row, name)) for name in FILTERS}
    text, chosen = request.query.get("q", "").strip(), request.query.get("show", "")
    found = [row for row in rows if _is_in(row, chosen) and _matches(row, text)]
    found.sort(key=lambda row: row["name"].casefold())
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(_number(request.query.get("page", ""), 1), pages)
    return {
        "rows": found[(page - 1) * PER_PAGE : page * PER_PAGE],
        "total": len(rows),
        "found": len(found),
        "counts": counts,
        "filters": FILTERS,
        "given": {"q": text, "show": chosen},
        "page": page,
        "pages": pages,
        "tools": sum(row["tools"] or 0 for row in rows),
        "memory": sum(row["memory_mb"] or 0 for row in rows) * 1e6,
        "query": lambda **more: urlencode(
            {key: value for key, value in {"q": text, "show": chosen, **more}.items() if value}
        ),
    }


def _is_in(row: Mapping[str, Any], name: str) -> bool:
    if name == "running":
        return bool(row["state"] == "ready")
    if name == "trouble":
        return bool(row["trouble"])
    return not name or bool(row["state"] == name)


def _matches(row: Mapping[str, Any], text: str) -> bool:
    words = " ".join((row["name"], row["description"] or "", *row["tags"])).casefold()
    return all(word in words for word in text.casefold().split())


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server as the templates have it: with its URL, and its state in words and color."""
    label, kind = words_of_state(state := state_of_row(row))
    trouble = state == "unable" or row["state"] in TROUBLE or bool(row["error"] and not row["switched_off"])
    if trouble and row["state"] == "ready":
        kind = "warn"
    return {
        **row,
        "url": server_url(row["name"]),
        "label": label,
        "kind": kind,
        "trouble": trouble,
        "memory": None if row["memory_mb"] is None else row["memory_mb"] * 1e6,
    }


def _number(text: str, lowest: int) -> int:
    return max(lowest, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else lowest


# -- one server --------------------------------------------------------------------------------------

VIEWS: Mapping[str, Message] = {
    "": say("Overview"),
    "tools": say("Tools"),
    "log": say("Log"),
    "definition": say("Definition"),
}


async def one_server(request: PageRequest) -> WholePage:
    """Show one server: its state, its tools, its log or its definition."""
    name = request.path("name")
    view = request.query.get("view", "")
    context = await _server(request, name)
    context |= await _view(request, name, view)
    context["tabs"] = [
        (
            server_url(name) + (f"?view={key}" if key else ""),
            label,
            context["server"]["tools"] if key == "tools" else None,
        )
        for key, label in VIEWS.items()
    ]
    context["view"] = view if view in VIEWS else ""
    context["current"] = server_url(name) + (f"?view={context['view']}" if context["view"] else "")
    return WholePage("servers/server.html", Message(name), context, module="servers")


async def _server(request: PageRequest, name: str) -> dict[str, Any]:
    return {
        "server": _shown(await request.call("show_server", name=name)),
        "name": name,
        "url": server_url(name),
    }


async def _view(request: PageRequest, name: str, view: str) -> dict[str, Any]:
    if view == "tools":
        return await tools_of(request, name)
    if view == "log":
        return {"log": await request.call("server_logs", name=name, lines=LOG_LINES)}
    if view == "definition":
        found = await request.call("show_definition", name=name)
        return {"shown": found, "json": json.dumps({name: found["definition"]}, indent=2, ensure_ascii=False)}
    return {}


async def server_live(request: PageRequest) -> Fragment:
    """Return the state of a server as it is now; it may have been removed."""
    name = request.path("name")
    try:
        return Fragment("servers/live.html", await _server(request, name))
    except UnknownName:
        return Fragment("servers/gone.html", {"name": name})


async def server_log(request: PageRequest) -> Json:
    """Return what a server wrote to stderr since a position."""
    after = request.query.get("after", "")[:50]
    name = request.path("name")
    return Json(await request.call("server_logs", name=name, lines=LOG_LINES, after=after or None))


async def more_tools(request: PageRequest) -> Fragment:
    """Return the tools that a filter leaves, or the next ones."""
    offset = _number(request.query.get("offset", ""), 0)
    name = request.path("name")
    found = await tools_of(request, name, offset)
    return Fragment("servers/tools.html", {**found, "url": server_url(name)})


# -- actions -----------------------------------------------------------------------------------------

CHANGED = ("servers",)
"""The event after a change."""


async def start(request: PageRequest) -> Notice:
    """Start a server."""
    name = request.path("name")
    found = await request.call("start_upstream", name=name)
    return Notice(_running(name, found), events=CHANGED)


async def restart(request: PageRequest) -> Notice:
    """Stop a server and start it again."""
    name = request.path("name")
    found = await request.call("restart_upstream", name=name)
    return Notice(_running(name, found), events=CHANGED)


async def stop(request: PageRequest) -> Notice:
    """Stop a server until somebody starts it."""
    name = request.path("name")
    await request.call("stop_upstream", name=name)
    return Notice(say("{name!n} was stopped.", name=name), events=CHANGED)


async def enable(request: PageRequest) -> Notice:
    """Enable a server in the servers file."""
    return await _switch(request, True)


async def disable(request: PageRequest) -> Notice:
    """Disable a server in the servers file."""
    return await _switch(request, False)


async def _switch(request: PageRequest, on: bool) -> Notice:
    name = request.path("name")
    found = await request.call("enable_server", name=name, enabled=on)
    if trouble := found["problem"] or found["remark"]:
        return Notice(
            say("The servers file was changed, but: {why}", why=trouble), kind="error", events=CHANGED
        )
    done = say("{name!n} is now enabled.", name=name) if on else say("{name!n} is now disabled.", name=name)
    return Notice(done, events=CHANGED)


async def remove(request: PageRequest) -> Redirect:
    """Remove a server from the servers file."""
    name = request.path("name")
    found = await request.call("remove_server", name=name)
    return Redirect("/servers", say("Removed {name!n} from {path}.", name=name, path=found["path"]))


async def test(request: PageRequest) -> Fragment:
    """Start a server if it is not running, and show its tools."""
    found = await request.call("test_server", name=request.path("name"))
    return Fragment("servers/tested.html", {"found": found}, events=CHANGED)


def _running(name: str, found: Mapping[str, Any]) -> Message:
    tools: Sequence[Any] | int | None = found["tools"]
    count = tools if isinstance(tools, int) else len(tools or ())
    return say("{name!n} is running with {count} {count:tool|tools}.", name=name, count=count)


_ONE = "/servers/{name:path}"

ROUTES = (
    PageRoute("/servers", server_list),
    PageRoute("/servers/-/rows", server_rows),
    *server_editing.ROUTES,
    *server_logins.ROUTES,
    PageRoute(f"{_ONE}/-/live", server_live),
    PageRoute(f"{_ONE}/-/log", server_log),
    PageRoute(f"{_ONE}/-/tools", more_tools),
    PageRoute(f"{_ONE}/-/tool", tool_detail),
    PageRoute(f"{_ONE}/-/start", start, "POST"),
    PageRoute(f"{_ONE}/-/stop", stop, "POST"),
    PageRoute(f"{_ONE}/-/restart", restart, "POST"),
    PageRoute(f"{_ONE}/-/enable", enable, "POST"),
    PageRoute(f"{_ONE}/-/disable", disable, "POST"),
    PageRoute(f"{_ONE}/-/remove", remove, "POST"),
    PageRoute(f"{_ONE}/-/test", test, "POST"),
    PageRoute(_ONE, one_server),
)
