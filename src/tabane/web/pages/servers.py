"""Pages of the servers: the list, one server with its tools, its log, its login and its definition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from tabane.errors import UnknownName
from tabane.messages import Message, say
from tabane.messages.server_states import state_of_row, words_of_state
from tabane.text.units import duration_text
from tabane.web.page import Fragment, Json, Notice, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages import server_editing
from tabane.web.pages.questions import shown_link

LINKS = ("url", "verification_url_complete", "verification_url")
"""Members of a login that has begun with a link for the browser, the best first."""


async def login_state(request: PageRequest) -> Fragment:
    """Return the state of a login, as it is now."""
    return Fragment("servers/login.html", await _login_context(request))


async def start_login(request: PageRequest) -> Fragment:
    """Begin a login, and show the link to open, or the code to enter on another device."""
    flow = request.query.get("flow") or None
    begun = await request.call(
        "start_login", server=request.path("name"), flow=flow, redirect="hub", restart=True
    )
    address = next((begun[name] for name in LINKS if begun.get(name)), "")
    # A client that acts for itself is logged in at once, without a link.
    context = {"code": begun.get("user_code") or "", "link": shown_link(str(address)) if address else None}
    return Fragment("servers/login.html", {**await _login_context(request), **context}, events=("servers",))


async def waiting(request: PageRequest) -> Fragment:
    """Return the waiting note, or, once the login's state has changed, the whole new card."""
    context = await _login_context(request)
    if context["login"]["state"] == "waiting":
        return Fragment("servers/login_waiting.html")
    return Fragment("servers/login.html", context, retarget="#server-login-state", events=("servers",))


async def finish(request: PageRequest) -> Fragment:
    """Finish a login with the URL to which the browser returned, for a browser of another machine."""
    given = (await request.form()).get("redirected_url", "").strip()
    await request.call("finish_login", redirected_url=given)
    return Fragment("servers/login.html", await _login_context(request), events=("servers",))


async def logout(request: PageRequest) -> Notice:
    """Revoke and forget the tokens of a server."""
    name = request.path("name")
    found = await request.call("logout_server", server=name)
    message = say("{server!n}: the login was deleted here.", server=name)
    if found.get("revoked"):
        message = say("{server!n}: the login was deleted here, and revoked there.", server=name)
    return Notice(message, events=("servers", "login-over"))


async def _login_context(request: PageRequest) -> dict[str, Any]:
    name = request.path("name")
    login = await request.call("get_login", server=name)
    return {"login": login, "name": name, "url": server_url(name), "code": "", "link": None}


_LOGIN = "/servers/{name:path}/-/login"


TOOLS_PER_PAGE = 50
MOST_PARAMETERS = 200
DEEPEST = 4
LONGEST = 200
"""Characters of a default or a list of allowed values."""


async def tools_of(request: PageRequest, name: str, offset: int = 0) -> dict[str, Any]:
    """Return some tools of a server as the template has them. ``text`` narrows them."""
    found = await request.call("list_tools", server=name)
    text = request.query.get("q", "").strip().casefold()
    rows = [row for row in found["results"] if text in row["signature"].casefold()]
    shown = rows[offset : offset + TOOLS_PER_PAGE]
    return {
        "name": name,
        "tools": [row | split_signature(row["name"], row["signature"]) for row in shown],
        "total": len(found["results"]),
        "found": len(rows),
        "tokens": sum(row.get("tokens", 0) for row in rows),
        "next": offset + TOOLS_PER_PAGE if offset + TOOLS_PER_PAGE < len(rows) else None,
        "q": request.query.get("q", ""),
    }


async def tool_detail(request: PageRequest) -> Fragment:
    """Show the description and the parameters of one tool."""
    found = await request.call("get_tool", name=request.query.get("tool", ""))
    tool = found["tool"]
    schema = tool.get("inputSchema")
    context = {
        "tool": tool,
        "parameters": list(parameters_of(schema if isinstance(schema, Mapping) else {})),
        "raw": json.dumps(tool, indent=2, ensure_ascii=False)[:100_000],
    }
    return Fragment("servers/tool.html", context)


def split_signature(name: str, signature: str) -> dict[str, str]:
    """Return the arguments and the purpose of a signature ``name {args} [marks]: purpose``."""
    rest = signature.removeprefix(name).strip()
    end = _closing_position(rest)
    return {"arguments": rest[:end], "purpose": rest[end:].partition(": ")[2]}


def _closing_position(text: str) -> int:
    """Return the position behind the parenthesis that closes the first one; 0 if there is none."""
    depth = 0
    for position, sign in enumerate(text, 1):
        depth += (sign in "({[") - (sign in ")}]")
        if depth <= 0:
            return position if position > 1 else 0
    return 0


