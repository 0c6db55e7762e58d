"""Servers and tools, which the command palette finds besides pages."""

from __future__ import annotations

from tabane.web.page import Json, PageRequest, PageRoute
from tabane.web.rendering import url_part

MOST_SERVERS = 5
MOST_TOOLS = 8
LONGEST = 200
"""Characters of what is typed that are used."""


async def found(request: PageRequest) -> Json:
    """Return servers and tools that match what is typed, as entries with a URL, a label and an icon."""
    typed = request.query.get("q", "").strip()[:LONGEST]
    if not typed:
        return Json([])
    entries: list[dict[str, str]] = []
    if request.may("list_servers"):
        servers = (await request.call("list_servers"))["results"]
        names = [row["name"] for row in servers if typed.lower() in row["name"].lower()]
        entries += [_entry("/servers/", name, "servers") for name in names[:MOST_SERVERS]]
    if request.may("search_tools"):
        tools = await request.call("search_tools", query=typed, limit=MOST_TOOLS)
        entries += [_entry("/tools/", row["name"], "tools") for row in tools["results"]]
    return Json(entries)


def _entry(place: str, name: str, icon: str) -> dict[str, str]:
    return {"url": f"{place}{url_part(name)}", "label": name, "icon": icon}


ROUTES = (PageRoute("/palette", found),)
