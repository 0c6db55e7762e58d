"""Pages of the import of posts: the form, the progress of a job, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabane.errors import BadArguments, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.posts import running_imports

MOST_SHOWN = 100
"""Rows that could not be used."""

KINDS: Mapping[str, Message] = {
    "twilog.csv": say("posts (CSV)"),
    "x_archive": say("archive of X"),
    "results": say("results of a model"),
    "vectors of content": say("vectors of contents"),
    "vectors of reasoning": say("vectors of reasoning"),
    "vectors of summary": say("vectors of summaries"),
}

_FOLDERS = ("embeddings", "reasoning", "summary")
_FIELDS = ("files", *_FOLDERS, "report")


async def form(request: PageRequest) -> WholePage:
    """Show the form, and the job of the query or one that runs."""
    key = request.query.get("job", "")
    running = await running_imports(request)
    job = await _job(request, key) if key else next(iter(running), None)
    return _page(dict.fromkeys((*_FIELDS, "prune"), ""), {}, job, request)


def _page(
    values: Mapping[str, str],
    errors: Mapping[str, str],
    job: Mapping[str, Any] | None,
    request: PageRequest,
    status: int = 200,
) -> WholePage:
    context = {"values": values, "errors": errors, "allowed": request.may("import_posts"), **_shown(job)}
    return WholePage("posts/import.html", say("Import posts"), context, module="posts", status=status)


async def start(request: PageRequest) -> PageAnswer:
    """Start the import of the files in the form."""
    given = await request.form()
    sample = given.get("sample") == "true"
    values = {name: given.get(name, "").strip() for name in (*_FIELDS, "prune")}
    files = [path for line in values["files"].splitlines() if (path := _path(line))]
    folders = {name: _path(values[name]) or None for name in (*_FOLDERS, "report")}
    if not (sample or files or any(folders[name] for name in _FOLDERS)):
        return _form(values, {"files": say("Name at least one file or folder.").render(request.lang)})
    try:
        job = await request.call(
            "import_posts",
            files=files,
            prune=bool(values["prune"]) and not sample,
            sample=sample or None,
            **({} if sample else folders),
        )
    except BadArguments as error:
        return _form(values, {"files": error.text(request.lang)})
    return Redirect(f"/posts/import?job={job['job']}")


def _form(values: Mapping[str, str], errors: Mapping[str, str]) -> Fragment:
    return Fragment(
        "posts/import_form.html", {"values": values, "errors": errors, "allowed": True}, status=422
    )


def _path(text: str) -> str:
    """Return a path as it was typed or dropped: without quotes, and with ~ as the home of the hub's user."""
    text = text.strip().strip("'\"")
    if not text.startswith("~"):
        return text
    try:
        return str(Path(text).expanduser())
    except RuntimeError:  # ~somebody, who does not exist
        return text


async def progress(request: PageRequest) -> Fragment:
    """Return the state of a job."""
    job = await _job(request, request.query.get("job", ""))
    return Fragment("posts/import_progress.html", _shown(job))


async def cancel(request: PageRequest) -> Fragment:
    """Stop an import."""
    job = await request.call("cancel_job", job=request.query.get("job", ""))
    return Fragment("posts/import_progress.html", _shown(job))


async def _job(request: PageRequest, key: str) -> Mapping[str, Any] | None:
    """Return the state of a job; None if the hub does not know it (any more)."""
    try:
        found: Mapping[str, Any] = await request.call("follow_job", job=key, wait=0)
    except UnknownName:
        return None
    except TabaneError:
        if not key:
            return None
        raise
    return found if found["operation"] in ("import_posts", "open_posts") else None


def _shown(job: Mapping[str, Any] | None) -> dict[str, Any]:
    result = (job or {}).get("result") or {}
    bad = result.get("bad_rows", [])
    sources = [
        {
            **each,
            "name": Path(each["source"]).name or each["source"],
            "kind": KINDS.get(each["kind"], each["kind"]),
        }
        for each in result.get("sources", [])
    ]
    return {
        "job": job,
        "report": result if "sources" in result else None,
        "unchanged": bool(result.get("unchanged_files")),
        "sources": sources,
        "bad_rows": bad[:MOST_SHOWN],
        "more_bad": max(0, result.get("bad", 0) - MOST_SHOWN),
    }


ROUTES = (
    PageRoute("/posts/import", form),
    PageRoute("/posts/import", start, method="POST"),
    PageRoute("/posts/import/progress", progress),
    PageRoute("/posts/import/cancel", cancel, method="POST"),
)
