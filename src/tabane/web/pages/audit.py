"""Pages of the audit log: entries with facets, one entry, the log as a file, and its integrity."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tabane.errors import BadArguments, UnknownName
from tabane.messages import Message, say
from tabane.text.units import bytes_text
from tabane.web.operation_names import entry_name
from tabane.web.page import FileDownload, Fragment, PageRequest, PageRoute, WholePage
from tabane.web.rendering import milliseconds
from tabane.web.table_exports import collect_rows, export_format, table_file

PAGE = 50
"""Entries that are shown at once."""

FILTERS: Mapping[str, Message] = {
    "text": say("Text"),
    "action": say("What"),
    "tool": say("Tool"),
    "server": say("Server"),
    "result": say("Outcome"),
    "type": say("Kind"),
    "key": say("Who"),
    "client": say("Program"),
    "hub": say("Hub"),
    "start": say("From"),
    "end": say("Until"),
}
"""The filters of the address, and their names."""

PERIODS = (
    ("", say("all time")),
    ("1h", say("last hour")),
    ("24h", say("last 24 hours")),
    ("7d", say("last 7 days")),
    ("30d", say("last 30 days")),
)
EVERYTHING = "all"
"""The choice of a type with which look-ups are shown too."""

OUTCOMES: Mapping[str, tuple[Message, str]] = {
    "ok": (say("ok"), "ok"),
    "failed": (say("failed"), "bad"),
    "refused": (say("refused"), "warn"),
    "limited": (say("over a limit"), "warn"),
    "cancelled": (say("canceled"), ""),
}
"""The names of outcomes, and the color of each."""

RESULTS = (("", say("any outcome")), *((code, label) for code, (label, _) in OUTCOMES.items()))

KINDS: Mapping[str, Message] = {
    "call": say("Calls"),
    "access": say("sign-ins"),
    "admin": say("administration"),
    "audit": say("the log itself"),
}
TYPES = (("", say("without look-ups")), (EVERYTHING, say("any entry")), *KINDS.items())

FACES: Mapping[str, Message] = {
    "mcp": say("assistant"),
    "rpc": say("program"),
    "cli": say("command line"),
    "web": say("web page"),
}

SIGN_INS: Mapping[str, Message] = {
    "web": say("In a browser"),
    "key": say("The API key is unknown, was revoked, or has expired."),
    "token": say("The token is unknown."),
    "oauth": say("The access token was not accepted."),
}
"""How somebody signed in, or why they could not."""

FACETS = (
    ("result", "by_outcome", say("Outcome")),
    ("action", "by_name", say("Tools and events")),
    ("server", "by_server", say("Servers")),
    ("key", "by_key", say("Who")),
    ("client", "by_client", say("Programs")),
    ("type", "by_type", say("Kinds")),
)
"""Filters of a click, the counts that they are chosen from, and their titles."""

MOST_OF_FACET = 8

COLUMNS = (
    *("time", "name", "outcome", "reason", "label", "key", "person", "client", "server", "type", "face"),
    *("ms", "bytes", "saved", "count", "source", "session", "script", "approval", "hub", "seq", "arguments"),
)  # fmt: skip
"""Columns of the log as a file."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


async def entries(request: PageRequest) -> WholePage | Fragment | FileDownload:
    """Show entries that match the filters, newest first, or return them as a file."""
    given = _filters(request)
    wanted = _conditions(given)
    if format := export_format(request):
        rows, cut = await collect_rows(request, "query_audit_logs", part=1000, **wanted)
        return table_file(format, "audit", COLUMNS, rows, cut=cut)
    context: dict[str, Any] = {"given": {**dict.fromkeys(FILTERS, ""), **given}, "problem": None}
    try:
        found = await request.call(
            "query_audit_logs", limit=PAGE, cursor=request.query.get("cursor") or None, **wanted
        )
    except BadArguments as error:
        found = {"results": [], "total": 0, "exact": True, "next_cursor": None}
        context["problem"] = error.text(request.lang)
    query = urlencode(given)
    await _name_keys(request, found["results"])
    for row in found["results"]:
        row |= {"words": entry_name(row), "who": _who(row), "why": _why(row)}
    context |= {
        "rows": found["results"],
        "total": found["total"],
        "exact": found["exact"],
        "hidden": found.get("hidden"),
        "next": found["next_cursor"],
        "partly": found.get("problem"),
        "in_group": "hub" in given or any("hub" in row for row in found["results"]),
        "query": f"{query}&" if query else "",
        "here": f"/audit?{query}" if query else "/audit",
        "with_lookups": "/audit?" + urlencode({**given, "type": EVERYTHING}),
        "outcomes": OUTCOMES,
        "kinds": KINDS,
    }
    if request.query.get("cursor"):
        return Fragment("audit/rows.html", context)
    context |= {"chips": _chips(given), "verified": await _last_verification(request)}
    choices = {
        name: [(code, label.render(request.lang)) for code, label in codes]
        for name, codes in (("periods", PERIODS), ("results", RESULTS), ("types", TYPES))
    }
    return WholePage("audit/list.html", say("Audit log"), context | choices, module="audit")


