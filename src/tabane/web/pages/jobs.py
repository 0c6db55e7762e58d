"""Jobs: long work of the hub, with its progress, its result, and a way to stop it."""

from __future__ import annotations

import json
from typing import Any

from tabane.messages import say
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, WholePage

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
    return Fragment("jobs/progress.html", {"job": job, "then": _within(request.query.get("then", ""))})


async def cancel(request: PageRequest) -> Notice:
    """Stop a job."""
    job = await request.call("cancel_job", job=request.path("job"))
    return Notice(say("{title} was canceled.", title=job["title"]), events=("jobs",))


async def job_state(request: PageRequest, job: str) -> dict[str, Any]:
    """Return a job as it is now. Raises UnknownName."""
    found: dict[str, Any] = await request.call("follow_job", job=job, wait=0)
    return found


def _within(url: str) -> str:
    """Return the URL if it is a path of this hub, else nothing."""
    return url if url.startswith("/") and not url.startswith(("//", "/\\")) else ""


ROUTES = (
    PageRoute("/jobs", job_list),
    PageRoute("/jobs/{job}", job_page),
    PageRoute("/jobs/{job}/progress", progress),
    PageRoute("/jobs/{job}/cancel", cancel, "POST"),
)
