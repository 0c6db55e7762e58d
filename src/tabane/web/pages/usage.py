"""The page of usage: calls, failures, times and saved tokens by tool, server, assistant, person and day."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.web.page import FileDownload, Fragment, PageRequest, PageRoute, WholePage
from tabane.web.table_exports import collect_rows, export_format, table_file

PAGE = 50
"""Rows that are shown at once."""

MOST_DAYS = 1000
"""Days of a chart."""

GROUPS: Mapping[str, Message] = {
    "tool": say("Tools"),
    "server": say("Servers"),
    "client": say("Assistants"),
    "key": say("People and keys"),
    "day": say("Days"),
}
"""What calls are grouped by, and the titles of the tabs."""

FILTERS: Mapping[str, Message] = {
    "tool": say("Tool"),
    "server": say("Server"),
    "client": say("Assistant"),
    "key": say("Who"),
}
"""The filters of the address, and their names."""

RANGES: tuple[tuple[str, Message], ...] = (
    ("today", say("Today")),
    ("6d", say("7 days")),
    ("29d", say("30 days")),
    ("364d", say("a year")),
)
"""The beginnings of periods of whole days, which include today, and their names."""

USUAL = "29d"

MOST_ADVICE = 8
"""Rows of each list of the advice."""

COLUMNS = ("calls", "errors", "p50_ms", "p95_ms", "bytes", "saved")
"""Columns of the table as a file, after the name of the group."""


async def usage(request: PageRequest) -> WholePage | Fragment | FileDownload:
    """Show the usage of a period, or return its table as a file.

    Calls of Tabane's own tools are counted with ``all``, or if one is asked for by name.
    """
    query = request.query
    by = query.get("by", "tool")
    by = by if by in GROUPS else "tool"
    given = {name: value for name in FILTERS if (value := query.get(name, "").strip())}
    period = {name: value for name in ("start", "end") if (value := query.get(name, "").strip())}
    period = period or {"start": USUAL}
    everything = query.get("all") == "1"
    own = everything or ("tool" in given and "__" not in given["tool"])
    wanted: dict[str, Any] = {**given, "of_servers": not own}
    if format := export_format(request):
        rows, cut = await collect_rows(request, "get_usage_stats", **{"by": by, **period, **wanted})
        columns = (by, "label", *COLUMNS) if by == "key" else (by, *COLUMNS)
        return table_file(format, f"usage-by-{by}", columns, rows, cut=cut)
    chosen = {**period, **given} | ({"all": "1"} if everything else {})
    context: dict[str, Any] = {"by": by, "given": given, "own": own, "problem": None}
    try:
        table = await request.call(
            "get_usage_stats", by=by, limit=PAGE, cursor=query.get("cursor") or None, **period, **wanted
        )
    except BadArguments as error:
        if "start" not in query:
            raise
        context["problem"] = error.text(request.lang)
        period = {"start": USUAL}
        table = await request.call("get_usage_stats", by=by, limit=PAGE, **period, **wanted)
    context |= {"table": table, "next": table["next_cursor"], "query": urlencode({**chosen, "by": by})}
    if query.get("cursor"):
        return Fragment("usage/rows.html", context)
    asked = {**period, **wanted}, {**period, **given, "lookups": True}
    context |= _links(request, chosen, by) | await _figures(request, by, table, *asked)
    return WholePage("usage/usage.html", say("Usage"), context, module="usage")


async def _figures(
    request: PageRequest, by: str, table: dict[str, Any], wanted: dict[str, Any], all: dict[str, Any]
) -> dict[str, Any]:
    """Return the sums and the days of what is ``wanted``.

    Tokens are saved by searches and lists, which are Tabane's own: they are counted of ``all`` calls, also in
    the rows of the table by assistants and people.
    """
    days, every = await asyncio.gather(
        request.call("get_usage_stats", by="day", limit=MOST_DAYS, **wanted),
        request.call("get_usage_stats", by=by, limit=PAGE, **all),
    )
    if by in ("client", "key"):
        saved = {row[by]: row["saved"] for row in every["results"]}
        for row in table["results"]:
            row["saved"] = saved.get(row[by], row["saved"])
    return {
        "sum": table["sum"],
        "saved": every["sum"]["saved"],
        "left_out": every["sum"]["calls"] - table["sum"]["calls"] if wanted["of_servers"] else 0,
        "days": [
            [row["day"], row["calls"], row["errors"], row["saved"]] for row in reversed(days["results"])
        ],
        "first": table["start"],
        "last": table["end"],
    }


async def advice(request: PageRequest) -> Fragment:
    """Show what nobody uses and what it costs, what is slow, and what fails."""
    period = {name: request.query[name] for name in ("start", "end") if request.query.get(name)}
    found = await request.call("analyze_usage", limit=3 * MOST_ADVICE, **period)
    for name in ("failing", "slowest"):
        found[name] = [row for row in found[name] if "__" in row["tool"]]  # not Tabane's own
    for name in ("failing", "slowest", "unused_tools", "unused_servers"):
        found[name] = found[name][:MOST_ADVICE]
    return Fragment("usage/advice.html", {"found": found})


def _links(request: PageRequest, chosen: dict[str, str], by: str) -> dict[str, Any]:
    """Return the links to other periods and groups, and each chosen filter with one that takes it away."""
    lang = request.lang

    def url(given: Mapping[str, str]) -> str:
        return "/usage?" + urlencode(given)

    without_period = {name: value for name, value in chosen.items() if name not in ("start", "end")}
    return {
        "ranges": [
            (
                url({"start": code, **without_period, "by": by}),
                label.render(lang),
                chosen.get("start") == code,
            )
            for code, label in RANGES
        ],
        "views": [(url({**chosen, "by": code}), label.render(lang), None) for code, label in GROUPS.items()],
        "here": url({**chosen, "by": by}),
        "with_own": url({**chosen, "by": by, "all": "1"}),
        "without_own": url({**{name: value for name, value in chosen.items() if name != "all"}, "by": by}),
        "chips": [
            {
                "label": FILTERS[name],
                "text": value,
                "without": url(
                    {**{other: kept for other, kept in chosen.items() if other != name}, "by": by}
                ),
            }
            for name, value in chosen.items()
            if name in FILTERS
        ],
    }


ROUTES = (
    PageRoute("/usage", usage),
    PageRoute("/usage/advice", advice),
)