async def _name_keys(request: PageRequest, rows: list[dict[str, Any]]) -> None:
    """Add the names of keys to entries that have only their ids, such as sign-ins."""
    unnamed = [row for row in rows if row.get("key", "").startswith("key:") and "label" not in row]
    if unnamed:
        names = await _key_names(request)
        for row in unnamed:
            row["label"] = names.get(row["key"], row["key"])


async def _key_names(request: PageRequest) -> dict[str, str]:
    """Return the names of keys by holder; none if the caller may not see them."""
    keys = await request.rows("keys_list", revoked=True, limit=1000)
    return {f"key:{key['id']}": key["name"] for key in keys}


def _filters(request: PageRequest) -> dict[str, str]:
    """Return the filters that are given."""
    return {name: value.strip() for name in FILTERS if (value := request.query.get(name, "")).strip()}


def _conditions(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the filters as parameters. Look-ups are hidden, unless one is named, as in `tabane audit`."""
    wanted: dict[str, Any] = {
        name: value for name, value in given.items() if (name, value) != ("type", EVERYTHING)
    }
    wanted["lookups"] = given.get("type") == EVERYTHING or "tool" in given or "action" in given
    return wanted


def _chips(given: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the filters as labels with a link that takes each away. A day is one label."""
    chips = []
    for name, value in given.items():
        rest = {other: kept for other, kept in given.items() if other != name}
        label: Message | str = FILTERS[name]
        text: Message | str = value
        if name == "start" and _DAY.fullmatch(value) and given.get("end") == value:
            label, rest = say("Day"), {other: kept for other, kept in rest.items() if other != "end"}
        elif name == "end" and _DAY.fullmatch(value) and given.get("start") == value:
            continue
        elif name == "start":
            text = dict(PERIODS).get(value, value)
        elif name == "result" and value in OUTCOMES:
            text = OUTCOMES[value][0]
        elif name == "type":
            text = dict(TYPES).get(value, value)
        elif name == "action":
            text = entry_name({"name": value})
        chips.append({"label": label, "text": text, "without": _address(rest)})
    return chips


def _address(given: Mapping[str, str]) -> str:
    return f"/audit?{urlencode(given)}" if given else "/audit"


async def _last_verification(request: PageRequest) -> dict[str, Any] | None:
    """Return the job of the last verification; None if there is none, or the caller may not see it."""
    jobs = await request.rows("list_jobs", hub="this")  # the newest is the first
    return next((job for job in jobs if job["operation"] == "verify_audit_log"), None)


async def summary(request: PageRequest) -> Fragment:
    """Show what the entries are, by outcome, name, server, key, program and day, each a link to a filter.

    A search for a text is not counted: the counts are those of the other filters.
    """
    given = _filters(request)
    counted = {name: value for name, value in _conditions(given).items() if name != "text"}
    stats, names, days = await asyncio.gather(
        request.call("get_audit_stats", **counted),
        _key_names(request),
        _days(request, given),
    )
    facets = []
    for filter, field, title in FACETS:
        rows = []
        for row in stats[field][:MOST_OF_FACET]:
            name, chosen = row["name"], given.get(filter) == row["name"]
            rest = {other: value for other, value in given.items() if other != filter}
            rows.append(
                {
                    "label": _facet_label(filter, name, names),
                    "count": row["count"],
                    "chosen": chosen,
                    "url": _address(rest if chosen else {**rest, filter: name}),
                }
            )
        if len(rows) > 1 or any(row["chosen"] for row in rows):
            facets.append({"title": title, "rows": rows})
    if len(days) > 1:
        facets.append({"title": say("Calls by day"), "rows": days})
    return Fragment("audit/summary.html", {"facets": facets, "without_text": "text" in given})


def _facet_label(filter: str, name: str, names: Mapping[str, str]) -> Message | str:
    if filter == "result" and name in OUTCOMES:
        return OUTCOMES[name][0]
    if filter == "type":
        return KINDS.get(name, name)
    if filter == "action":
        return entry_name({"name": name})
    return names.get(name, name)


async def _days(request: PageRequest, given: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the last days with calls, if all filters are those that usage is counted by."""
    if not request.may("get_usage_stats") or not given.keys() <= {"tool", "server", "key", "client"}:
        return []
    found = await request.call(
        "get_usage_stats", by="day", limit=MOST_OF_FACET, lookups="tool" in given, **given
    )
    return [
        {
            "label": row["day"],
            "count": row["calls"],
            "chosen": False,
            "url": _address({**given, "start": row["day"], "end": row["day"]}),
        }
        for row in found["results"]
    ]


async def entry(request: PageRequest) -> WholePage:
    """Show one entry: what happened in a sentence, the arguments by name, and everything else of it."""
    try:
        seq = int(request.path("seq"))
    except ValueError:
        raise UnknownName(say("There is no entry {seq}.", seq=request.path("seq"))) from None
    hub = request.query.get("hub") or None
    found = await request.call("query_audit_logs", seq=seq, limit=1, hub=hub)
    if not found["results"]:
        raise UnknownName(say("There is no entry {seq} in the audit log any more.", seq=seq))
    row = found["results"][0]
    await _name_keys(request, [row])
    arguments = row.get("arguments")
    text = arguments if isinstance(arguments, str) else _indented(arguments)
    named = [  # name, value as text, and whether that is JSON
        (name, value if isinstance(value, str) else _indented(value), not isinstance(value, str))
        for name, value in (arguments.items() if isinstance(arguments, dict) else ())
    ]
    context = {
        "entry": row,
        "why": _why(row),
        "title": entry_name(row) if "name" in row else say("Entry {seq}", seq=seq),
        "lead": _sentence(row),
        "named": named,
        "arguments": text if arguments is not None else None,
        "seq": seq,
        "of_hub": f"?{urlencode({'hub': hub})}" if hub else "",
        "outcomes": OUTCOMES,
        "kinds": KINDS,
        "faces": FACES,
    }
    return WholePage("audit/entry.html", say("Entry {seq}", seq=seq), context)


def _sentence(row: Mapping[str, Any]) -> Message:
    """Return who did what, and how it ended."""
    fields: dict[str, Any] = {"who": _who(row), "name": entry_name(row)}
    outcome, is_tool = row.get("outcome"), "server" in row
    if row["type"] != "call":
        failed = outcome in ("refused", "failed", "limited")
        return say("{who}: {name}, without success.", **fields) if failed else say("{who}: {name}", **fields)
    if outcome == "failed":
        if is_tool:
            return say("{who} called {name}. The call failed.", **fields)
        return say("{who}: {name}. It failed.", **fields)
    if outcome == "refused":
        if is_tool:
            return say("{who} asked for {name}. Tabane refused the call, and nothing was sent.", **fields)
        return say("{who}: {name}. Tabane refused it.", **fields)
    if outcome == "limited":
        if is_tool:
            return say("{who} asked for {name}. A limit was reached, and nothing was sent.", **fields)
        return say("{who}: {name}. A limit was reached.", **fields)
    if outcome == "cancelled":
        if is_tool:
            return say("{who} called {name}. The call was canceled before it ended.", **fields)
        return say("{who}: {name}. It was canceled before it ended.", **fields)
    return _success(row, fields)


def _who(row: Mapping[str, Any]) -> Message | str:
    """Return the person or key of an entry. Nobody is known at a sign-in that was refused."""
    who: str = row.get("person") or row.get("label") or row.get("key") or ""
    return who or (say("Unknown") if row["type"] == "access" else say("Tabane"))


def _why(row: Mapping[str, Any]) -> Message | str:
    """Return the reason of an entry, that of a sign-in in words; empty if there is none."""
    reason: str = row.get("reason", "")
    return SIGN_INS.get(reason, reason) if row["type"] == "access" else reason


def _success(row: Mapping[str, Any], fields: Mapping[str, Any]) -> Message:
    """Return who called what, how long it took and how much it returned, as far as that is known."""
    is_tool = "server" in row
    if "ms" not in row or "bytes" not in row:
        return say("{who} called {name}.", **fields) if is_tool else say("{who}: {name}", **fields)
    taken = {"took": milliseconds(row["ms"]), "size": bytes_text(row["bytes"])}
    if is_tool:
        return say("{who} called {name}. It took {took} and returned {size}.", **fields, **taken)
    return say("{who}: {name}. It took {took} and returned {size}.", **fields, **taken)


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


async def integrity(request: PageRequest) -> WholePage:
    """Show the head of the log, and the last verification."""
    head = (await request.call("audit_head"))["head"] if request.may("audit_head") else None
    context = {"head": head, "job": await _last_verification(request)}
    return WholePage("audit/integrity.html", say("Integrity"), context)


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


ROUTES = (
    PageRoute("/audit", entries),
    PageRoute("/audit/summary", summary),
    PageRoute("/audit/integrity", integrity),
    PageRoute("/audit/integrity", verify, "POST"),
    PageRoute("/audit/integrity/{job}", report),
    PageRoute("/audit/{seq}", entry),
)
