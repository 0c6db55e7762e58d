"""Watched folders: their state, and what is being added."""

from __future__ import annotations

import time
from typing import Any

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.document_calls import HOME, list_url

_RECENT = 900.0  # seconds for which a failure is shown
_JOBS = ("watch_documents", "add_documents", "import_chroma")


async def watched(request: PageRequest) -> WholePage | Fragment:
    """Show the folders that are watched, and what is being added."""
    context = {
        "folders": (await request.call("list_watched"))["results"],
        "jobs": await _jobs(request),
        "list_url": list_url, "tab": f"{HOME}/-/watched", "form": {}, "problem": None,
    }  # fmt: skip
    if request.partial:
        return Fragment("documents/watched_list.html", context)
    return WholePage("documents/watched.html", say("Watched folders"), context, module="documents")


async def _jobs(request: PageRequest) -> list[dict[str, Any]]:
    """Return the jobs that add files: those that run, and those that failed a short time ago."""
    if not request.may("list_jobs"):
        return []
    found = (await request.call("list_jobs", hub="this"))["results"]
    since = time.time() - _RECENT
    return [job for job in found if job["operation"] in _JOBS and job.get("ended", since) >= since]


async def watch(request: PageRequest) -> Fragment | Redirect:
    """Begin to watch a folder, or add it once."""
    form = await request.form()
    path = form.get("path", "").strip()
    given: dict[str, Any] = {
        "id_prefix": form.get("id_prefix", "").strip() or None,
        "relative": True if form.get("relative") else None,
        "ignore": [line.strip() for line in form.get("ignore", "").splitlines() if line.strip()] or None,
    }
    try:
        if form.get("watch"):
            await request.call("watch_documents", path=path, **given)
        else:
            await request.call("add_documents", paths=[path], **given)
    except BadArguments as error:
        context = {"form": form, "problem": error.message}
        return Fragment("documents/watch_form.html", context, status=422)
    return Redirect(f"{HOME}/-/watched", say("The files of {path} are being added.", path=path))


async def unwatch(request: PageRequest) -> Notice:
    """Stop watching a folder."""
    form = await request.form()
    removed = await request.call(
        "unwatch_documents", path=form.get("path", ""), remove=True if form.get("remove") else None
    )
    message = say("{path} is no longer watched.", path=removed["path"])
    return Notice(message, events=("documents",))


ROUTES = (
    PageRoute(f"{HOME}/-/watched", watched),
    PageRoute(f"{HOME}/-/watched", watch, method="POST"),
    PageRoute(f"{HOME}/-/unwatch", unwatch, method="POST"),
)
