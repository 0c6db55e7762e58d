"""Health: the hub, its servers, what the doctor finds, and its fixes as buttons."""

from __future__ import annotations

import time
from typing import Any

from tabane.messages import say
from tabane.messages.server_states import words_of_state
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, WholePage

FRESH = 900
"""Seconds for which the result of a check-up is shown before the page checks again."""

LEVELS = ("fault", "warning", "note", "ok")


async def health(request: PageRequest) -> WholePage:
    """Show the hub, and the last check-up; begin one if there is none, or it is old."""
    status = await request.call("hub_status") if request.may("hub_status") else None
    job = await _last(request)
    if request.may("run_doctor") and (job is None or _old(job)):
        job = await request.call("run_doctor", quick=True)
    return WholePage("health/health.html", say("Health"), {"status": status, **_checkup(job)})


async def check(request: PageRequest) -> Fragment:
    """Begin a check-up."""
    form = await request.form()
    job = await request.call("run_doctor", quick=form.get("full") != "1")
    return Fragment("health/checkup.html", _checkup(job))


async def checkup(request: PageRequest) -> Fragment:
    """Show a check-up, or how far it is."""
    job = await request.call("follow_job", job=request.path("job"), wait=0)
    return Fragment("health/checkup.html", _checkup(job))


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
    return Fragment("health/checkup.html", {**_checkup(again), "fixes": job})


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


async def _last(request: PageRequest) -> dict[str, Any] | None:
    """Return the newest check-up that the hub remembers, with its result."""
    if not (request.may("list_jobs") and request.may("run_doctor")):
        return None
    rows = (await request.call("list_jobs", hub="this"))["results"]
    fixes = next((at for at, row in enumerate(rows) if row["operation"] == "apply_fix"), len(rows))
    return next((row for row in rows[:fixes] if row["operation"] == "run_doctor"), None)


def _old(job: dict[str, Any]) -> bool:
    return bool(job["status"] != "running") and (
        job["status"] != "done" or time.time() - job.get("ended", 0) > FRESH
    )


def _checkup(job: dict[str, Any] | None) -> dict[str, Any]:
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
    PageRoute("/health", health),
    PageRoute("/health/check", check, "POST"),
    PageRoute("/health/check/{job}", checkup),
    PageRoute("/health/fix", fix, "POST"),
    PageRoute("/health/fix/{job}", fixed),
    PageRoute("/health/servers", servers),
    PageRoute("/health/restart", restart, "POST"),
)
