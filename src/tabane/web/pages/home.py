"""Home: one search over everything, what waits for a person, what happens now, and what to do first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.messages.server_states import SERVER_STATES, state_of_row
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, WholePage
from tabane.web.pages.activity import OUTCOMES
from tabane.web.pages.approvals import letters
from tabane.web.pages.assistants import MODE_NAMES
from tabane.web.pages.changes import waiting
from tabane.web.pages.documents import recent_documents, recent_pages
from tabane.web.pages.inbox import MOST_ITEMS, inbox_items
from tabane.web.pages.posts import TextPart, cut, latest_posts, no_rows, on_this_day, text_parts
from tabane.web.pages.questions import open_questions
from tabane.web.pages.search import hit_url

FOUND = 24
"""Results of all kinds together."""

LEAST_PART, MOST_NAMED = 2, 6
"""Characters from which on the names of tools are searched for what is typed, and tools found by it."""

MOST_TEXT = 240
"""Characters of a passage that are shown."""

LEAST_CALLS, OFTEN, MOST_FAILING = 3, 0.5, 3
"""Calls of a tool, the part of them that failed, from which on it is named, and tools that are."""

MOST_CHANGES = 3
"""Changed definitions that are listed. The page of changes has all."""

CALLS, MORE_CALLS, LOOKED_AT = 8, 12, 60
"""The latest calls that are listed, those if little waits, and those among which they are looked for."""

MINUTES = 15
"""Minutes of the chart of calls."""

MOST_JOBS, MOST_ASSISTANTS, MOST_EARLIER, MOST_RECENT = 4, 6, 3, 4
"""Rows of each part of the day."""

KINDS: Mapping[str, tuple[Message, str]] = {
    "tools": (say("Tools"), "tools"),
    "posts": (say("Posts"), "posts"),
    "documents": (say("Documents"), "documents"),
    "pages": (say("Pages"), "reader"),
    "docs": (say("Manual"), "info"),
}
"""Groups of results in their order, and the icon of each."""

JOB_UNITS: Mapping[str, Message] = {
    "import_posts": say("posts"),
    "open_posts": say("posts"),
    "add_documents": say("files"),
    "import_chroma": say("documents"),
    "verify_audit_log": say("entries"),
    "set_up_assistants": say("servers"),
    "start_new_servers": say("servers"),
}
"""What the numbers of a job count. Those of others are shown as a part of the whole."""

BYTE_JOBS = frozenset({"pull_model"})

ARCHIVES: tuple[Literal["posts", "documents", "pages"], ...] = ("posts", "documents", "pages")

STEPS = ("assistant", "posts", "page", "server")
"""The first steps, in their order."""


# -- the page --------------------------------------------------------------------------------------


async def home(request: PageRequest) -> WholePage:
    """Show the page. Slow parts are loaded after it."""
    status, servers = await asyncio.gather(_status(request), _servers(request))
    context = {
        **await _inbox_context(request, status, servers),
        **await _running_context(request, status),
        **_server_counts(status, servers),
        "steps": await _first_steps(request, status, servers),
    }
    return WholePage("home/home.html", say("Home"), context, module="home")


async def inbox(request: PageRequest) -> Fragment:
    """Return what waits for a person now."""
    status, servers = await asyncio.gather(_status(request), _servers(request))
    return Fragment("home/inbox.html", await _inbox_context(request, status, servers))


async def running(request: PageRequest) -> Fragment:
    """Return the jobs, and the assistants that are connected."""
    return Fragment("home/running.html", await _running_context(request, await _status(request)))


async def server_counts(request: PageRequest) -> Fragment:
    """Return how many servers there are, by state."""
    status, servers = await asyncio.gather(_status(request), _servers(request))
    return Fragment("home/servers.html", _server_counts(status, servers))


async def step(request: PageRequest) -> Fragment:
    """Return one of the first steps as it is now; nothing if it is done."""
    status, servers = await asyncio.gather(_status(request), _servers(request))
    name = request.query.get("name", "")
    left = [name] if name in await _first_steps(request, status, servers) else []
    return Fragment("home/steps.html", {"steps": left})


async def found_assistants(request: PageRequest) -> Fragment:
    """Return the assistants of this computer, to connect one: their files are read, so it comes later."""
    found = await request.call("list_assistants")
    rows = [row for row in found["assistants"] if row["path"]]
    return Fragment("home/assistants.html", {"rows": rows[:MOST_ASSISTANTS]})


async def today(request: PageRequest) -> Fragment:
    """Return the calls and the tokens saved today, and the tools that failed often."""
    day = datetime.now(UTC).astimezone().date().isoformat()
    by_server, by_tool = await asyncio.gather(
        *(
            _call_or_none(request, "get_usage_stats", start=day, by=by, limit=1000)
            for by in ("server", "tool")
        )
    )
    rows = by_server["results"] if by_server else []
    used = [row for row in rows if row["server"]]
    failing = [
        row
        for row in (by_tool["results"] if by_tool else [])
        if row["server"] and row["calls"] >= LEAST_CALLS and row["failed"] >= OFTEN * row["calls"]
    ]
    failing.sort(key=lambda row: row["failed"], reverse=True)
    context = {
        "known": by_server is not None,
        "calls": sum(row["calls"] for row in used),
        "failed": sum(row["failed"] for row in used),
        "saved": sum(row["saved"] for row in rows),
        "failing": failing[:MOST_FAILING],
    }
    return Fragment("home/today.html", context)


async def renew(request: PageRequest) -> Notice:
    """Let a key that expires soon be valid for longer."""
    row = await request.call("keys_update", key=request.query.get("key", ""), expires="90d")
    return Notice(say("The key {name!n} is valid for 90 more days.", name=row["name"]), events=("keys",))


async def project(request: PageRequest) -> Fragment:
    """Show which servers the files of a project would run, with a button that trusts them."""
    found = await request.call("show_project", folder=request.query.get("folder", ""))
    return Fragment("home/project.html", {"found": found})


async def trust(request: PageRequest) -> Notice:
    """Trust the files of a project as they were shown."""
    folder, version = request.query.get("folder", ""), request.query.get("version", "")
    found = await request.call("trust_project", folder=folder, version=version)
    if found["problem"]:
        return Notice(Message("{why}", why=found["problem"]), kind="error", events=("servers",))
    message = say(
        "{count} {count:server is|servers are} used by assistants that work in this project.",
        count=found["servers"],
    )
    return Notice(message, events=("servers",))


# -- live calls --------------------------------------------------------------------------------------


class Minute(NamedTuple):
    """A bar of the chart: when it begins, its calls and failures; None if it was not recorded."""

    at: int
    calls: int | None
    failed: int


async def calls(request: PageRequest) -> Fragment:
    """Return the latest calls, and the calls of each minute."""
    listed, figures = await asyncio.gather(
        request.call("list_live_calls", limit=LOOKED_AT),
        _call_or_none(request, "get_activity", seconds=MINUTES * 60),
    )
    rows = [row for row in listed["results"] if row["server"] or row["face"] == "mcp"]
    minutes = minutes_of(figures) if figures else []
    context = {
        "calls": rows[: MORE_CALLS if request.query.get("rows") == "12" else CALLS],
        "outcomes": OUTCOMES,
        "minutes": minutes,
        "most": max((minute.calls or 0 for minute in minutes), default=0),
        "sum": sum(minute.calls or 0 for minute in minutes),
        "failures": sum(minute.failed for minute in minutes),
    }
    return Fragment("home/calls.html", context)


def minutes_of(figures: Mapping[str, Any]) -> list[Minute]:
    """Return the minutes of some seconds, the oldest first: whole ones, and the one that has begun last."""
    start, since = int(figures["from"]), float(figures["since"])
    end = start + len(figures["calls"])
    first = end - end % 60 - (MINUTES - 1) * 60
    found = []
    for at in range(first, first + MINUTES * 60, 60):
        inside = slice(max(0, at - start), max(0, min(end, at + 60) - start))
        recorded = at + 60 > since
        failed = sum(figures["failed"][inside]) + sum(figures["refused"][inside])
        found.append(Minute(at, sum(figures["calls"][inside]) if recorded else None, failed))
    return found


# -- the archive -------------------------------------------------------------------------------------


async def archive(request: PageRequest) -> Fragment:
    """Return this day in earlier years, and the latest posts, documents and pages.

    A store that the hub has not opened stays closed, until the person asks for it: it costs memory.
    """
    everything = request.query.get("open") == "all"
    ready = {source: everything or request.has_open(source) for source in ARCHIVES}
    day, latest, files, read = await asyncio.gather(
        _or_nothing(on_this_day(request) if ready["posts"] else no_rows()),
        _or_nothing(latest_posts(request, MOST_RECENT) if ready["posts"] else no_rows()),
        _or_nothing(recent_documents(request, MOST_RECENT) if ready["documents"] else no_rows()),
        _or_nothing(recent_pages(request, MOST_RECENT) if ready["pages"] else no_rows()),
    )
    closed = [source for source in ARCHIVES if not ready[source] and request.holds(source)]
    context = {"day": day[:MOST_EARLIER], "latest": latest, "documents": files, "pages": read}
    return Fragment("home/archive.html", context | {"closed": closed, "kinds": KINDS})


async def _or_nothing(work: Any) -> list[Any]:
    """Return the rows of a part of the page; none if it fails, so that the other parts are shown."""
    try:
        return list(await work)
    except TabaneError:
        return []


# -- search ------------------------------------------------------------------------------------------


async def search(request: PageRequest) -> Fragment:
    """Return the hits of a search over everything, in groups."""
    query = request.query.get("q", "").strip()[:2000]
    if not query:
        return Fragment("home/results.html", {"query": "", "groups": [], "count": 0, "warning": ""})
    found, named = await request.while_connected(_ask(request, query))
    known = {hit["key"] for hit in named}
    hits = [*named, *(hit for hit in found["results"] if hit["kind"] != "tools" or hit["key"] not in known)]
    groups = [
        {
            "label": label,
            "icon": icon,
            "hits": [
                {
                    "title": hit["title"] or hit["key"],
                    "url": hit_url(hit["kind"], str(hit["key"])),
                    "parts": _text_start(hit["text"], hit["marks"]),
                }
                for hit in hits
                if hit["kind"] == kind
            ],
        }
        for kind, (label, icon) in KINDS.items()
    ]
    context = {
        "query": query,
        "groups": [group for group in groups if group["hits"]],
        "count": len(hits),
        "warning": found.get("warning", ""),
    }
    return Fragment("home/results.html", context)


async def _ask(request: PageRequest, query: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what a search over everything finds, and the tools of that name."""
    found, named = await asyncio.gather(
        request.call("search_everything", query=query, top_k=FOUND, keywords="typing"),
        _tools_named(request, query),
    )
    return found, named


