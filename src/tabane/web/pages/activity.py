"""Pages of what happens: activity, usage, jobs and health."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from tabane.errors import BadArguments, UnknownName
from tabane.messages import Message, say
from tabane.messages.server_states import words_of_state
from tabane.web.page import Fragment, Json, Notice, PageRequest, PageRoute, WholePage

SHOWN = 60
"""Calls that the page begins with."""

WINDOW = 300
"""Seconds of the charts, if nothing else is chosen."""

OUTCOMES: Mapping[str, tuple[Message, str]] = {
    "running": (say("in progress"), "accent"),
    "ok": (say("success"), "ok"),
    "failed": (say("failed"), "bad"),
    "refused": (say("refused"), "warn"),
    "limited": (say("over a limit"), "warn"),
    "cancelled": (say("canceled"), ""),
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

FILTERS: Mapping[str, Message] = {
    "tool": say("Tool"),
    "server": say("Server"),
    "client": say("Assistant"),
    "outcome": say("Outcome"),
}
"""The filters of the address, and their names."""


async def activity(request: PageRequest) -> WholePage:
    """Show the last calls, and what the charts begin with."""
    filters = _filters(request)
    found, servers = await asyncio.gather(_list_calls(request, filters), request.rows("list_servers"))
    context = {
        **_call_rows(found),
        "filters": filters,
        "filter_names": FILTERS,
        "names": sorted(server["name"] for server in servers),
        "clients": sorted({call["client"] or call["label"] for call in found["results"]} - {""}),
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
    try:
        found = await request.call("show_live_call", number=_read_number(request.path("number")))
    except UnknownName:
        raise UnknownName(say("This call is no longer kept here. It is in the audit log.")) from None
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
    given: dict[str, Any] = {name: filters[name] or None for name in FILTERS}
    found: dict[str, Any] = await request.call(
        "list_live_calls", limit=SHOWN, lookups=bool(filters["own"]), **given
    )
    return found


def _call_rows(found: dict[str, Any]) -> dict[str, Any]:
    return {"calls": found["results"], "found": found, "outcomes": OUTCOMES, "faces": FACES}


def _filters(request: PageRequest) -> dict[str, str]:
    """Return the filters; "" is none. An unknown outcome is ignored. ``own``: look-ups of Tabane too."""
    given = {name: request.query.get(name, "").strip() for name in (*FILTERS, "own")}
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


FRESH = 900
"""Seconds for which the result of a check-up is shown before the page checks again."""

LEVELS = ("fault", "warning", "note", "ok")


async def health(request: PageRequest) -> WholePage:
    """Show the hub, and the last check-up; begin one if there is none, or it is old."""
    status = await request.call("hub_status") if request.may("hub_status") else None
    job = None
    if request.may("run_doctor"):
        for row in await request.rows("list_jobs", hub="this"):  # the newest is the first
            if row["operation"] == "apply_fix":
                break  # check-ups before a fix do not count
            if row["operation"] == "run_doctor":
                job = row
                break
        ended = job is not None and job["status"] != "running"
        fresh = job is not None and job["status"] == "done" and time.time() - job.get("ended", 0) <= FRESH
        if job is None or (ended and not fresh):
            job = await request.call("run_doctor", quick=True)
    return WholePage("health/health.html", say("Health"), {"status": status, **_checkup_context(job)})


async def check(request: PageRequest) -> Fragment:
    """Begin a check-up."""
    form = await request.form()
    job = await request.call("run_doctor", quick=form.get("full") != "1")
    return Fragment("health/checkup.html", _checkup_context(job))


async def checkup(request: PageRequest) -> Fragment:
    """Show a check-up, or how far it is."""
    job = await request.call("follow_job", job=request.path("job"), wait=0)
    return Fragment("health/checkup.html", _checkup_context(job))


async def fix(request: PageRequest) -> Fragment:
    """Apply one fix, or all that are safe."""
    form = await request.form()
    job = await request.call("apply_fix", fix=form.get("fix", ""))
    return Fragment("health/fixing.html", {"job": job})


async def fixed(request: PageRequest) -> Fragment:
    """Show what was fixed, and check again."""
    job = await request.call("follow_job", job=request.path("job"), wait=0)
    if job["status"] == "running":
        return Fragment("health/fixing.html", {"job": job})
    again = await request.call("run_doctor", quick=True)
    return Fragment("health/checkup.html", {**_checkup_context(again), "fixes": job})


async def servers(request: PageRequest) -> Fragment:
    """Ask each running server whether it answers."""
    found = await request.call("health_check")
    rows = [{**row, "healthy": found.get(name) is True} for name, row in found.get("details", {}).items()]
    rows.sort(key=lambda row: (row["healthy"], row["name"]))
    return Fragment("health/servers.html", {"rows": rows, "state_words": words_of_state})


async def restart(request: PageRequest) -> Notice:
    """Restart the hub. The page continues with the next one."""
    await request.call("restart_hub")
    return Notice(say("The hub is restarting. This page continues when it is back."))


def _checkup_context(job: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the template needs: the sections with the worst findings first."""
    context: dict[str, Any] = {"job": job, "sections": [], "counts": {}, "fixable": 0, "fixes": None}
    if job is None or job["status"] != "done":
        return context
    result = job["result"]
    for section in result["sections"]:
        ordered = sorted(section["findings"], key=lambda finding: LEVELS.index(finding["level"]))
        if ordered:
            context["sections"].append({**section, "findings": ordered, "worst": ordered[0]["level"]})
    context["counts"] = {level: result[level] for level in LEVELS}
    context["fixable"] = sum(bool(each["fix"]) for one in result["sections"] for each in one["findings"])
    return context


ROUTES = (
    PageRoute("/activity", activity),
    PageRoute("/activity/rows", rows),
    PageRoute("/activity/seconds", seconds),
    PageRoute("/activity/calls/{number}", call),
    PageRoute("/jobs", job_list),
    PageRoute("/jobs/{job}", job_page),
    PageRoute("/jobs/{job}/progress", progress),
    PageRoute("/jobs/{job}/cancel", cancel, "POST"),
    PageRoute("/health", health),
    PageRoute("/health/check", check, "POST"),
    PageRoute("/health/check/{job}", checkup),
    PageRoute("/health/fix", fix, "POST"),
    PageRoute("/health/fix/{job}", fixed),
    PageRoute("/health/servers", servers),
    PageRoute("/health/restart", restart, "POST"),
)
