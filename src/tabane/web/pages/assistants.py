"""The page of assistants: who is connected, what a setup would do to each, its progress, and the way back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from tabane.errors import TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.web.page import Fragment, Notice, PageAnswer, PageRequest, PageRoute, WholePage

STATES: Mapping[str, tuple[Message, str]] = {
    "connected": (say("Set up"), "ok"),
    "outdated": (say("Needs an update"), "warn"),
    "absent": (say("Not set up"), ""),
    "by_hand": (say("By hand"), ""),
    "problem": (say("Cannot be changed"), "bad"),
}
"""States of an assistant in words, and their color."""

PLACES = ("outdated", "absent", "problem", "by_hand", "connected")
"""The order of the assistants: first those with something to do."""

CONNECTIONS: Mapping[str, Message] = {
    "stdio": say("on this computer"),
    "http": say("HTTP"),
    "websocket": say("WebSocket"),
}
"""How a client is connected."""

MODE_NAMES: Mapping[str, Message] = {
    "search": say("finds tools"),
    "light": say("short descriptions"),
    "full": say("all tools"),
    "code": say("scripts"),
}
"""A mode in two words."""

MODES: Mapping[str, Message] = {
    "full": say("It gets all tools, because it searches them itself."),
    "search": say("It gets a few tools that find the others, so that its context stays small."),
    "light": say("It gets short descriptions of all tools."),
    "code": say("It writes scripts that call the tools."),
}
"""What a mode means for an assistant."""

ANSWER = "answer-"
"""Begins the names of fields with values that entries ask their user for."""

OUTCOMES: Mapping[str, Message] = {
    "restored": say("It will be exactly as it was before."),
    "merged": say("What Tabane wrote is taken out. Your own changes since then stay."),
    "gone": say("The file was deleted after the setup. It is not created again."),
    "failed": say("It cannot be undone now:"),
}
"""What an undo will do to a file."""


async def assistant_list(request: PageRequest) -> WholePage:
    """Show who is connected, the assistants of this machine, and the others."""
    # nobody who may not see jobs gets any
    found, jobs = await asyncio.gather(_found(request), request.rows("list_jobs"))
    running = (each for each in jobs if each["status"] == "running")
    job = next((each for each in running if each["operation"] == "set_up_assistants"), None)
    return WholePage("assistants/list.html", say("Assistants"), found | {"job": job}, "assistants")


async def assistant_rows(request: PageRequest) -> Fragment:
    """Return the assistants of this machine as they are now."""
    return Fragment("assistants/rows.html", await _found(request))


async def sessions(request: PageRequest) -> Fragment:
    """Return who is connected now, with the calls of today."""
    found = await request.call("list_assistants")
    return Fragment("assistants/sessions.html", await _session_context(request, found["sessions"]))


async def disconnect(request: PageRequest) -> Notice:
    """End the connection of an assistant."""
    try:
        row = await request.call("disconnect_assistant", session=request.query.get("session", ""))
    except UnknownName as error:
        return Notice(error.message, events=("assistants",))
    name = row["client"] or say("A program without a name").render(request.lang)
    return Notice(say("{name} is disconnected.", name=name), events=("assistants",))


async def preview(request: PageRequest) -> Fragment:
    """Show exactly what a setup would change, with the choices of it and a button that does it."""
    names = request.query.get("names", "").split()
    found = await request.call("preview_setup", assistants=names)
    rows = found["assistants"]
    asked = {name: server["name"] for server in found["imports"] for name in server["missing"]}
    context = {
        **_changes_context(found),
        "names": " ".join(row["name"] for row in rows if row["changes"] or len(rows) == 1),
        "title": ", ".join(row["title"] for row in rows if row["changes"] or len(rows) == 1),
        "one": rows[0] if len(rows) == 1 and not rows[0]["problem"] else None,
        "modes": MODES,
        "mode_names": MODE_NAMES,
        "asked": asked,
    }
    return Fragment("assistants/preview.html", context)


async def changes(request: PageRequest) -> Fragment:
    """Return what a setup would change with the choices that a person has made."""
    found = await request.call("preview_setup", **_choices(await request.form()))
    return Fragment("assistants/changes.html", _changes_context(found))


async def connect(request: PageRequest) -> PageAnswer:
    """Begin the setup that was shown."""
    form = await request.form()
    version = form.get("version") or None
    job = await request.call("set_up_assistants", version=version, **_choices(form))
    return Fragment("assistants/progress.html", {"job": job})


def _choices(form: Mapping[str, str]) -> dict[str, Any]:
    """Return what a person has chosen in a preview, as parameters of a setup."""
    answers = {
        name.removeprefix(ANSWER): value for name, value in form.items() if name.startswith(ANSWER) and value
    }
    names, mode = form.get("names", "").split(), form.get("mode") or None
    return {"assistants": names, "mode": mode, "secrets": answers or None}


def _changes_context(found: Mapping[str, Any]) -> dict[str, Any]:
    chosen = [row for row in found["assistants"] if row["changes"]]
    return {
        "found": found,
        "chosen": chosen,
        "stays": [(row["title"], each) for row in chosen for each in row["stays"]],
    }


async def progress(request: PageRequest) -> Fragment:
    """Return the state of a setup."""
    job: dict[str, Any] | None = None
    with suppress(UnknownName):  # the hub forgets jobs that are over
        job = await request.call("follow_job", job=request.query.get("job", ""), wait=0)
    if job is not None and job["operation"] != "set_up_assistants":
        job = None
    over = job is not None and job["status"] != "running"
    return Fragment("assistants/progress.html", {"job": job}, events=("assistants",) if over else ())


async def undo_preview(request: PageRequest) -> Fragment:
    """Show what an undo will do to the file of an assistant."""
    name = request.query.get("name", "")
    found = await request.call("list_assistants")
    row = next((row for row in found["assistants"] if row["name"] == name), None)
    if row is None:
        raise UnknownName(say("There is no assistant {name} on this computer.", name=name))
    context = {"name": name, "title": row["title"], "rows": row["undo"], "outcomes": OUTCOMES}
    return Fragment("assistants/undo.html", context)


async def undo(request: PageRequest) -> Fragment:
    """Undo the setup of an assistant, and show what was done."""
    name = request.query.get("name", "")
    found = await request.call("undo_setup", assistants=[name])
    return Fragment("assistants/undone.html", {"rows": found["results"]}, events=("assistants",))


async def _found(request: PageRequest) -> dict[str, Any]:
    found = await request.call("list_assistants")
    status = await request.call("hub_status") if request.may("hub_status") else {}
    names = [_letters_of(row["client"]) for row in found["sessions"]]
    rows = [
        row
        | {
            "label": STATES[row["state"]][0],
            "kind": STATES[row["state"]][1],
            "here": any(_letters_of(row["name"]) in name for name in names),
        }
        for row in found["assistants"]
    ]
    rows.sort(key=lambda row: PLACES.index(row["state"]))
    pending = [row["name"] for row in rows if row["changes"]]
    return {
        "rows": rows,
        "others": found["others"],
        "lines": found["lines"],
        "modes": MODES,
        "mode_names": MODE_NAMES,
        "pending": pending,
        "everyone": urlencode({"names": " ".join(pending)}),
        "address": "" if is_loopback(status.get("http") or "") else status["http"],
        **await _session_context(request, found["sessions"]),
    }


def _letters_of(name: str) -> str:
    """Return the letters and digits of a name: clients write theirs with any separators."""
    return "".join(char for char in name.casefold() if char.isalnum())


def is_loopback(url: str) -> bool:
    """Return whether only programs of this computer reach a URL, or there is none."""
    host = urlsplit(url).hostname or ""
    return host in ("", "localhost", "::1") or host.startswith("127.")


async def _session_context(request: PageRequest, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sessions, and how many calls each client made today, if the person may see usage.

    Usage is counted by the name of a client. Of several sessions with one name, each has its own calls.
    """
    calls: Counter[str] = Counter()
    if rows and request.may("get_usage_stats"):
        with suppress(TabaneError):
            used = await request.call("get_usage_stats", start="today", by="client", limit=1000)
            for row in used["results"]:
                calls[row["client"]] += row["calls"]
    named = Counter(row["client"] for row in rows)
    shown = [
        row
        | {
            "today": max(calls[row["client"]], row["calls"]) if named[row["client"]] == 1 else row["calls"],
            "connection": CONNECTIONS.get(row["transport"], Message(row["transport"])),
        }
        for row in rows
    ]
    return {"sessions": shown, "mode_names": MODE_NAMES}


ROUTES = (
    PageRoute("/assistants", assistant_list),
    PageRoute("/assistants/-/rows", assistant_rows),
    PageRoute("/assistants/-/sessions", sessions),
    PageRoute("/assistants/-/preview", preview),
    PageRoute("/assistants/-/progress", progress),
    PageRoute("/assistants/-/undo", undo_preview),
    PageRoute("/assistants/-/changes", changes, "POST"),
    PageRoute("/assistants/-/connect", connect, "POST"),
    PageRoute("/assistants/-/disconnect", disconnect, "POST"),
    PageRoute("/assistants/-/undo", undo, "POST"),
)
