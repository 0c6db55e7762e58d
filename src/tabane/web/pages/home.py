"""Home: one search over everything, what runs, what needs attention, and what to do first."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.messages.server_states import SERVER_STATES, state_of_row, words_of_state
from tabane.web.page import Fragment, PageRequest, PageRoute, WholePage
from tabane.web.pages.posts import TextPart, cut, text_parts
from tabane.web.pages.search import hit_url

FOUND = 24
"""Results of all kinds together."""

LEAST_PART, MOST_NAMED = 2, 6
"""Characters from which on the names of tools are searched for what is typed, and tools found by it."""

MOST_TEXT = 240
"""Characters of a passage that are shown."""

MOST_LISTED = 8
"""Servers, and things that need attention, that are listed. The pages behind have all."""

EXPIRING = 7 * 86_400
"""Seconds before a key expires that it is named."""

LEAST_CALLS, OFTEN = 3, 0.5
"""Calls of a tool, and the part of them that failed, from which on the tool is named."""

KINDS: Mapping[str, tuple[Message, str]] = {
    "tools": (say("Tools"), "tools"),
    "posts": (say("Posts"), "posts"),
    "documents": (say("Documents"), "documents"),
    "pages": (say("Pages"), "reader"),
    "docs": (say("Manual"), "info"),
}
"""Groups of results in their order, and the icon of each."""


class Attention(NamedTuple):
    """Something that a person should look at, and the page to do so. ``detail`` is more about it."""

    text: Message
    url: str
    kind: str = "warn"
    detail: str = ""


# -- the page --------------------------------------------------------------------------------------


async def home(request: PageRequest) -> WholePage:
    """Show the page. Slow parts are loaded after it."""
    return WholePage("home/home.html", say("Home"), await _home_state(request), module="home")


async def state(request: PageRequest) -> Fragment:
    """Return what runs and what needs attention, for a page that is open."""
    return Fragment("home/state.html", await _home_state(request))


async def today(request: PageRequest) -> Fragment:
    """Return the calls and the tokens saved today."""
    found = await _call_or_none(request, "get_usage_stats", start=_today(), by="server", limit=1000)
    rows = found["results"] if found else []
    used = [row for row in rows if row["server"]]
    status = await _call_or_none(request, "hub_status")
    return Fragment(
        "home/today.html",
        {
            "known": found is not None,
            "calls": sum(row["calls"] for row in used),
            "failed": sum(row["failed"] for row in used),
            "saved": sum(row["saved"] for row in rows),
            "servers": len(used),
            "sessions": status.get("sessions") if status else None,
            "tools": status.get("tools", 0) if status else 0,
        },
    )


async def failing(request: PageRequest) -> Fragment:
    """Return the tools of servers that failed often today."""
    found = await _call_or_none(request, "get_usage_stats", start=_today(), by="tool", limit=1000)
    rows = [
        row
        for row in (found["results"] if found else [])
        if row["server"] and row["calls"] >= LEAST_CALLS and row["failed"] >= OFTEN * row["calls"]
    ]
    rows.sort(key=lambda row: row["failed"], reverse=True)
    return Fragment("home/failing.html", {"rows": rows[:MOST_LISTED]})


async def search(request: PageRequest) -> Fragment:
    """Return the hits of a search over everything, in groups."""
    query = request.query.get("q", "").strip()[:2000]
    if not query:
        return Fragment("home/results.html", {"query": "", "groups": [], "count": 0, "warning": ""})
    found, named = await asyncio.gather(
        request.call("search_everything", query=query, top_k=FOUND, keywords="typing"),
        _tools_named(request, query),
    )
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


_STATE = ("hub_status", "list_servers", "list_jobs", "list_questions", "list_approvals")
"""The operations that say what runs and what needs attention."""


async def _home_state(request: PageRequest) -> dict[str, Any]:
    status, servers, jobs, questions, approvals = await asyncio.gather(
        *(_call_or_none(request, name) for name in _STATE)
    )
    # Nothing here may open the archive or the keys of a hub that has none: they cost memory.
    keys = await _call_or_none(request, "keys_list") if status and status.get("keys") else None
    # Servers that need attention come first, then those that run.
    order = {state: place for place, state in enumerate(SERVER_STATES)}
    rows = [row | {"shown": state_of_row(row)} for row in (servers["results"] if servers else [])]
    rows.sort(key=lambda row: (row["healthy"], order.get(row["shown"], 0), row["name"]))
    running = [job for job in (jobs["results"] if jobs else []) if job["status"] == "running"]
    counted = Counter(row["shown"] for row in rows)
    attention = [
        *_open_approvals(approvals["results"] if approvals else []),
        *_open_questions(questions["results"] if questions else []),
        *_hub_problems(status or {}),
        *_stopped_servers(rows),
        *_changed_definitions(rows),
        *_expiring_keys(keys["results"] if keys else []),
    ]
    attention.sort(key=lambda one: ("bad", "warn", "").index(one.kind))
    return {
        "status": status,
        "servers": servers is not None,
        "rows": rows[:MOST_LISTED],
        "more": max(0, len(rows) - MOST_LISTED),
        "counted": [(words, counted[state]) for state, words in SERVER_STATES.items() if counted[state]],
        "states": words_of_state,
        "jobs": running,
        "attention": attention[:MOST_LISTED],
        "more_attention": max(0, len(attention) - MOST_LISTED),
        "steps": _first_steps(request, status, servers),
    }


async def _call_or_none(request: PageRequest, operation: str, **params: Any) -> Any:
    """Return the result of an operation; None if it is not allowed, or fails."""
    if not request.may(operation):
        return None
    try:
        return await request.call(operation, **params)
    except TabaneError:
        return None


def _today() -> str:
    return datetime.now(UTC).astimezone().date().isoformat()


def _hub_problems(status: Mapping[str, Any]) -> list[Attention]:
    problems = []
    if status.get("problem"):
        text = say("The settings or the servers file have an error. The earlier ones are in force.")
        problems.append(Attention(text, "/settings", "bad", status["problem"]))
    engine = status.get("engine", {})
    if engine.get("state", "ok") != "ok":
        text = say("The database cannot be reached.")
        problems.append(Attention(text, "/health", "bad", engine["error"]))
    failed = [each for each in engine.get("replicas", ()) if each["state"] == "failed"]
    if failed:
        text = say("The local copy of the database fails. Searches go to the database.")
        problems.append(Attention(text, "/health", "warn", failed[0]["error"]))
    if status.get("disk_problem"):
        problems.append(Attention(say("The disk is full."), "/health", "bad", status["disk_problem"]))
    if status.get("audit_problem"):
        text = say("Calls are not recorded in the audit log.")
        problems.append(Attention(text, "/audit", "bad", status["audit_problem"]))
    if status.get("keys_problem"):
        problems.append(Attention(say("API keys cannot be read."), "/keys", "bad", status["keys_problem"]))
    if status.get("model_problem"):
        text = say("There is no embedding model. Search finds keywords only.")
        problems.append(Attention(text, "/settings", "warn", status["model_problem"]))
    elif status.get("model") == "none":
        problems.append(
            Attention(
                say("The embedding model is switched off. Search finds keywords only."), "/settings", ""
            )
        )
    return problems + [
        Attention(
            say(
                "The project {folder} defines {count} MCP {count:server|servers} that you have not trusted.",
                folder=offer["folder"],
                count=offer["servers"],
            ),
            "/servers",
            "",
            f"tabane projects trust {shlex.quote(offer['folder'])}",
        )
        for offer in status.get("projects_offered", ())
        if offer["servers"]
    ]


def _stopped_servers(rows: Sequence[Mapping[str, Any]]) -> list[Attention]:
    return [
        Attention(
            say("{server!n} does not run.", server=row["name"]),
            f"/servers/{quote(row['name'], safe='')}",
            "bad",
            row["error"] or "",
        )
        for row in rows
        if not row["healthy"] and row["state"] != "disabled"
    ]


def _changed_definitions(rows: Sequence[Mapping[str, Any]]) -> list[Attention]:
    changed = [row for row in rows if any(row["definition_changes"].values())]
    if not changed:
        return []
    waiting = sum(row["definition_changes"]["waiting"] for row in changed)
    held = sum(row["definition_changes"]["held"] for row in changed)
    suspicious = any(row["definition_changes"]["suspicious"] for row in changed)
    names = ", ".join(row["name"] for row in changed)
    if held and suspicious:
        text = say(
            "{count} {count:definition|definitions} of servers {count:looks|look} like an attack and "
            "{count:is|are} held back.",
            count=held,
        )
    elif held:
        text = say("{count} {count:definition|definitions} of servers {count:is|are} held back.", count=held)
    else:
        text = say("{count} {count:definition|definitions} of servers changed.", count=waiting)
    return [Attention(text, "/changes", "bad" if suspicious else "warn", names)]


def _open_questions(rows: Sequence[Mapping[str, Any]]) -> list[Attention]:
    if not rows:
        return []
    text = say(
        "{count} {count:question of a server waits|questions of servers wait} for an answer.", count=len(rows)
    )
    names = ", ".join(dict.fromkeys(row["server"] for row in rows))
    return [Attention(text, "/questions", "warn", names)]


def _open_approvals(rows: Sequence[Mapping[str, Any]]) -> list[Attention]:
    waiting = [row for row in rows if row["state"] == "open"]
    if not waiting:
        return []
    text = say("{count} {count:call waits|calls wait} for your approval.", count=len(waiting))
    names = ", ".join(dict.fromkeys(row["tool"] for row in waiting))
    return [Attention(text, "/approvals", "warn", names)]


def _expiring_keys(rows: Sequence[Mapping[str, Any]]) -> list[Attention]:
    expiring = []
    for key in rows:
        expires = key.get("expires")
        if isinstance(expires, str):
            try:
                expires = datetime.fromisoformat(expires.replace("Z", "+00:00")).timestamp()
            except ValueError:
                continue
        left = expires - time.time() if isinstance(expires, int | float) else 0
        if key.get("state", "active") == "active" and 0 < left < EXPIRING:
            days = max(1, round(left / 86_400))
            text = say("The key {name!n} expires in {days} {days:day|days}.", name=key["name"], days=days)
            expiring.append(Attention(text, "/keys"))
    return expiring


def _first_steps(request: PageRequest, status: Any, servers: Any) -> list[str]:
    """Return the first steps that are not done yet, for somebody new who may do them."""
    if status is None:
        return []
    steps = []
    if servers is not None and not servers["results"]:
        steps.append("server")
    if not status.get("sessions"):
        steps.append("assistant")
    if request.may("import_posts"):
        steps.append("posts")  # whether there are some is not asked: that opens the archive
    new = "server" in steps or status.get("tools") == 0
    return steps if new else []


ROUTES = (
    PageRoute("/", home),
    PageRoute("/home/state", state),
    PageRoute("/home/today", today),
    PageRoute("/home/failing", failing),
    PageRoute("/home/search", search),
)
