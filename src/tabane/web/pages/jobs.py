"""Pages of jobs: those that run with their progress, those that ended, and one of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.messages import Message, filled, say
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, WholePage

MOST_RESULT = 100_000
"""Characters of a result that a page shows."""


class JobKind(NamedTuple):
    """What the jobs of an operation are called, and the page on which they are started again."""

    label: Message
    page: str = ""
    again: Message | None = None


_ADD = ("/documents/-/watched", say("Add files again"))
_MODELS = ("/models", say("Go to the models"))
_OTHER = JobKind(say("Other"))

KINDS: Mapping[str, JobKind] = {
    "import_posts": JobKind(say("Import of posts"), "/posts/import", say("Import again")),
    "open_posts": JobKind(say("Opening of the archive")),
    "embed": JobKind(say("Semantic indexing"), *_MODELS),
    "reembed": JobKind(say("Semantic indexing"), *_MODELS),
    "add_documents": JobKind(say("Files to documents"), *_ADD),
    "watch_documents": JobKind(say("Files to documents"), *_ADD),
    "import_chroma": JobKind(say("Files to documents")),
    "read_site": JobKind(say("Whole sites"), "/reader", say("Go to the reader")),
    "remember_site": JobKind(say("Whole sites"), "/reader", say("Go to the reader")),
    "pull_model": JobKind(say("Models"), *_MODELS),
    "use_model": JobKind(say("Models"), *_MODELS),
    "run_doctor": JobKind(say("Check-ups"), "/health", say("Check again")),
    "apply_fix": JobKind(say("Check-ups"), "/health", say("Check again")),
    "verify_audit_log": JobKind(say("Audit log"), "/audit/integrity", say("Verify again")),
    "set_up_assistants": JobKind(say("Assistants"), "/assistants", say("Go to the assistants")),
    "start_new_servers": JobKind(say("Servers"), "/servers", say("Go to the servers")),
}

STATES: Mapping[str, Message] = {
    "running": say("Running"),
    "done": say("Done"),
    "failed": say("Failed"),
    "interrupted": say("Interrupted"),
    "cancelled": say("Canceled"),
}


async def job_list(request: PageRequest) -> WholePage:
    """Show the jobs that run, and those that ended, the last one first."""
    found = await request.call("list_jobs")
    rows = [shown_job(job) for job in found["results"]]
    state, kind = request.query.get("state", ""), request.query.get("kind", "")
    kinds = {row["kind"].label.template: row["kind"].label for row in rows}
    of_kind = [row for row in rows if kind not in kinds or row["kind"].label.template == kind]
    shown = [row for row in of_kind if state not in STATES or row["status"] == state]
    ended = [row for row in shown if row["status"] != "running"]
    counts = Counter(row["status"] for row in of_kind)
    views = [(_url(code, kind), label, counts[code]) for code, label in STATES.items() if counts[code]]
    context = {
        "running": [row for row in shown if row["status"] == "running"],
        "ended": sorted(ended, key=lambda row: row["ended"], reverse=True),
        "count": len(rows),
        "problem": found.get("problem"),
        "states": [(_url("", kind), say("All jobs"), len(of_kind)), *views],
        "kinds": [(name, label) for name, label in sorted(kinds.items())],
        "state": state,
        "kind": kind,
        "url": _url(state, kind),
        # Jobs of other hubs send no events to this page, so it asks from time to time.
        "in_group": any("hub" in job for job in rows),
    }
    return WholePage("jobs/list.html", say("Jobs"), context, module="jobs")


def _url(state: str, kind: str) -> str:
    given = {name: value for name, value in {"state": state, "kind": kind}.items() if value}
    return f"/jobs?{urlencode(given)}" if given else "/jobs"


def shown_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job as the templates have it: with its kind, and its result in a sentence."""
    kind = KINDS.get(job["operation"], _OTHER)
    return {**job, "kind": kind, "said": _in_words(job["operation"], job.get("result"))}


OUTCOMES: Mapping[str, Message] = {
    "new": say("{count:,} new"),
    "changed": say("{count:,} changed"),
    "unchanged": say("{count:,} already there"),
    "removed": say("{count:,} removed"),
    "bad": say("{count:,} could not be read"),
}
"""Counts of a report, in words."""

_SITES = ("read_site", "remember_site")
_OF_SITES: Mapping[str, Message] = {
    "new": OUTCOMES["new"],
    "changed": OUTCOMES["changed"],
    "unchanged": say("{count:,} unchanged"),
    "failed": OUTCOMES["bad"],
}


def _in_words(operation: str, result: Any) -> list[Message]:
    """Return the result of a job in words; nothing if there is nothing to say."""
    if not isinstance(result, dict):
        return []
    if result.get("unchanged_files"):
        return [say("The files have not changed since the last import.")]
    if OUTCOMES.keys() <= result.keys():
        said = [filled(text, {"count": result[name]}) for name, text in OUTCOMES.items() if result[name]]
        return said or [say("nothing new")]
    if operation in _SITES:
        return [
            filled(text, {"count": count}) for name, text in _OF_SITES.items() if (count := result.get(name))
        ]
    if operation == "verify_audit_log":
        return [say("The log is intact.") if result.get("intact") else say("The log is not intact.")]
    if operation == "run_doctor" and {"fault", "warning"} <= result.keys():
        faults = say("{count} {count:fault|faults}", count=result["fault"])
        return [faults, say("{count} {count:warning|warnings}", count=result["warning"])]
    return []


async def job_page(request: PageRequest) -> WholePage:
    """Show one job."""
    job = shown_job(await job_state(request, request.path("job")))
    text = json.dumps(job.get("result"), ensure_ascii=False, indent=2)
    if len(text) > MOST_RESULT:
        text = text[:MOST_RESULT] + "\n…"
    site = job.get("result") if job["operation"] in _SITES else None
    context = {"job": job, "result_text": text, "site": site}
    return WholePage("jobs/job.html", say("Job"), context, module="jobs")


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
    PageRoute("/jobs", job_list),
    PageRoute("/jobs/{job}", job_page),
    PageRoute("/jobs/{job}/progress", progress),
    PageRoute("/jobs/{job}/cancel", cancel, "POST"),
)
