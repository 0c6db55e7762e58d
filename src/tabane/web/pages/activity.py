"""The page of activity: calls as they are made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tabane.errors import BadArguments, UnknownName
from tabane.messages import Message, say
from tabane.messages.page_words import without_commands
from tabane.web.operation_names import NAMES
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, WholePage

SHOWN = 60
"""Calls that the page begins with."""

WINDOW = 300
"""Seconds of the charts, if nothing else is chosen."""

OUTCOMES: Mapping[str, tuple[Message, str]] = {
    "running": (say("in progress"), "accent"),
    "ok": (say("success"), "ok"),
    "failed": (say("failed"), "bad"),
    "refused": (say("refused"), "warn"),
    "limited": (say("over a limit"), "warn"),
    "cancelled": (say("canceled"), ""),
}
"""The names of the outcomes of calls, and the color of each."""

STEPS: Mapping[str, tuple[Message, Message]] = {
    "limits": (say("Waiting for its turn"), say("Limits of the key, tool or server held it back.")),
    "hub": (say("In Tabane"), say("Permission, arguments, audit log.")),
    "queue": (say("Waiting for the server"), say("The server was starting, or had no free place.")),
    "server": (say("At the server"), say("From the request on until its answer.")),
    "answer": (say("Passing the answer on"), say("From the answer on until it was passed on.")),
}

FACES = {"mcp": say("assistant"), "rpc": say("program"), "cli": say("command line"), "web": say("web page")}

FILTERS: Mapping[str, Message] = {
    "tool": say("Tool"),
    "server": say("Server"),
    "client": say("Assistant"),
    "outcome": say("Outcome"),
}
"""The filters of the address, and their names."""


async def activity(request: PageRequest) -> WholePage:
    """Show the last calls, and what the charts begin with."""
    filters = _filters(request)
    found, servers = await asyncio.gather(_list_calls(request, filters), request.rows("list_servers"))
    context = {
        **_call_rows(found),
        "filters": filters,
        "filter_names": FILTERS,
        "names": sorted(server["name"] for server in servers),
        "clients": sorted({call["client"] or call["label"] for call in found["results"]} - {""}),
        "window": WINDOW,
        "operation_words": {name: words.render(request.lang) for name, words in NAMES.items()},
        "blank": {"outcome": "running", "number": 0, "face": "mcp"},
    }
    return WholePage("activity/activity.html", say("Activity"), context, module="activity")


async def rows(request: PageRequest) -> Fragment:
    """Return the calls that fit other filters."""
    return Fragment("activity/rows.html", _call_rows(await _list_calls(request, _filters(request))))


async def seconds(request: PageRequest) -> Json:
    """Return the figures of the charts."""
    window = _read_number(request.query.get("seconds", str(WINDOW)))
    return Json(await request.call("get_activity", seconds=window))


async def call(request: PageRequest) -> Fragment:
    """Show one call."""
    try:
        found = await request.call("show_live_call", number=_read_number(request.path("number")))
    except UnknownName:
        raise UnknownName(say("This call is no longer kept here. It is in the audit log.")) from None
    total = sum(step["ms"] for step in found["steps"]) or 1.0
    steps, at = [], 0.0
    for step in found["steps"]:
        label, about = STEPS[step["step"]]
        part = step["ms"] / total
        steps.append(step | {"label": label, "about": about, "part": part, "at": at})
        at += part
    result = found["result"]
    content = result.get("content") if isinstance(result, dict) else None
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    reason = found["reason"]
    if found["outcome"] == "refused":  # without commands, and without the end of a text that was cut
        reason = without_commands(reason)
        whole = _LAST_SENTENCE.match(reason)
        reason = whole[0] if whole else reason
    context = {
        "call": found,
        "reason": reason,
        "steps": steps,
        "total": total,
        "texts": [_indent_json(text) for text in texts if isinstance(text, str)],
        "outcomes": OUTCOMES,
        "faces": FACES,
        "credentials": [_credential_message(each) for each in found["credentials"]],
    }
    return Fragment("activity/call.html", context)


async def _list_calls(request: PageRequest, filters: dict[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {name: filters[name] or None for name in FILTERS}
    found: dict[str, Any] = await request.call(
        "list_live_calls", limit=SHOWN, lookups=bool(filters["own"]), **given
    )
    return found


def _call_rows(found: dict[str, Any]) -> dict[str, Any]:
    return {"calls": found["results"], "found": found, "outcomes": OUTCOMES, "faces": FACES}


def _filters(request: PageRequest) -> dict[str, str]:
    """Return the filters; "" is none. An unknown outcome is ignored. ``own``: look-ups of Tabane too."""
    given = {name: request.query.get(name, "").strip() for name in (*FILTERS, "own")}
    if given["outcome"] not in OUTCOMES:
        given["outcome"] = ""
    return given


def _credential_message(found: Mapping[str, Any]) -> Message:
    """Return what is said of credentials in a call: where they are, their kinds, what was done."""
    kinds = ", ".join(found["kinds"])
    if found["where"] == "arguments":
        if found["replaced"]:
            return say("The arguments contained credentials ({kinds}). Tabane replaced them.", kinds=kinds)
        return say("The arguments contain credentials ({kinds}). Tabane did not replace them.", kinds=kinds)
    if found["replaced"]:
        return say("The result contained credentials ({kinds}). Tabane replaced them.", kinds=kinds)
    return say("The result contains credentials ({kinds}). Tabane did not replace them.", kinds=kinds)


_LAST_SENTENCE = re.compile(r".*[.!?。](?=\s|$)", re.DOTALL)


def _indent_json(text: str) -> str:
    """Return a text with JSON in it in lines; any other text as it is."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


def _read_number(text: str) -> int:
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
