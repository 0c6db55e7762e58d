"""The flow policy: what clients have read, the pairs that are allowed, and the labels of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.page import Fragment, Notice, PageAnswer, PageRequest, PageRoute, WholePage
from tabane.web.pages.servers import server_url
from tabane.web.pages.tool_results import printable

MOST_TOOLS = 1_000
"""Tools whose labels are shown."""

MOST_TRAILS = 100
MOST_PAIRS = 200
MOST_KEYS = 10_000
LONGEST = 200
"""Characters of a client's name or folder that are shown."""

LABELS: Mapping[str, tuple[Message, str]] = {
    "private": (say("What it returns is your own: mail, files, notes, accounts."), "accent"),
    "untrusted": (say("Strangers can write what it returns: mail, web pages, issues."), "warn"),
    "external": (say("What it is given leaves this machine, to a place that others can read."), ""),
    "destructive": (say("It deletes, spends, sends in your name, or runs programs."), "bad"),
}
"""The meaning of each label, and the color of its badge."""

ORIGINS: Mapping[str, Message] = {
    "settings": say("servers file"),
    "annotation": say("annotation of the server"),
    "table": say("table of well-known servers"),
    "name": say("guessed from its words"),
    "built-in": say("built in"),
}


@dataclass
class LabeledServer:
    """The labels of a server's tools. ``labels`` has each label once, with all of its origins."""

    name: str
    url: str
    tools: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, dict[str, Message]] = field(default_factory=dict)


async def flows(request: PageRequest) -> WholePage:
    """Show what clients have read, the allowed pairs, and the labels of tools by server."""
    found = await request.call("list_flow_labels", limit=MOST_TOOLS)
    context = {
        **await _trails(request),
        "servers": labeled_servers(found["results"]),
        "more_tools": found["more"],
        "meanings": LABELS,
    }
    return WholePage("flows/flows.html", say("Flow policy"), context)


async def trails(request: PageRequest) -> Fragment:
    """Return what changes while clients work: trails and pairs."""
    return Fragment("flows/trails.html", await _trails(request))


async def forget(request: PageRequest) -> PageAnswer:
    """Forget what one client has read in one folder."""
    given = await request.form()
    which = {name: given.get(name, "") for name in ("holder", "client", "cwd")}
    return _forgotten(await request.call("forget_flow_trails", **which))


async def forget_all(request: PageRequest) -> PageAnswer:
    """Forget what all clients have read."""
    return _forgotten(await request.call("forget_flow_trails"))


async def disallow(request: PageRequest) -> PageAnswer:
    """Take an allowed pair back."""
    given = await request.form()
    pair = given.get("pair", "")
    found = await request.call("disallow_flow", pair=pair, holder=given.get("holder", ""))
    if not found["changed"]:
        return Notice(say("{pair} was not allowed.", pair=pair), events=("flows",))
    return Notice(say("{pair} is no longer allowed.", pair=pair), events=("flows",))


def _forgotten(found: Mapping[str, Any]) -> Notice:
    count = found["forgotten"]
    said = say("{count} {count:client|clients} forgotten.", count=count)
    return Notice(said if count else say("There was nothing to forget."), events=("flows",))


async def _trails(request: PageRequest) -> dict[str, Any]:
    found = await request.call("list_flow_trails")
    allowed = [(holder, pair) for holder, pairs in found["allowed"].items() for pair in pairs]
    holders = {row["holder"] for row in found["results"]} | set(found["allowed"])
    names = await _names(request, holders)
    return {
        "policy": found["policy"],
        "trails": [_trail(row, names) for row in found["results"][:MOST_TRAILS]],
        "more_trails": len(found["results"]) - MOST_TRAILS,
        "pairs": [{"holder": h, "who": names.get(h, h), "pair": pair} for h, pair in allowed[:MOST_PAIRS]],
        "more_pairs": len(allowed) - MOST_PAIRS,
        "colors": {name: color for name, (_, color) in LABELS.items()},
    }


async def _names(request: PageRequest, holders: Iterable[str]) -> dict[str, str]:
    """Return the names of keys by holder, if there is a key among the holders."""
    if not any(holder.startswith("key:") for holder in holders) or not request.may("keys_list"):
        return {}
    found = await request.call("keys_list", revoked=True, limit=MOST_KEYS)
    return {f"key:{key['id']}": key["name"] for key in found["results"]}


def _trail(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a trail for the template. A client names itself: nothing in its name is hidden."""
    return {
        **row,
        "who": names.get(row["holder"], row["holder"]),
        "shown_client": _shown(row["client"]),
        "shown_cwd": _shown(row["cwd"]),
        "read": [(label, list(row[label].items())) for label in row["labels"]],
        "of_all": not row["holder"],
    }


def _shown(text: str) -> str:
    return shown_controls(printable(text[:LONGEST] + ("…" if len(text) > LONGEST else "")))


def labeled_servers(rows: Sequence[Mapping[str, Any]]) -> list[LabeledServer]:
    """Return the tools by server, with the labels that some tool of it has. Tabane itself is the last."""
    found: dict[str, LabeledServer] = {}
    for row in rows:
        name = row["server"]
        server = found.setdefault(name, LabeledServer(name, server_url(name) if name else ""))
        labels = [_label(each) for each in row["labels"]]
        server.tools.append({**row, "labels": labels, "if_given": row.get("if_given", [])})
        for each in row["labels"]:
            origins = server.labels.setdefault(each["label"], {})
            origins[each["from"]] = _origin(each["from"])
    for server in found.values():
        server.labels = {label: server.labels[label] for label in LABELS if label in server.labels}
    return sorted(found.values(), key=lambda server: (not server.name, server.name))


def _label(each: Mapping[str, str]) -> dict[str, Any]:
    return {"name": each["label"], "color": LABELS[each["label"]][1], "origin": _origin(each["from"])}


def _origin(name: str) -> Message:
    return ORIGINS.get(name, Message(name))


ROUTES = (
    PageRoute("/flows", flows),
    PageRoute("/flows/-/trails", trails),
    PageRoute("/flows/-/forget", forget, "POST"),
    PageRoute("/flows/-/forget-all", forget_all, "POST"),
    PageRoute("/flows/-/disallow", disallow, "POST"),
)
