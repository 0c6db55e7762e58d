"""Activity: calls as they happen, their number and times by the second, and one call in detail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, WholePage

SHOWN = 200
"""Calls that the page begins with."""

WINDOW = 300
"""Seconds of the charts, if nothing else is chosen."""

OUTCOMES: Mapping[str, tuple[Message, str]] = {
    "running": (say("in progress"), "accent"),
    "ok": (say("ok"), "ok"),
    "failed": (say("failed"), "bad"),
    "refused": (say("refused"), "warn"),
    "limited": (say("over a limit"), "warn"),
    "cancelled": (say("cancelled"), ""),
}
"""The names of the outcomes of calls, and the color of each."""

STEPS: Mapping[str, tuple[Message, Message]] = {
    "limits": (say("Waiting for its turn"), say("Limits of the key, tool or server held it back.")),
    "hub": (say("In Tabane"), say("Permission, arguments, audit log.")),
    "queue": (say("Waiting for the server"), say("The server was starting, or had no free place.")),
    "server": (say("At the server"), say("From the request on until its answer.")),
    "answer": (say("Answer"), say("From the answer on until it was passed on.")),
}

FACES = {"mcp": say("assistant"), "rpc": say("program"), "cli": say("command line"), "web": say("web page")}


async def activity(request: PageRequest) -> WholePage:
    """Show the last calls, and what the charts begin with."""
    filters = _filters(request)
    found = await _found(request, filters)
    servers = await request.call("list_servers") if request.may("list_servers") else {"results": []}
    context = {
        **_rows(found),
        "filters": filters,
        "names": [server["name"] for server in servers["results"]],
        "window": WINDOW,
        "blank": {"outcome": "running", "number": 0, "face": "mcp"},
    }
    return WholePage("activity/activity.html", say("Activity"), context, module="activity")


async def rows(request: PageRequest) -> Fragment:
    """Return the calls that fit other filters."""
    return Fragment("activity/rows.html", _rows(await _found(request, _filters(request))))


async def seconds(request: PageRequest) -> Json:
    """Return the figures of the charts."""
    return Json(await request.call("get_activity", seconds=_whole(request.query.get("seconds", str(WINDOW)))))


async def call(request: PageRequest) -> Fragment:
    """Show one call."""
    found = await request.call("show_live_call", number=_whole(request.path("number")))
    total = sum(step["ms"] for step in found["steps"]) or 1.0
    steps, at = [], 0.0
    for step in found["steps"]:
        label, about = STEPS[step["step"]]
        part = step["ms"] / total
        steps.append(step | {"label": label, "about": about, "part": part, "at": at})
        at += part
    context = {
        "call": found,
        "steps": steps,
        "total": total,
        "texts": _texts(found["result"]),
        "outcomes": OUTCOMES,
        "faces": FACES,
        "credentials": [_credentials(each) for each in found["credentials"]],
    }
    return Fragment("activity/call.html", context)


async def _found(request: PageRequest, filters: dict[str, str]) -> dict[str, Any]:
    given = {name: value or None for name, value in filters.items()}
    found: dict[str, Any] = await request.call("list_live_calls", limit=SHOWN, **given)
    return found


def _rows(found: dict[str, Any]) -> dict[str, Any]:
    return {"calls": found["results"], "found": found, "outcomes": OUTCOMES, "faces": FACES}


def _filters(request: PageRequest) -> dict[str, str]:
    """Return the filters; "" is none. An unknown outcome is ignored."""
    given = {name: request.query.get(name, "").strip() for name in ("tool", "server", "client", "outcome")}
    if given["outcome"] not in OUTCOMES:
        given["outcome"] = ""
    return given


def _credentials(found: Mapping[str, Any]) -> Message:
    """Return what is said of credentials in a call: where they are, their kinds, what was done."""
    kinds = ", ".join(found["kinds"])
    if found["where"] == "arguments":
        if found["replaced"]:
            return say("The arguments contained credentials ({kinds}). Tabane replaced them.", kinds=kinds)
        return say("The arguments contain credentials ({kinds}). Tabane did not replace them.", kinds=kinds)
    if found["replaced"]:
        return say("The result contained credentials ({kinds}). Tabane replaced them.", kinds=kinds)
    return say("The result contains credentials ({kinds}). Tabane did not replace them.", kinds=kinds)


def _texts(result: Any) -> list[str]:
    """Return the texts of a tool's result, if it is one."""
    content = result.get("content") if isinstance(result, dict) else None
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return [_indented(text) for text in texts if isinstance(text, str)]


def _indented(text: str) -> str:
    """Return a text with JSON in it in lines; any other text as it is."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


def _whole(text: str) -> int:
    """Return a number of the address. Raises BadArguments."""
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise BadArguments(say("{text} is not a number.", text=text))
    return int(text)


ROUTES = (
    PageRoute("/activity", activity),
    PageRoute("/activity/rows", rows),
    PageRoute("/activity/seconds", seconds),
    PageRoute("/activity/calls/{number}", call),
)
