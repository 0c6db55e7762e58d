"""Embedding models: what is known of each, which is in use, and the change to another one."""

from __future__ import annotations

import asyncio
from typing import Any

from tabane.messages import say
from tabane.web.page import Fragment, PageRequest, PageRoute, WholePage

WORK = frozenset({"use_model", "reembed", "pull_model", "embed"})
"""Operations whose jobs change what search by meaning can find."""


async def model_list(request: PageRequest) -> WholePage:
    """Show all models, the one in use, and the jobs that work on them."""
    found, status, jobs = await asyncio.gather(
        request.call("list_models"), request.call("model_status"), _jobs(request)
    )
    return WholePage(
        "models/list.html",
        say("Models"),
        {"models": found["results"], "setting": found["model"], "status": status, "jobs": jobs},
    )


async def use(request: PageRequest) -> Fragment:
    """Change to a model. The answer shows how far the download is."""
    form = await request.form()
    job = await request.call("use_model", model=form.get("model", "").strip())
    return Fragment("models/change.html", _change(job), events=("jobs",))


async def change(request: PageRequest) -> Fragment:
    """Show a change, or how far it is."""
    job = await request.call("follow_job", job=request.path("job"), wait=0)
    ended = () if job["status"] == "running" else ("models",)
    return Fragment("models/change.html", _change(job), events=ended)


def _change(job: dict[str, Any]) -> dict[str, Any]:
    result = job.get("result") if job["status"] == "done" else None
    return {"job": job, "result": result, "error": (job.get("error") or {}).get("message", "")}


async def _jobs(request: PageRequest) -> list[dict[str, Any]]:
    """Return the jobs that embed or fetch now."""
    if not request.may("list_jobs"):
        return []
    rows = (await request.call("list_jobs", hub="this"))["results"]
    return [row for row in rows if row["status"] == "running" and row["operation"] in WORK]


ROUTES = (
    PageRoute("/models", model_list),
    PageRoute("/models/use", use, "POST"),
    PageRoute("/models/use/{job}", change),
)
