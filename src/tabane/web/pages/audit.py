"""The audit log: who called what, and whether the log was changed."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from tabane.errors import BadArguments, UnknownName
from tabane.messages import say
from tabane.web.page import Fragment, PageRequest, PageRoute, WholePage

PAGE = 50
"""Entries that are shown at once."""

FILTERS = ("text", "tool", "key", "client", "server", "hub", "type", "result", "start", "end")

PERIODS = (
    ("1h", say("last hour")),
    ("24h", say("last 24 hours")),
    ("7d", say("last 7 days")),
    ("30d", say("last 30 days")),
    ("", say("all time")),
)
RESULTS = (
    ("", say("any result")),
    ("ok", say("successful")),
    ("failed", say("failed")),
    ("refused", say("refused")),
    ("limited", say("over a limit")),
    ("cancelled", say("canceled")),
)
TYPES = (
    ("", say("any entry")),
    ("call", say("calls")),
    ("access", say("sign-ins")),
    ("admin", say("administration")),
    ("audit", say("the log itself")),
)


async def entries(request: PageRequest) -> WholePage | Fragment:
    """Show entries that match the filters, newest first."""
    given = {name: value.strip() for name in FILTERS if (value := request.query.get(name, "")).strip()}
    context: dict[str, Any] = {"given": {**dict.fromkeys(FILTERS, ""), **given}, "problem": None}
    try:
        found = await request.call(
            "query_audit_logs", **given, limit=PAGE, cursor=request.query.get("cursor") or None
        )
    except BadArguments as error:
        found = {"results": [], "total": 0, "exact": True, "next_cursor": None}
        context["problem"] = error.text(request.lang)
    query = urlencode(given)
    context |= {
        "rows": found["results"],
        "total": found["total"],
        "exact": found["exact"],
        "next": found["next_cursor"],
        "partly": found.get("problem"),
        "in_group": "hub" in given or any("hub" in row for row in found["results"]),
        "query": f"{query}&" if query else "",
        "filtered": bool(given),
    }
    if request.query.get("cursor"):
        return Fragment("audit/rows.html", context)
    return WholePage("audit/list.html", say("Audit log"), context | _choices(request), module="audit")


async def entry(request: PageRequest) -> WholePage:
    """Show one entry with everything that the log has of it."""
    try:
        seq = int(request.path("seq"))
    except ValueError:
        raise UnknownName(say("There is no entry {seq}.", seq=request.path("seq"))) from None
    hub = request.query.get("hub") or None
    found = await request.call("query_audit_logs", seq=seq, limit=1, hub=hub)
    if not found["results"]:
        raise UnknownName(say("There is no entry {seq} in the audit log any more.", seq=seq))
    row = found["results"][0]
    arguments = row.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, indent=2)
    context = {
        "entry": row,
        "arguments": text if arguments is not None else None,
        "seq": seq,
        "of_hub": f"?{urlencode({'hub': hub})}" if hub else "",
    }
    return WholePage("audit/entry.html", say("Entry {seq}", seq=seq), context)


async def summary(request: PageRequest) -> Fragment:
    """Show how many entries there are by outcome, tool, key and client, in a period."""
    period = {name: request.query[name] for name in ("start", "end") if request.query.get(name)}
    found = await request.call("get_audit_stats", **period)
    return Fragment("audit/summary.html", {"stats": found, "period": urlencode(period)})


async def integrity(request: PageRequest) -> WholePage:
    """Show the head of the log, and the last verification."""
    head = (await request.call("audit_head"))["head"] if request.may("audit_head") else None
    return WholePage("audit/integrity.html", say("Integrity"), {"head": head, "job": await _last(request)})


async def verify(request: PageRequest) -> Fragment:
    """Verify the log, as a job."""
    form = await request.form()
    try:
        job = await request.call("verify_audit_log", head=form.get("head", "").strip() or None)
    except BadArguments as error:
        return Fragment("audit/report.html", {"job": None, "problem": error.text(request.lang)}, status=422)
    return Fragment("audit/report.html", {"job": job, "problem": None})


async def report(request: PageRequest) -> Fragment:
    """Show the report of a verification."""
    job = await request.call("follow_job", job=request.path("job"), wait=0)
    return Fragment("audit/report.html", {"job": job, "problem": None})


async def _last(request: PageRequest) -> dict[str, Any] | None:
    """Return the newest verification that the hub remembers."""
    if not request.may("list_jobs"):
        return None
    rows = (await request.call("list_jobs", hub="this"))["results"]
    return next((row for row in rows if row["operation"] == "verify_audit_log"), None)


def _choices(request: PageRequest) -> dict[str, Any]:
    lang = request.lang
    return {
        name: [(code, label.render(lang)) for code, label in choices]
        for name, choices in (("periods", PERIODS), ("results", RESULTS), ("types", TYPES))
    }


ROUTES = (
    PageRoute("/audit", entries),
    PageRoute("/audit/summary", summary),
    PageRoute("/audit/integrity", integrity),
    PageRoute("/audit/integrity", verify, "POST"),
    PageRoute("/audit/integrity/{job}", report),
    PageRoute("/audit/{seq}", entry),
)