def parameters_of(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of a JSON Schema, each before what is inside it; at most 200, 4 deep."""
    for count, row in enumerate(_parameter_rows(schema, "", 0)):
        if count >= MOST_PARAMETERS:
            return
        yield row


def _parameter_rows(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[dict[str, Any]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth >= DEEPEST:
        return
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    for name, part in properties.items():
        part = part if isinstance(part, Mapping) else {}
        place = f"{path}{name}"
        yield {
            "name": place,
            "depth": depth,
            "type": type_of(part),
            "required": name in needed,
            "description": part.get("description") if isinstance(part.get("description"), str) else "",
            "allowed": _allowed_values(part),
            "default": _short_json(part["default"]) if "default" in part else None,
        }
        items = part.get("items")
        inner, mark = (items, "[].") if isinstance(items, Mapping) else (part, ".")
        yield from _parameter_rows(inner, f"{place}{mark}", depth + 1)


def type_of(part: Mapping[str, Any]) -> str:
    """Return the type of a schema in a few words: string, array of integer, string or null."""
    kind = part.get("type")
    if isinstance(kind, list):
        return " | ".join(str(one) for one in kind[:6])
    if kind == "array" and isinstance(part.get("items"), Mapping):
        return f"array of {type_of(part['items'])}"
    if isinstance(kind, str):
        return kind
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            kinds = [type_of(one) for one in part[key][:6] if isinstance(one, Mapping)]
            return " | ".join(dict.fromkeys(kinds))
    if "enum" in part or "const" in part:
        return "value"
    return str(part["$ref"]).rpartition("/")[2] if "$ref" in part else "any"


def _allowed_values(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("enum"), list):
        return _short_json(part["enum"])[1:-1]
    low, high = part.get("minimum", ""), part.get("maximum", "")
    if low != "" or high != "":
        return f"{low} … {high}"
    return str(part["format"]) if isinstance(part.get("format"), str) else ""


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


PER_PAGE = 100
LOG_LINES = 500
"""Lines of stderr that a page begins with, and gets at once at most."""

LOGIN = "login required"
TROUBLE = frozenset({"waiting", "circuit open", LOGIN})
LOGIN_NEEDED = frozenset({"needed", "waiting", "failed"})
"""States of a login in which a server waits for a person."""

FILTERS: Mapping[str, Message] = {
    "": say("All states"),
    "running": say("Running now"),
    "trouble": say("Need attention"),
    "disabled": say("Disabled"),
}


def server_url(name: str) -> str:
    """Return the URL of a server's page. A name may have slashes."""
    return f"/servers/{quote(name, safe='/')}"


# -- the list ----------------------------------------------------------------------------------------


async def server_list(request: PageRequest) -> WholePage:
    """Show all servers."""
    return WholePage("servers/list.html", say("Servers"), await _list_context(request), module="servers")


async def server_rows(request: PageRequest) -> Fragment:
    """Return the rows that a filter leaves, as they are now."""
    return Fragment("servers/rows.html", await _list_context(request))


async def _list_context(request: PageRequest) -> dict[str, Any]:
    rows = [server_row(row) for row in (await request.call("list_servers"))["results"]]
    counts = {name: sum(1 for row in rows if _is_in(row, name)) for name in FILTERS}
    text, chosen = request.query.get("q", "").strip(), request.query.get("show", "")
    words = text.casefold().split()
    found = []
    for row in rows:
        searched = " ".join((row["name"], row["description"] or "", *row["tags"])).casefold()
        if _is_in(row, chosen) and all(word in searched for word in words):
            found.append(row)
    found.sort(key=lambda row: (not row["trouble"], row["name"].casefold()))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(_read_number(request.query.get("page", ""), 1), pages)
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


def server_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server as the templates have it: with its URL, and its state in words and color."""
    state, login = state_of_row(row), (row.get("login") or {}).get("state")
    needs_login = row["state"] == LOGIN or (login in LOGIN_NEEDED and not row["error"])
    needs_login = needs_login and row["state"] != "disabled"
    label, kind = words_of_state(LOGIN if needs_login else state)
    trouble = needs_login or state == "unable" or row["state"] in TROUBLE
    trouble = trouble or bool(row["error"] and not row["switched_off"])
    if trouble and row["state"] == "ready":
        kind = "warn"
    problem = ""
    if trouble and not needs_login:  # what its program wrote, else the error
        why = row["cause"]["line"] if row["cause"] else row["reason"] or row["error"] or ""
        problem = str(why).partition("\n")[0]
    return {
        **row,
        "needs_login": needs_login,
        "problem": problem,
        "url": server_url(row["name"]),
        "label": label,
        "kind": kind,
        "trouble": trouble,
        "memory": None if row["memory_mb"] is None else row["memory_mb"] * 1e6,
    }


def _read_number(text: str, lowest: int) -> int:
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
    context = await _server_context(request, name)
    context |= await _view_context(request, name, view)
    context["tabs"] = [
        (
            server_url(name) + (f"?view={key}" if key else ""),
            label,
            context["server"]["tools"] if key == "tools" else None,
        )
        for key, label in VIEWS.items()
        if key != "log" or context["server"]["transport"] == "stdio"  # only a program has a log here
    ]
    context["view"] = view if view in VIEWS else ""
    if not context["view"]:
        context |= _facts(context["server"])
    context["current"] = server_url(name) + (f"?view={context['view']}" if context["view"] else "")
    return WholePage("servers/server.html", Message(name), context, module="servers")


async def _server_context(request: PageRequest, name: str) -> dict[str, Any]:
    return {
        "server": server_row(await request.call("show_server", name=name)),
        "name": name,
        "url": server_url(name),
    }


async def _view_context(request: PageRequest, name: str, view: str) -> dict[str, Any]:
    if view == "tools":
        return await tools_of(request, name)
    if view == "log":
        return {"log": await request.call("server_logs", name=name, lines=LOG_LINES)}
    if view == "definition":
        found = await request.call("show_definition", name=name)
        return {"shown": found, "json": json.dumps({name: found["definition"]}, indent=2, ensure_ascii=False)}
    runs = None
    if request.may("show_definition"):
        runs = server_editing.meaning((await request.call("show_definition", name=name))["ours"])
    return {"runs": runs}


SHARED: Mapping[str, Message] = {
    "hub": say("all assistants"),
    "roots": say("assistants in the same folder"),
    "client": say("nobody: one process for each assistant"),
}


def _facts(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the overview as labels and values, the few that matter first."""
    sandbox = server.get("sandbox") or {}
    kind = sandbox.get("image") or sandbox.get("preset")
    caged = f"{kind}: {sandbox.get('problem') or ', '.join(sandbox['mechanism'])}" if sandbox else None
    longest = server["max_result_tokens"]
    facts = [
        (say("Server"), server["about"]),
        (say("Working folder"), server["cwd"] if server["transport"] == "stdio" else None),
        (say("Sandbox"), caged),
        (say("Left open by the sandbox"), " ".join(sandbox.get("uncovered") or ())),
        (say("Shared by"), SHARED[server["share"]]),
        (say("Timeout"), duration_text(server["timeout"])),
        (say("Tags"), ", ".join(server["tags"])),
        (say("Category"), server["category"]),
    ]
    more = [
        (say("Transport"), server["transport"]),
        (say("Protocol"), server["version"]),
        (say("Keywords"), ", ".join(server["keywords"])),
        (say("Example requests"), " / ".join(server["examples"])),
        (say("Processes"), ", ".join(map(str, server["pids"]))),
        (say("Calls at the same time"), server["max_concurrency"]),
        (
            say("Longest result"),
            say("{count:,} {count:token|tokens}", count=longest) if longest else None,
        ),
        (say("Prompts"), server["prompts"]),
        (say("Resources"), server["resources"]),
        (say("Resource templates"), server["templates"]),
        (say("Starts"), server["starts"]),
        (say("Unexpected ends"), server["deaths"]),
        (say("Unreadable lines"), server["skipped_lines"] or None),
    ]
    return {"facts": facts, "more_facts": more}


async def server_live(request: PageRequest) -> Fragment:
    """Return the state of a server as it is now; it may have been removed."""
    name = request.path("name")
    try:
        return Fragment("servers/live.html", await _server_context(request, name))
    except UnknownName:
        return Fragment("servers/gone.html", {"name": name})


async def server_log(request: PageRequest) -> Json:
    """Return what a server wrote to stderr since a position."""
    after = request.query.get("after", "")[:50]
    name = request.path("name")
    return Json(await request.call("server_logs", name=name, lines=LOG_LINES, after=after or None))


async def more_tools(request: PageRequest) -> Fragment:
    """Return the tools that a filter leaves, or the next ones."""
    offset = _read_number(request.query.get("offset", ""), 0)
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
    return Notice(_running_message(name, found), events=CHANGED)


async def restart(request: PageRequest) -> Notice:
    """Stop a server and start it again."""
    name = request.path("name")
    found = await request.call("restart_upstream", name=name)
    return Notice(_running_message(name, found), events=CHANGED)


async def stop(request: PageRequest) -> Notice:
    """Stop a server until somebody starts it."""
    name = request.path("name")
    await request.call("stop_upstream", name=name)
    return Notice(say("{name!n} was stopped.", name=name), events=CHANGED)


async def enable(request: PageRequest) -> Notice:
    """Enable a server in the servers file."""
    return await _enable(request, True)


async def disable(request: PageRequest) -> Notice:
    """Disable a server in the servers file."""
    return await _enable(request, False)


async def _enable(request: PageRequest, on: bool) -> Notice:
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


def _running_message(name: str, found: Mapping[str, Any]) -> Message:
    tools: Sequence[Any] | int | None = found["tools"]
    count = tools if isinstance(tools, int) else len(tools or ())
    return say("{name!n} is running with {count} {count:tool|tools}.", name=name, count=count)


_ONE = "/servers/{name:path}"

ROUTES = (
    PageRoute("/servers", server_list),
    PageRoute("/servers/-/rows", server_rows),
    *server_editing.ROUTES,
    PageRoute(_LOGIN, login_state),
    PageRoute(f"{_LOGIN}/waiting", waiting),
    PageRoute(f"{_LOGIN}/start", start_login, "POST"),
    PageRoute(f"{_LOGIN}/finish", finish, "POST"),
    PageRoute(f"{_LOGIN}/out", logout, "POST"),
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
