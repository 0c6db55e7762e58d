"""Pages of what happens: activity, audit log, usage and jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from tabane.errors import BadArguments, UnknownName
from tabane.messages import Message, say
from tabane.web.page import Fragment, Json, Notice, PageRequest, PageRoute, WholePage

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
    found = await _list_calls(request, filters)
    context = {
        **_call_rows(found),
        "filters": filters,
        "names": [server["name"] for server in await request.rows("list_servers")],
        "window": WINDOW,
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
    found = await request.call("show_live_call", number=_read_number(request.path("number")))
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
    context = {
        "call": found,
        "steps": steps,
        "total": total,
        "texts": [_indent_json(text) for text in texts if isinstance(text, str)],
        "outcomes": OUTCOMES,
        "faces": FACES,
        "credentials": [_credential_message(each) for each in found["credentials"]],
    }
    return Fragment("activity/call.html", context)


async def _list_calls(request: PageRequest, filters: dict[str, str]) -> dict[str, Any]:
    given = {name: value or None for name, value in filters.items()}
    found: dict[str, Any] = await request.call("list_live_calls", limit=SHOWN, **given)
    return found


def _call_rows(found: dict[str, Any]) -> dict[str, Any]:
    return {"calls": found["results"], "found": found, "outcomes": OUTCOMES, "faces": FACES}


def _filters(request: PageRequest) -> dict[str, str]:
    """Return the filters; "" is none. An unknown outcome is ignored."""
    given = {name: request.query.get(name, "").strip() for name in ("tool", "server", "client", "outcome")}
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


PAGE = 50
"""Entries that are shown at once."""

AUDIT_FILTERS = ("text", "tool", "key", "client", "server", "hub", "type", "result", "start", "end")

PERIODS = (
    ("1h", say("last hour")),
    ("24h", say("last 24 hours")),
    ("7d", say("last 7 days")),
    ("30d", say("last 30 days")),
    ("", say("all time")),
)
EVERYTHING = "all"
"""The choice of a type with which look-ups are shown too."""

RESULTS = (
    ("", say("any result")),
    ("ok", say("successful")),
    ("failed", say("failed")),
    ("refused", say("refused")),
    ("limited", say("over a limit")),
    ("cancelled", say("canceled")),
)
TYPES = (
    ("", say("without look-ups")),
    (EVERYTHING, say("any entry")),
    ("call", say("calls")),
    ("access", say("sign-ins")),
    ("admin", say("administration")),
    ("audit", say("the log itself")),
)


async def entries(request: PageRequest) -> WholePage | Fragment:
    """Show entries that match the filters, newest first."""
    given = {name: value.strip() for name in AUDIT_FILTERS if (value := request.query.get(name, "")).strip()}
    context: dict[str, Any] = {"given": {**dict.fromkeys(AUDIT_FILTERS, ""), **given}, "problem": None}
    wanted = {name: value for name, value in given.items() if (name, value) != ("type", EVERYTHING)}
    lookups = given.get("type") == EVERYTHING or "tool" in given
    try:
        found = await request.call(
            "query_audit_logs",
            **wanted,
            limit=PAGE,
            cursor=request.query.get("cursor") or None,
            lookups=lookups,
        )
    except BadArguments as error:
        found = {"results": [], "total": 0, "exact": True, "next_cursor": None}
        context["problem"] = error.text(request.lang)
    query = urlencode(given)
    context |= {
        "rows": found["results"],
        "total": found["total"],
        "exact": found["exact"],
        "hidden": found.get("hidden"),
        "next": found["next_cursor"],
        "partly": found.get("problem"),
        "in_group": "hub" in given or any("hub" in row for row in found["results"]),
        "query": f"{query}&" if query else "",
        "filtered": bool(given),
    }
    if request.query.get("cursor"):
        return Fragment("audit/rows.html", context)
    return WholePage("audit/list.html", say("Audit log"), context | _filter_choices(request), module="audit")


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
    jobs = await request.rows("list_jobs", hub="this")  # the newest is the first
    job = next((job for job in jobs if job["operation"] == "verify_audit_log"), None)
    return WholePage("audit/integrity.html", say("Integrity"), {"head": head, "job": job})


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


def _filter_choices(request: PageRequest) -> dict[str, Any]:
    lang = request.lang
    return {
        name: [(code, label.render(lang)) for code, label in choices]
        for name, choices in (("periods", PERIODS), ("results", RESULTS), ("types", TYPES))
    }


MOST_DAYS = 1000
"""Days of a chart."""

GROUPS = (
    ("tool", say("Tools")),
    ("server", say("Servers")),
    ("key", say("Keys")),
    ("client", say("Programs")),
)
RANGES = (("7d", say("7 days")), ("30d", say("30 days")), ("90d", say("90 days")), ("365d", say("a year")))
USAGE_FILTERS = ("tool", "server", "key", "client")


async def usage(request: PageRequest) -> WholePage | Fragment:
    """Show the usage of a period: its sum, a chart by day, and a table."""
    query = request.query
    by = query.get("by", "tool")
    by = by if by in dict(GROUPS) else "tool"
    given = {name: value for name in USAGE_FILTERS if (value := query.get(name, "").strip())}
    period = {name: value for name in ("start", "end") if (value := query.get(name, "").strip())}
    period = period or {"start": _range_start("30d")}
    everything = {"all": "1"} if query.get("all") == "1" else {}
    lookups = bool(everything) or "tool" in given
    context: dict[str, Any] = {"by": by, "given": given, "period": period, "problem": None}
    try:
        table = await request.call(
            "get_usage_stats",
            by=by, limit=PAGE, cursor=query.get("cursor") or None, lookups=lookups, **period, **given,
        )  # fmt: skip
    except BadArguments as error:
        if "start" not in query:
            raise
        context["problem"] = error.text(request.lang)
        period = {"start": _range_start("30d")}
        table = await request.call("get_usage_stats", by=by, limit=PAGE, lookups=lookups, **period, **given)
    context |= {
        "table": table,
        "next": table["next_cursor"],
        "query": urlencode({**period, **given, **everything, "by": by}),
    }
    if query.get("cursor"):
        return Fragment("usage/rows.html", context)
    days = await request.call(
        "get_usage_stats", by="day", limit=MOST_DAYS, lookups=lookups, **period, **given
    )
    context |= _views(request, {**period, **given, **everything}, by) | {
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


def _range_start(range: str) -> str:
    """Return the beginning of a range of whole days, which includes today."""
    return f"{int(range.removesuffix('d')) - 1}d"


def _views(request: PageRequest, chosen: dict[str, str], by: str) -> dict[str, Any]:
    """Return the links to other ranges and groups."""
    lang = request.lang
    filters = {name: value for name, value in chosen.items() if name in (*USAGE_FILTERS, "all")}

    def url(**more: str) -> str:
        return "/usage?" + urlencode(more)

    return {
        "ranges": [
            (
                url(start=_range_start(code), by=by, **filters),
                label.render(lang),
                chosen.get("start") == _range_start(code),
            )
            for code, label in RANGES
        ],
        "views": [(url(**{**chosen, "by": code}), label.render(lang), None) for code, label in GROUPS],
        "here": url(**{**chosen, "by": by}),
        "unfiltered": url(
            **{name: value for name, value in chosen.items() if name not in USAGE_FILTERS}, by=by
        ),
    }


MOST_RESULT = 100_000
"""Characters of a result that a page shows."""


async def job_list(request: PageRequest) -> WholePage:
    """Show the jobs that run, and the last ones that ended."""
    found = await request.call("list_jobs")
    rows = found["results"]
    running = [job for job in rows if job["status"] == "running"]
    ended = [job for job in rows if job["status"] != "running"]
    shown = {"running": running, "ended": ended, "problem": found.get("problem")}
    # Jobs of other hubs send no events to this page, so it asks from time to time.
    return WholePage("jobs/list.html", say("Jobs"), {**shown, "in_group": any("hub" in job for job in rows)})


async def job_page(request: PageRequest) -> WholePage:
    """Show one job."""
    job = await job_state(request, request.path("job"))
    text = json.dumps(job.get("result"), ensure_ascii=False, indent=2)
    if len(text) > MOST_RESULT:
        text = text[:MOST_RESULT] + "\n…"
    return WholePage("jobs/job.html", say("Job"), {"job": job, "result_text": text})


async def progress(request: PageRequest) -> Fragment:
    """Show how far a job is. ``then`` is the URL that is loaded in its place when it is over."""
    job = await job_state(request, request.path("job"))
    then = request.query.get("then", "")
    is_ours = then.startswith("/") and not then.startswith(("//", "/\\"))
    return Fragment("jobs/progress.html", {"job": job, "then": then if is_ours else ""})


async def cancel(request: PageRequest) -> Notice:
    """Stop a job."""
    job = await request.call("cancel_job", job=request.path("job"))
    return Notice(say("{title} was canceled.", title=job["title"]), events=("jobs",))


async def job_state(request: PageRequest, job: str) -> dict[str, Any]:
    """Return a job as it is now. Raises UnknownName."""
    found: dict[str, Any] = await request.call("follow_job", job=job, wait=0)
    return found


ROUTES = (
    PageRoute("/activity", activity),
    PageRoute("/activity/rows", rows),
    PageRoute("/activity/seconds", seconds),
    PageRoute("/activity/calls/{number}", call),
    PageRoute("/audit", entries),
    PageRoute("/audit/summary", summary),
    PageRoute("/audit/integrity", integrity),
    PageRoute("/audit/integrity", verify, "POST"),
    PageRoute("/audit/integrity/{job}", report),
    PageRoute("/audit/{seq}", entry),
    PageRoute("/usage", usage),
    PageRoute("/usage/advice", advice),
    PageRoute("/jobs", job_list),
    PageRoute("/jobs/{job}", job_page),
    PageRoute("/jobs/{job}/progress", progress),
    PageRoute("/jobs/{job}/cancel", cancel, "POST"),
)
