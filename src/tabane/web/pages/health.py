"""The page of health: the check-up with what is wrong first, its fixes, the hub, and the servers."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.messages import Message, say
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, WholePage
from tabane.web.pages.jobs import job_state
from tabane.web.pages.servers import server_row, server_url

FRESH = 900
"""Seconds for which the result of a check-up is shown before the page checks again."""

LEVELS = ("fault", "warning", "note", "ok")


class FindingAction(NamedTuple):
    """A button beside a finding: a link, or what is posted with ``post``. It needs that operation."""

    label: Message
    url: str
    operation: str
    post: bool = False


PLACES: Mapping[tuple[str, ...], FindingAction] = {
    ("setup",): FindingAction(say("Connect an assistant"), "/assistants", "list_assistants"),
    ("install",): FindingAction(say("Connect an assistant"), "/assistants", "list_assistants"),
    ("restart",): FindingAction(say("Restart the hub"), "/health/restart", "restart_hub", post=True),
    ("models",): FindingAction(say("See the models"), "/models", "model_status"),
    ("keys",): FindingAction(say("API keys"), "/keys", "keys_list"),
    ("jobs",): FindingAction(say("See the jobs"), "/jobs", "list_jobs"),
    ("audit",): FindingAction(say("Audit log"), "/audit", "query_audit_logs"),
    ("settings",): FindingAction(say("Settings"), "/settings", "hub_status"),
    ("docs", "watch"): FindingAction(say("Watched folders"), "/documents/-/watched", "list_watched"),
    ("servers", "changes"): FindingAction(say("Review"), "/changes", "list_definition_changes"),
}
"""The place of the page that does what a command does, by the first words of the command."""

OF_SERVER: Mapping[str, FindingAction] = {
    "login": FindingAction(say("Log in"), "", "list_servers"),
    "start": FindingAction(say("Start"), "/-/start", "start_upstream", post=True),
    "test": FindingAction(say("Show log"), "?view=log", "server_logs"),
    "logs": FindingAction(say("Show log"), "?view=log", "server_logs"),
    "override": FindingAction(say("Definition"), "?view=definition", "show_definition"),
    "restart": FindingAction(say("Restart"), "/-/restart", "restart_upstream", post=True),
    "sandbox": FindingAction(say("Edit"), "/-/edit", "change_server"),
}
"""The same for the commands ``tabane servers VERB NAME``, behind the URL of the server's page."""


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
        done = job if job is not None and job["status"] == "done" else None
        fresh = (
            done is not None
            and time.time() - done.get("ended", 0) <= FRESH
            and done["result"]["lang"] == request.lang
        )
        if job is None or (job["status"] != "running" and not fresh):
            job = await request.call("run_doctor", quick=True)
    return WholePage("health/health.html", say("Health"), {"status": status, **_checkup(request, job)})


async def check(request: PageRequest) -> Fragment:
    """Begin a check-up."""
    form = await request.form()
    job = await request.call("run_doctor", quick=form.get("full") != "1")
    return Fragment("health/checkup.html", _checkup(request, job))


async def checkup(request: PageRequest) -> Fragment:
    """Show a check-up, or how far it is."""
    job = await job_state(request, request.path("job"))
    return Fragment("health/checkup.html", _checkup(request, job))


async def fix(request: PageRequest) -> Fragment:
    """Apply one fix, or all that are safe."""
    form = await request.form()
    job = await request.call("apply_fix", fix=form.get("fix", ""))
    return Fragment("health/fixing.html", {"job": job})


async def fixed(request: PageRequest) -> Fragment:
    """Show what was fixed, and check again."""
    job = await job_state(request, request.path("job"))
    if job["status"] == "running":
        return Fragment("health/fixing.html", {"job": job})
    again = await request.call("run_doctor", quick=True)
    return Fragment("health/checkup.html", {**_checkup(request, again), "fixes": job})


async def servers(request: PageRequest) -> Fragment:
    """Ask each running server whether it answers. A disabled one need not; one may need a login."""
    found = await request.call("health_check")
    rows = []
    for row in await request.rows("list_servers"):
        asked = found.get("details", {}).get(row["name"])
        shown = server_row(row)
        shown["answers"] = asked is not None and found.get(row["name"]) is True and row["state"] == "ready"
        silent = asked is not None and found.get(row["name"]) is not True
        shown["silent"] = silent and row["state"] == "ready"
        if shown["silent"]:
            shown["problem"] = str(asked.get("error") or "").partition("\n")[0]
        rows.append(shown)
    rows.sort(key=lambda row: row["name"].casefold())
    wrong = [row for row in rows if row["silent"] or row["trouble"]]
    good = [row for row in rows if row not in wrong and row["answers"]]
    rest = [row for row in rows if row not in wrong and not row["answers"]]
    return Fragment("health/servers.html", {"wrong": wrong, "good": good, "rest": rest})


async def restart(request: PageRequest) -> Notice:
    """Restart the hub. The page continues with the next one."""
    await request.call("restart_hub")
    return Notice(say("The hub is restarting. This page continues when it is back."))


def _checkup(request: PageRequest, job: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the template needs: what is wrong first, then notes, and what is in order by section."""
    context: dict[str, Any] = {
        "job": job,
        "wrong": [],
        "notes": [],
        "good": [],
        "counts": {},
        "fixable": 0,
        "fixes": None,
    }
    if job is None or job["status"] != "done":
        return context
    result = job["result"]
    for section in result["sections"]:
        found = [{**finding, "section": section["title"]} for finding in section["findings"]]
        for finding in found:
            finding["action"] = _action(request, finding.get("command"))
        context["wrong"] += [finding for finding in found if finding["level"] in ("fault", "warning")]
        context["notes"] += [finding for finding in found if finding["level"] == "note"]
        if good := [finding for finding in found if finding["level"] == "ok"]:
            context["good"].append({"title": section["title"], "findings": good})
    context["wrong"].sort(key=lambda finding: LEVELS.index(finding["level"]))
    context["counts"] = {level: result[level] for level in LEVELS}
    context["fixable"] = sum(bool(finding["fix"]) for finding in context["wrong"] + context["notes"])
    return context


def _action(request: PageRequest, command: str | None) -> FindingAction | None:
    """Return the button that does what a command of the doctor's advice does; None if there is none."""
    try:
        words = shlex.split(command or "")[1:]
    except ValueError:
        return None
    action = PLACES.get(tuple(words[:1])) or PLACES.get(tuple(words[:2]))
    if words[:2] == ["servers", "diff"] and len(words) == 3:
        action = PLACES["servers", "changes"]
        action = action._replace(url=f"{action.url}?{urlencode({'server': words[2]})}")
    elif words[:1] == ["servers"] and len(words) >= 3 and words[1] in OF_SERVER:
        action = OF_SERVER[words[1]]
        action = action._replace(url=server_url(words[2]) + action.url)
    return action if action and request.may(action.operation) else None


ROUTES = (
    PageRoute("/health", health),
    PageRoute("/health/check", check, "POST"),
    PageRoute("/health/check/{job}", checkup),
    PageRoute("/health/fix", fix, "POST"),
    PageRoute("/health/fix/{job}", fixed),
    PageRoute("/health/servers", servers),
    PageRoute("/health/restart", restart, "POST"),
)
