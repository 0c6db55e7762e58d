"""Documents: browse and search them, read one, write, delete, and drop files in."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from tabane.errors import BadArguments, Conflict, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.web.page import (
    FileDownload,
    Fragment,
    Json,
    PageAnswer,
    PageRequest,
    PageRoute,
    Redirect,
    WholePage,
)
from tabane.web.pages import watched_folders
from tabane.web.pages.document_calls import (
    HOME,
    asked,
    crumbs,
    document_url,
    list_url,
    token_estimate,
)
from tabane.web.pages.marked_passages import marked

LARGEST_FILE = 16_000_000
"""Bytes of a file that is dropped."""

LONGEST_EDIT = 300_000
"""Characters of a text that is edited here: a form may have 4 MB."""

_LISTED = 100
_FOUND = 30
_PART = 60_000  # characters of a document that are shown at once
_DOWNLOADED = 200_000  # characters of a document in one call


# -- lists ------------------------------------------------------------------------------------------


async def browse(request: PageRequest) -> WholePage | Fragment:
    """Show one level of documents, or what a search finds."""
    context = await _listed(request)
    if request.partial:
        name = "more" if request.query.get("cursor") else "list"
        return Fragment(f"documents/{name}.html", context)
    stats = await asked(request, "get_document_stats")
    context |= {"stats": stats, "tab": HOME, "largest": LARGEST_FILE}
    return WholePage("documents/browse.html", say("Documents"), context, module="documents")


async def _listed(request: PageRequest) -> dict[str, Any]:
    prefix, kind = request.query.get("prefix", ""), request.query.get("type", "")
    query = request.query.get("q", "").strip()
    context: dict[str, Any] = {
        "prefix": prefix, "type": kind, "q": query, "crumbs": crumbs(prefix), "here": prefix,
        "url": list_url(prefix, type=kind, q=query), "document_url": document_url, "list_url": list_url,
        "marked": marked,
    }  # fmt: skip
    if query:
        return context | await _found(request, query, prefix, kind)
    level = await asked(
        request, "list_document_folders",
        prefix=prefix or None, file_type=kind or None, limit=_LISTED, cursor=request.query.get("cursor"),
    )  # fmt: skip
    after = level["next_cursor"]
    return context | {
        "level": level, "hits": None, "warning": None,
        "next": list_url(prefix, type=kind, cursor=after) if after else None,
    }  # fmt: skip


async def _found(request: PageRequest, query: str, prefix: str, kind: str) -> dict[str, Any]:
    answer = await asked(
        request, "search_documents",
        query=query, top_k=_FOUND, file_type=kind or None, include_documents=False, marks=True,
        filters={"filepath": {"prefix": prefix}} if prefix else None,
    )  # fmt: skip
    return {
        "hits": answer["results"],
        "warning": answer.get("warning"),
        "level": None,
        "next": None,
        "most": _FOUND,
    }


async def statistics(request: PageRequest) -> WholePage:
    """Show how many documents there are, and of which types."""
    stats = await asked(request, "get_document_stats")
    most = max(stats["file_types"].values(), default=1)
    context = {"stats": stats, "most": most, "list_url": list_url, "tab": f"{HOME}/-/stats"}
    return WholePage("documents/stats.html", say("Statistics of documents"), context)


# -- one document -----------------------------------------------------------------------------------


async def document(request: PageRequest) -> PageAnswer:
    """Show a document, or its next part."""
    name = request.path("path")
    return await _document(request, name) if name else Redirect(HOME)


async def document_at(request: PageRequest) -> PageAnswer:
    """Show a document whose name cannot be a path."""
    return await _document(request, request.query.get("path", ""))


async def _document(request: PageRequest, name: str) -> WholePage | Fragment:
    try:
        part = await asked(
            request, "get_document", filepath=name, length=_PART, cursor=request.query.get("cursor")
        )
    except UnknownName:
        return _missing(name)
    text, about = part["document"], await _about(request, name)
    title = about["title"] or name.rstrip("/").rpartition("/")[2] or name
    context: dict[str, Any] = {
        "name": name, "part": part, "text": text,
        "next": _with_cursor(document_url(name), part["next_cursor"]),
        "rendered": await request.markdown(text, 2, part["start"], title) if _is_markdown(part) else None,
    }  # fmt: skip
    if request.query.get("cursor"):
        return Fragment("documents/part.html", context)
    context |= {
        "about": about, "crumbs": crumbs(name), "tokens": token_estimate(text), "title": title,
        "list_url": list_url, "is_page": name.startswith(("http://", "https://")),
    }  # fmt: skip
    return WholePage("documents/document.html", Message("{name}", name=title), context, module="documents")


def _is_markdown(part: Mapping[str, Any]) -> bool:
    return bool(part["kind"] == "markdown")


def _with_cursor(url: str, cursor: str | None) -> str | None:
    return f"{url}{'&' if '?' in url else '?'}cursor={cursor}" if cursor else None


def _missing(name: str) -> WholePage:
    context = {"name": name, "list_url": list_url, "crumbs": crumbs(name)}
    return WholePage("documents/missing.html", say("No such document"), context, status=404)


async def _about(request: PageRequest, name: str) -> dict[str, Any]:
    """Return what a list says of a document."""
    listed = await asked(request, "list_documents", prefix=name, limit=1)
    found = next((each for each in listed["documents"] if each["filepath"] == name), None)
    return found or {"title": None, "file_type": None, "updated_at": None, "metadata": {}, "chunks": 0}


async def download(request: PageRequest) -> FileDownload:
    """Return the text of a document as a file."""
    name = request.query.get("path", "")
    text = await _whole(request, name)
    file = name.rstrip("/").rpartition("/")[2] or "document"
    return FileDownload(text.encode(), "text/plain; charset=utf-8", file if "." in file else f"{file}.txt")


async def _whole(request: PageRequest, name: str) -> str:
    texts: list[str] = []
    cursor: str | None = None
    while True:
        part = await asked(request, "get_document", filepath=name, length=_DOWNLOADED, cursor=cursor)
        texts.append(part["document"])
        cursor = part["next_cursor"]
        if cursor is None:
            return "".join(texts)


async def delete(request: PageRequest) -> Redirect:
    """Delete a document."""
    name = (await request.form()).get("path", "")
    await asked(request, "delete_document", filepath=name)
    folder = name.rstrip("/").rpartition("/")
    return Redirect(list_url(folder[0] + folder[1]), say("{filepath} was deleted.", filepath=name))


# -- writing ----------------------------------------------------------------------------------------


async def new(request: PageRequest) -> WholePage:
    """Show an empty document."""
    return _editor(request.query.get("prefix", ""), "", is_new=True)


async def edit(request: PageRequest) -> WholePage:
    """Show a document to edit it."""
    name = request.query.get("path", "")
    try:
        first = await asked(request, "get_document", filepath=name, length=1)
    except UnknownName:
        return _missing(name)
    if first["length"] > LONGEST_EDIT:
        message = say(
            "The text is too long to edit it here ({length:,} {length:character|characters}; the limit is "
            "{limit:,}). Download it, edit the file, and drop it on the list of documents.",
            length=first["length"], limit=LONGEST_EDIT,
        )  # fmt: skip
        raise BadArguments(message)
    text = await _whole(request, name)
    return _editor(name, text, replaces=first["hash"], file_type=first["metadata"].get("file_type") or "")


def _editor(name: str, text: str, **more: Any) -> WholePage:
    title = say("New document") if more.get("is_new") else say("Edit {filepath}", filepath=name)
    return WholePage("documents/edit.html", title, _form(name, text, **more), module="documents")


def _form(
    name: str,
    text: str,
    *,
    is_new: bool = False,
    replaces: str = "",
    file_type: str = "",
    error: TabaneError | None = None,
    lang: str = "en",
) -> dict[str, Any]:
    message = error.message if error is not None else None
    changed = isinstance(error, Conflict)
    return {
        "name": name, "text": text, "is_new": is_new, "replaces": replaces, "file_type": file_type,
        "problem": message, "changed": changed, "document_url": document_url, "crumbs": crumbs(name),
        "back": list_url(name[: name.rfind("/") + 1]) if is_new else document_url(name),
    }  # fmt: skip


async def save(request: PageRequest) -> Redirect | Fragment:
    """Store what was written, unless somebody else changed the document meanwhile."""
    form = await request.form()
    name, text, is_new = form.get("path", "").strip(), form.get("text", ""), form.get("new") == "1"
    replaces, file_type = form.get("replaces", ""), form.get("file_type", "")
    forced = form.get("force") == "1"
    try:
        kept = {} if is_new else (await _about(request, name))["metadata"]
        await asked(
            request, "put_document", filepath=name, text=text, file_type=file_type or None,
            metadata=kept or None, replaces=None if forced else replaces,
        )  # fmt: skip
    except (BadArguments, Conflict) as error:
        context = _form(name, text, is_new=is_new, replaces=replaces, file_type=file_type, error=error)
        return Fragment("documents/form.html", context, status=422)
    return Redirect(document_url(name), say("{filepath} is saved.", filepath=name))


async def version(request: PageRequest) -> Json:
    """Return the hash of a document; empty if there is none."""
    try:
        found = await asked(request, "get_document", filepath=request.query.get("path", ""), length=1)
    except UnknownName:
        return Json({"hash": ""})
    return Json({"hash": found["hash"]})


async def preview(request: PageRequest) -> Fragment:
    """Show what was written so far as it will be shown."""
    text = (await request.form()).get("text", "")
    return Fragment("documents/preview.html", {"rendered": await request.markdown(text[:LONGEST_EDIT])})


async def upload(request: PageRequest) -> Json:
    """Store a file that was dropped. Its bytes are the body."""
    data = await request.body(LARGEST_FILE)
    name = request.query.get("path", "")
    content = (await asyncio.to_thread(base64.b64encode, data)).decode()
    answer = await asked(request, "put_upload", filepath=name, content=content)
    details: Mapping[str, Any] = answer["details"]
    state = "unchanged" if details["unchanged"] else "replaced" if details["updated"] else "added"
    return Json({"url": document_url(details["filepath"]), "state": state, "chunks": details["chunks"]})


ROUTES = (
    PageRoute(HOME, browse),
    PageRoute(f"{HOME}/-/stats", statistics),
    PageRoute(f"{HOME}/-/at", document_at),
    PageRoute(f"{HOME}/-/download", download),
    PageRoute(f"{HOME}/-/delete", delete, method="POST"),
    PageRoute(f"{HOME}/-/new", new),
    PageRoute(f"{HOME}/-/edit", edit),
    PageRoute(f"{HOME}/-/save", save, method="POST"),
    PageRoute(f"{HOME}/-/version", version),
    PageRoute(f"{HOME}/-/preview", preview, method="POST"),
    PageRoute(f"{HOME}/-/upload", upload, method="POST"),
    *watched_folders.ROUTES,
    PageRoute(f"{HOME}/{{path:path}}", document),
)
