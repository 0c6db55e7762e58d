"""Usage: calls, errors, times and tokens by day, tool, server, key and program."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.web.page import Fragment, PageRequest, PageRoute, WholePage

PAGE = 50
"""Groups that are shown at once."""

MOST_DAYS = 1000
"""Days of a chart."""

GROUPS = (
    ("tool", say("Tools")),
    ("server", say("Servers")),
    ("key", say("Keys")),
    ("client", say("Programs")),
)
RANGES = (("7d", say("7 days")), ("30d", say("30 days")), ("90d", say("90 days")), ("365d", say("a year")))
FILTERS = ("tool", "server", "key", "client")


async def usage(request: PageRequest) -> WholePage | Fragment:
    """Show the usage of a period: its sum, a chart by day, and a table."""
    query = request.query
    by = query.get("by", "tool")
    by = by if by in dict(GROUPS) else "tool"
    given = {name: value for name in FILTERS if (value := query.get(name, "").strip())}
    period = {name: value for name in ("start", "end") if (value := query.get(name, "").strip())}
    period = period or {"start": _since("30d")}
    context: dict[str, Any] = {"by": by, "given": given, "period": period, "problem": None}
    try:
        table = await request.call(
            "get_usage_stats", by=by, limit=PAGE, cursor=query.get("cursor") or None, **period, **given
        )
    except BadArguments as error:
        if "start" not in query:
            raise
        context["problem"] = error.text(request.lang)
        period = {"start": _since("30d")}
        table = await request.call("get_usage_stats", by=by, limit=PAGE, **period, **given)
    context |= {
        "table": table,
        "next": table["next_cursor"],
        "query": urlencode({**period, **given, "by": by}),
    }
    if query.get("cursor"):
        return Fragment("usage/rows.html", context)
    days = await request.call("get_usage_stats", by="day", limit=MOST_DAYS, **period, **given)
    context |= _views(request, {**period, **given}, by) | {
        "sum": table["sum"],
        "days": [
            [day["day"], day["calls"], day["errors"], day["saved"]] for day in reversed(days["results"])
        ],
        "first": table["start"],
        "last": table["end"],
    }
    return WholePage("usage/usage.html", say("Usage"), context, module="usage")


async def advice(request: PageRequest) -> Fragment:
    """Show what nobody uses and what it costs, what is slow, and what fails."""
    period = {name: request.query[name] for name in ("start", "end") if request.query.get(name)}
    found = await request.call("analyze_usage", limit=10, **period)
    return Fragment("usage/advice.html", {"found": found})


def _since(range: str) -> str:
    """Return the beginning of a range of whole days, which includes today."""
    return f"{int(range.removesuffix('d')) - 1}d"


def _views(request: PageRequest, chosen: dict[str, str], by: str) -> dict[str, Any]:
    """Return the links to other ranges and groups."""
    lang = request.lang
    filters = {name: value for name, value in chosen.items() if name in FILTERS}

    def url(**more: str) -> str:
        return "/usage?" + urlencode(more)

    return {
        "ranges": [
            (
                url(start=_since(code), by=by, **filters),
                label.render(lang),
                chosen.get("start") == _since(code),
            )
            for code, label in RANGES
        ],
        "views": [(url(**{**chosen, "by": code}), label.render(lang), None) for code, label in GROUPS],
        "here": url(**{**chosen, "by": by}),
        "unfiltered": url(**{name: value for name, value in chosen.items() if name not in FILTERS}, by=by),
    }


ROUTES = (PageRoute("/usage", usage), PageRoute("/usage/advice", advice))