async def _tools_named(request: PageRequest, query: str) -> list[dict[str, Any]]:
    """Return the tools whose names contain a word that is being typed, as results."""
    if " " in query or len(query) < LEAST_PART:
        return []
    found = await _call_or_none(request, "search_tools", query=query[:100], match="partial", limit=MOST_NAMED)
    return [
        {"kind": "tools", "key": row["name"], "title": row["name"], "text": row["signature"], "marks": []}
        for row in (found["results"] if found else [])
    ]


def _text_start(text: str, marks: Sequence[Sequence[int]]) -> list[TextPart]:
    """Return the beginning of a text in parts, with what matched in it."""
    if not marks:
        text = " ".join(text.split())
    beginning, inside, was_cut = cut(text, marks, MOST_TEXT)
    return [*text_parts(beginning, inside, links=False), *([TextPart("…")] if was_cut else [])]


# -- what runs -------------------------------------------------------------------------------------


async def _status(request: PageRequest) -> dict[str, Any] | None:
    found: dict[str, Any] | None = await _call_or_none(request, "hub_status")
    return found


async def _servers(request: PageRequest) -> list[dict[str, Any]] | None:
    found = await _call_or_none(request, "list_servers")
    return found["results"] if found else None


async def _inbox_context(
    request: PageRequest, status: Mapping[str, Any] | None, servers: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    changed = [row["definition_changes"] for row in servers or ()]
    definitions = sum(max(each["waiting"], each["held"]) for each in changed)
    # Nothing here may open the archive or the keys of a hub that has none: they cost memory.
    keys, calls, asked, changes = await asyncio.gather(
        _call_or_none(request, "keys_list") if status and status.get("keys") else no_rows(),
        _or_nothing(letters(request)),
        _or_nothing(open_questions(request)),
        _or_nothing(waiting(request, MOST_CHANGES) if definitions else no_rows()),
    )
    items = inbox_items(request, status or {}, servers or (), keys["results"] if keys else ())
    return {
        "letters": calls[:MOST_ITEMS],
        "more_letters": max(0, len(calls) - MOST_ITEMS),
        "questions": asked[:MOST_ITEMS],
        "more_questions": max(0, len(asked) - MOST_ITEMS),
        "changes": changes,
        "more_changes": max(0, definitions - len(changes)),
        "items": items[:MOST_ITEMS],
        "more_items": max(0, len(items) - MOST_ITEMS),
    }


def _server_counts(
    status: Mapping[str, Any] | None, servers: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    counted = Counter(state_of_row(row) for row in servers or ())
    return {
        "servers": None if servers is None else len(servers),
        "counted": [(words, counted[state]) for state, words in SERVER_STATES.items() if counted[state]],
        "tools": (status or {}).get("tools", 0),
    }


async def _running_context(request: PageRequest, status: Mapping[str, Any] | None) -> dict[str, Any]:
    jobs = await _call_or_none(request, "list_jobs")
    shown = [
        {**job, "unit": JOB_UNITS.get(job["operation"]), "bytes": job["operation"] in BYTE_JOBS}
        for job in (jobs["results"] if jobs else [])
        if _is_of_today(job)
    ]
    shown.sort(key=lambda job: job["status"] != "running")
    return {
        "jobs": shown[:MOST_JOBS],
        "more_jobs": max(0, len(shown) - MOST_JOBS),
        "assistants": (status or {}).get("clients", [])[:MOST_ASSISTANTS],
        "sessions": (status or {}).get("sessions"),
        "modes": MODE_NAMES,
    }


def _is_of_today(job: Mapping[str, Any]) -> bool:
    """Return whether a job runs or ended today. Of those that nobody began, success is no news."""
    if job["status"] == "running":
        return True
    if job["status"] == "done" and not job["owner"]:
        return False
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    return float(job.get("ended", 0)) >= midnight


async def _call_or_none(request: PageRequest, operation: str, **params: Any) -> Any:
    """Return the result of an operation; None if it is not allowed, or fails."""
    if not request.may(operation):
        return None
    try:
        return await request.call(operation, **params)
    except TabaneError:
        return None


async def _first_steps(
    request: PageRequest, status: Mapping[str, Any] | None, servers: Sequence[Any] | None
) -> list[str]:
    """Return the first steps that are not done yet, for somebody new who may do them."""
    if status is None or (servers and status.get("tools")):
        return []
    posts, pages = await asyncio.gather(_has_any(request, "posts"), _has_any(request, "pages"))
    open_steps = {
        "assistant": not status.get("sessions") and request.may("set_up_assistants"),
        "posts": not posts and request.may("import_posts"),
        "page": not pages and request.may("read_url_content"),
        "server": not servers and request.may("add_server"),
    }
    # Who only searches an archive does not need the rest.
    return [] if posts and pages else [name for name in STEPS if open_steps[name]]


async def _has_any(request: PageRequest, source: Literal["posts", "pages"]) -> bool:
    """Return whether anything of a source is stored. A store that is not open is not opened to look."""
    if not request.holds(source) or not request.has_open(source):
        return request.holds(source)
    found = await _call_or_none(request, f"list_{source}", limit=1)
    return found is None or bool(found["results"])


ROUTES = (
    PageRoute("/", home),
    PageRoute("/home/inbox", inbox),
    PageRoute("/home/running", running),
    PageRoute("/home/servers", server_counts),
    PageRoute("/home/step", step),
    PageRoute("/home/assistants", found_assistants),
    PageRoute("/home/today", today),
    PageRoute("/home/calls", calls),
    PageRoute("/home/archive", archive),
    PageRoute("/home/search", search),
    PageRoute("/home/project", project),
    PageRoute("/home/project", trust, "POST"),
    PageRoute("/home/renew", renew, "POST"),
)
