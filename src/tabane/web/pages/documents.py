"""Pages of documents and of the reader: texts found, read, written and deleted; watched folders."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from markupsafe import Markup, escape

from tabane.errors import BadArguments, Conflict, HubError, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.web.page import (
    FileDownload,
    Fragment,
    Json,
    Notice,
    PageAnswer,
    PageRequest,
    PageRoute,
    Redirect,
    WholePage,
)
from tabane.web.table_exports import MOST_ROWS, Format, export_format, table_file

HOME = "/documents"

_KINDS: Mapping[str, type[TabaneError]] = {
    "ConflictError": Conflict,
    "NotFoundError": UnknownName,
    "ValidationError": BadArguments,
}


async def call_documents(request: PageRequest, operation: str, /, **params: Any) -> dict[str, Any]:
    """Return the answer of an operation on documents. Raises TabaneError if the answer is a failure."""
    answer: dict[str, Any] = await request.call(operation, **params)
    if answer.get("status") != "error":
        return answer
    # The text is in the language of the request already.
    message = Message(str(answer.get("message", "")).replace("{", "{{").replace("}", "}}"))
    raise _KINDS.get(str(answer.get("error_type")), HubError)(message)


def document_url(filepath: str) -> str:
    """Return the address of a document's page.

    A browser would change a path with dots as a part, and ``-`` is the folder of the other pages.
    """
    parts = filepath.split("/")
    if "." in parts or parts[0] == "-" or "\\" in filepath:
        return f"{HOME}/-/at?{urlencode({'path': filepath})}"
    return f"{HOME}/{quote(filepath, safe='/')}"


def list_url(prefix: str = "", **more: str | None) -> str:
    """Return the address of a list of documents."""
    given = {name: value for name, value in {"prefix": prefix, **more}.items() if value}
    return f"{HOME}?{urlencode(given)}" if given else HOME


def crumbs(filepath: str) -> list[tuple[str, str]]:
    """Return the folders of a name: label, and address of its list."""
    found: list[tuple[str, str]] = []
    start = 0
    while (end := filepath.find("/", start)) >= 0:
        label = filepath[start:end]
        if label:
            found.append((label, list_url(filepath[: end + 1])))
        start = end + 1
    return found[-_MOST_CRUMBS:]


_MOST_CRUMBS = 8


def token_estimate(text: str) -> int:
    """Estimate the tokens of a text: one for four ASCII characters, or for one of any other script."""
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain


_RECENT = 900.0  # seconds for which a failure is shown
_JOBS = ("watch_documents", "add_documents", "import_chroma")


async def watched(request: PageRequest) -> WholePage | Fragment:
    """Show the watched folders, and the jobs that add files or failed a short time ago."""
    jobs, since = await request.rows("list_jobs", hub="this"), time.time() - _RECENT
    context = {
        "folders": (await request.call("list_watched"))["results"],
        "jobs": [job for job in jobs if job["operation"] in _JOBS and job.get("ended", since) >= since],
        "list_url": list_url, "tab": f"{HOME}/-/watched", "form": {}, "problem": None,
    }  # fmt: skip
    if request.partial:
        return Fragment("documents/watched_list.html", context)
    return WholePage("documents/watched.html", say("Watched folders"), context, module="documents")


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


def marked(text: str, marks: Sequence[Sequence[int]]) -> Markup:
    """Return a text with ``<mark>`` around its spans, which do not overlap and are in order."""
    parts: list[Markup] = []
    at = 0
    for start, end in marks:
        if start < at or end > len(text):
            continue
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


LARGEST_FILE = 16_000_000
"""Bytes of a file that is dropped."""

LONGEST_EDIT = 300_000
"""Characters of a text that is edited here: a form may have 4 MB."""

_LISTED = 100
_FOUND = 30
_EXPORTED_AT_ONCE = 500
_PART = 60_000  # characters of a document that are shown at once
_DOWNLOADED = 200_000  # characters of a document in one call


# -- lists ------------------------------------------------------------------------------------------


async def browse(request: PageRequest) -> WholePage | Fragment | FileDownload:
    """Show one level of documents, or what a search finds; or return a list of all below it as a file."""
    if format := export_format(request):
        return await _export(request, format)
    if request.partial:
        context = await _list_context(request)
        name = "more" if request.query.get("cursor") else "list"
        return Fragment(f"documents/{name}.html", context)
    context, stats, recent = await asyncio.gather(
        _list_context(request), call_documents(request, "get_document_stats"), recent_documents(request, 5)
    )
    prefix, query = context["prefix"], context["q"]
    types = [
        (name, count, list_url(prefix, type="" if name == context["type"] else name, q=query))
        for name, count in stats["file_types"].items()
    ]
    context |= {"stats": stats, "types": types, "recent": recent, "tab": HOME, "largest": LARGEST_FILE}
    return WholePage("documents/browse.html", say("Documents"), context, module="documents")


EXPORTED = ("name", "title", "type", "bytes", "characters", "changed")


async def _export(request: PageRequest, format: Format) -> FileDownload:
    """Return the documents below a folder, of a type, as a file."""
    prefix, kind = request.query.get("prefix", ""), request.query.get("type", "")
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        part = await call_documents(
            request, "list_documents",
            prefix=prefix or None, file_type=kind or None, limit=_EXPORTED_AT_ONCE, cursor=cursor,
        )  # fmt: skip
        rows += part["documents"]
        cursor = part["next_cursor"]
        if cursor is None or len(rows) >= MOST_ROWS:
            break
    lines = (
        {
            "name": each["filepath"], "title": each["title"], "type": each["file_type"],
            "bytes": each["size"], "characters": each["length"], "changed": each["updated_at"],
        }
        for each in rows
    )  # fmt: skip
    return table_file(format, "documents", EXPORTED, lines, cut=cursor is not None)


async def _list_context(request: PageRequest) -> dict[str, Any]:
    prefix, kind = request.query.get("prefix", ""), request.query.get("type", "")
    query = request.query.get("q", "").strip()
    context: dict[str, Any] = {
        "prefix": prefix, "type": kind, "q": query, "crumbs": crumbs(prefix), "here": prefix,
        "url": list_url(prefix, type=kind, q=query), "document_url": document_url, "list_url": list_url,
        "marked": marked,
    }  # fmt: skip
    if query:
        return context | await _search_context(request, query, prefix, kind)
    level = await call_documents(
        request, "list_document_folders",
        prefix=prefix or None, file_type=kind or None, limit=_LISTED, cursor=request.query.get("cursor"),
    )  # fmt: skip
    after = level["next_cursor"]
    return context | {
        "level": level, "hits": None, "warning": None,
        "next": list_url(prefix, type=kind, cursor=after) if after else None,
    }  # fmt: skip


async def _search_context(request: PageRequest, query: str, prefix: str, kind: str) -> dict[str, Any]:
    answer = await call_documents(
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


class RecentText(NamedTuple):
    """A document or a page for a short list: title, place it is from, address, and time of its change."""

    title: str
    place: str
    url: str
    at: str | float


async def recent_documents(request: PageRequest, count: int = 3) -> list[RecentText]:
    """Return the documents that changed last; none if there are none, and then nothing is opened."""
    if not (request.may("list_documents") and request.holds("documents")):
        return []
    listed = await call_documents(request, "list_documents", limit=count, newest=True)
    found = []
    for each in listed["documents"]:
        folder, _, name = each["filepath"].rstrip("/").rpartition("/")
        url = document_url(each["filepath"])
        found.append(
            RecentText(each["title"] or name, f"{folder}/" if folder else "", url, each["updated_at"])
        )
    return found


async def recent_pages(request: PageRequest, count: int = 3) -> list[RecentText]:
    """Return the pages that were read last; none if there are none, and then nothing is opened."""
    if not (request.may("list_pages") and request.holds("pages")):
        return []
    return [
        RecentText(
            each["title"] or each["url"],
            urlsplit(each["url"]).hostname or "",
            read_url(each["url"]),
            each["read"],
        )
        for each in await request.rows("list_pages", limit=count)
    ]


async def statistics(request: PageRequest) -> WholePage:
    """Show how many documents there are, and of which types."""
    stats = await call_documents(request, "get_document_stats")
    most = max(stats["file_types"].values(), default=1)
    context = {"stats": stats, "most": most, "list_url": list_url, "tab": f"{HOME}/-/stats"}
    return WholePage("documents/stats.html", say("Statistics of documents"), context)


# -- one document -----------------------------------------------------------------------------------


async def document(request: PageRequest) -> PageAnswer:
    """Show a document, or its next part."""
    name = request.path("path")
    return await _document_page(request, name) if name else Redirect(HOME)


async def document_at(request: PageRequest) -> PageAnswer:
    """Show a document whose name cannot be a path."""
    return await _document_page(request, request.query.get("path", ""))


async def _document_page(request: PageRequest, name: str) -> WholePage | Fragment:
    try:
        part = await call_documents(
            request, "get_document", filepath=name, length=_PART, cursor=request.query.get("cursor")
        )
    except UnknownName:
        return _missing_page(name)
    text, about = part["document"], await _list_entry(request, name)
    url, cursor = document_url(name), part["next_cursor"]
    title = about["title"] or name.rstrip("/").rpartition("/")[2] or name
    context: dict[str, Any] = {
        "name": name, "part": part, "text": text,
        "next": f"{url}{'&' if '?' in url else '?'}cursor={cursor}" if cursor else None,
        "rendered": None,
    }  # fmt: skip
    if part["kind"] == "markdown":
        context["rendered"] = await request.markdown(text, 2, part["start"], title)
    if request.query.get("cursor"):
        return Fragment("documents/part.html", context)
    context |= {
        "about": about, "crumbs": crumbs(name), "tokens": token_estimate(text), "title": title,
        "list_url": list_url, "is_page": name.startswith(("http://", "https://")),
    }  # fmt: skip
    return WholePage("documents/document.html", Message("{name}", name=title), context, module="documents")


def _missing_page(name: str) -> WholePage:
    context = {"name": name, "list_url": list_url, "crumbs": crumbs(name)}
    return WholePage("documents/missing.html", say("No such document"), context, status=404)


async def _list_entry(request: PageRequest, name: str) -> dict[str, Any]:
    """Return a document as lists have it."""
    listed = await call_documents(request, "list_documents", prefix=name, limit=1)
    found = next((each for each in listed["documents"] if each["filepath"] == name), None)
    return found or {"title": None, "file_type": None, "updated_at": None, "metadata": {}, "chunks": 0}


async def download(request: PageRequest) -> FileDownload:
    """Return the text of a document as a file."""
    name = request.query.get("path", "")
    text = await _whole_text(request, name)
    file = name.rstrip("/").rpartition("/")[2] or "document"
    return FileDownload(text.encode(), "text/plain; charset=utf-8", file if "." in file else f"{file}.txt")


async def _whole_text(request: PageRequest, name: str) -> str:
    texts: list[str] = []
    cursor: str | None = None
    while True:
        part = await call_documents(request, "get_document", filepath=name, length=_DOWNLOADED, cursor=cursor)
        texts.append(part["document"])
        cursor = part["next_cursor"]
        if cursor is None:
            return "".join(texts)


async def delete(request: PageRequest) -> Redirect:
    """Delete a document."""
    name = (await request.form()).get("path", "")
    await call_documents(request, "delete_document", filepath=name)
    folder = name.rstrip("/").rpartition("/")
    return Redirect(list_url(folder[0] + folder[1]), say("{filepath} was deleted.", filepath=name))


# -- writing ----------------------------------------------------------------------------------------


async def new(request: PageRequest) -> WholePage:
    """Show an empty document."""
    return _editor_page(request.query.get("prefix", ""), "", is_new=True)


async def edit(request: PageRequest) -> WholePage:
    """Show a document to edit it."""
    name = request.query.get("path", "")
    try:
        first = await call_documents(request, "get_document", filepath=name, length=1)
    except UnknownName:
        return _missing_page(name)
    if first["length"] > LONGEST_EDIT:
        message = say(
            "The text is too long to edit it here ({length:,} {length:character|characters}; the limit is "
            "{limit:,}). Download it, edit the file, and drop it on the list of documents.",
            length=first["length"], limit=LONGEST_EDIT,
        )  # fmt: skip
        raise BadArguments(message)
    text = await _whole_text(request, name)
    file_type = first["metadata"].get("file_type") or ""
    return _editor_page(name, text, replaces=first["hash"], file_type=file_type)


def _editor_page(name: str, text: str, **more: Any) -> WholePage:
    title = say("New document") if more.get("is_new") else say("Edit {filepath}", filepath=name)
    return WholePage("documents/edit.html", title, _editor_context(name, text, **more), module="documents")


def _editor_context(
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
    """Store the text, unless somebody else changed the document meanwhile."""
    form = await request.form()
    name, text, is_new = form.get("path", "").strip(), form.get("text", ""), form.get("new") == "1"
    replaces, file_type = form.get("replaces", ""), form.get("file_type", "")
    forced = form.get("force") == "1"
    try:
        kept = {} if is_new else (await _list_entry(request, name))["metadata"]
        await call_documents(
            request, "put_document", filepath=name, text=text, file_type=file_type or None,
            metadata=kept or None, replaces=None if forced else replaces,
        )  # fmt: skip
    except (BadArguments, Conflict) as error:
        context = _editor_context(
            name, text, is_new=is_new, replaces=replaces, file_type=file_type, error=error
        )
        return Fragment("documents/form.html", context, status=422)
    return Redirect(document_url(name), say("{filepath} is saved.", filepath=name))


async def version(request: PageRequest) -> Json:
    """Return the hash of a document; empty if there is none."""
    try:
        name = request.query.get("path", "")
        found = await call_documents(request, "get_document", filepath=name, length=1)
    except UnknownName:
        return Json({"hash": ""})
    return Json({"hash": found["hash"]})


async def preview(request: PageRequest) -> Fragment:
    """Show the unsaved text as it will be shown."""
    text = (await request.form()).get("text", "")
    return Fragment("documents/preview.html", {"rendered": await request.markdown(text[:LONGEST_EDIT])})


async def upload(request: PageRequest) -> Json:
    """Store a file that was dropped. Its bytes are the body."""
    data = await request.body(LARGEST_FILE)
    name = request.query.get("path", "")
    content = (await asyncio.to_thread(base64.b64encode, data)).decode()
    answer = await call_documents(request, "put_upload", filepath=name, content=content)
    details: Mapping[str, Any] = answer["details"]
    state = "unchanged" if details["unchanged"] else "replaced" if details["updated"] else "added"
    return Json({"url": document_url(details["filepath"]), "state": state, "chunks": details["chunks"]})


READER_HOME = "/reader"

_TOKENS = 15_000  # of a part that is shown at once
_SOURCE_TOKENS = 40_000
_LISTED_PAGES = 50


WAYS: Mapping[str, Message] = {
    "extracted": say("extracted text"),
    "rendered": say("rendered page"),
    "plain": say("plain text"),
    "image": say("image"),
    "feed": say("feed"),
    "frames": say("frames"),
    "json-ld": say("data of the page"),
}
"""How a page was read, in words; names of formats and sites stay as they are."""

_FACTS: dict[str, Any] = dict.fromkeys(
    ("title", "author", "date", "site", "language", "canonical", "share", "tokens_left", "pictures")
)
"""Members that an answer need not have."""


def read_url(url: str, **more: str | None) -> str:
    """Return the address of the reader with a page."""
    return f"{READER_HOME}?{_url_query(url, more)}"


def _url_query(url: str, more: dict[str, str | None]) -> str:
    return urlencode({"url": url, **{name: value for name, value in more.items() if value}})


async def reader(request: PageRequest) -> WholePage | Fragment:
    """Show the field for a URL, and the page or the shelf."""
    url = request.query.get("url", "").strip()
    if url and "://" not in url and not url.startswith(("mailto:", "javascript:")):
        url = f"https://{url}"  # people leave the scheme out
    if url:
        source = request.query.get("view") == "source"
        context: dict[str, Any] = {
            "url": url, "source": source, "read_url": read_url, "site": "", "q": "",
            "part_url": f"{READER_HOME}/-/read?{_url_query(url, {'view': 'source' if source else None})}",
        }  # fmt: skip
        return WholePage("reader/reading.html", say("Reader"), context, module="reader")
    context = {**await _shelf_context(request), "url": "", "source": False}
    if request.partial:
        return Fragment("reader/more.html" if request.query.get("after") else "reader/shelf.html", context)
    return WholePage("reader/reader.html", say("Reader"), context, module="reader")


# -- one page ---------------------------------------------------------------------------------------


async def read(request: PageRequest) -> Fragment:
    """Read a page, or its next part. A failure is shown in its place, with what to do."""
    query = request.query
    url, cursor = query.get("url", ""), query.get("cursor")
    source = query.get("view") == "source"
    try:
        page = await request.call(
            "read_url_content", url=url, cursor=cursor, max_tokens=_TOKENS,
            refresh=True if query.get("refresh") else None,
        )  # fmt: skip
    except TabaneError as error:
        return Fragment("reader/failure.html", {"url": url, "message": error.message, "read_url": read_url})
    after = page.get("next_cursor")
    page = _FACTS | page
    context: dict[str, Any] = {
        "url": url, "page": page, "source": source, "read_url": read_url,
        "rendered": await request.markdown(page["content"], 3, page["start"], page["title"] or ""),
        "next": f"{READER_HOME}/-/read?{_url_query(url, {'cursor': after})}" if after else None,
    }  # fmt: skip
    if cursor:
        return Fragment("reader/part.html", context)
    kept = await request.rows("list_pages", url=page["url"])
    context |= {"kept": kept[0] if kept else None, **await _saved_context(request, page["url"])}
    context["way"] = WAYS.get(page["way"], Message("{way}", way=page["way"])) if page.get("way") else None
    context["host"] = urlsplit(page["url"]).hostname or ""
    context["source_url"] = f"{READER_HOME}/-/source?{_url_query(page['url'], {})}"
    return Fragment("reader/page.html", context)


async def _saved_context(request: PageRequest, url: str) -> dict[str, Any]:
    """Return whether the page is a document too, and where."""
    saved = False
    if request.may("get_document"):
        try:
            await call_documents(request, "get_document", filepath=url, length=1)
            saved = True
        except (UnknownName, BadArguments):
            saved = False
    return {"saved": saved, "document": document_url(url), "page_url": url}


async def source(request: PageRequest) -> Fragment:
    """Show the source of a page, as text."""
    query = request.query
    url, cursor = query.get("url", ""), query.get("cursor")
    try:
        page = await request.call(
            "read_url_content", url=url, format="raw", max_tokens=_SOURCE_TOKENS, cursor=cursor
        )
    except TabaneError as error:
        return Fragment("reader/failure.html", {"url": url, "message": error.message, "read_url": read_url})
    after = page.get("next_cursor")
    following = f"{READER_HOME}/-/source?{_url_query(url, {'cursor': after})}" if after else None
    return Fragment("reader/source.html", {"page": page, "next": following})


async def remember(request: PageRequest) -> Fragment:
    """Keep a page as a document."""
    url = (await request.form()).get("url", "")
    found = await request.call("remember_url", url=url)
    key = found["remembered"]
    context = {"saved": True, "document": document_url(key), "page_url": found["url"]}
    return Fragment("reader/saved.html", context, events=("documents",))


async def forget(request: PageRequest) -> Notice | Redirect:
    """Delete a page from those that were read."""
    form = await request.form()
    url = form.get("url", "")
    await request.call("forget_page", url=url)
    message = say("{url} is no longer kept.", url=url)
    if form.get("leave"):
        return Redirect(READER_HOME, message)
    return Notice(message, events=("pages",))


# -- the shelf --------------------------------------------------------------------------------------


async def _shelf_context(request: PageRequest) -> dict[str, Any]:
    site, query = request.query.get("site", ""), request.query.get("q", "").strip()
    context: dict[str, Any] = {
        "site": site, "q": query, "read_url": read_url, "marked": marked, "pages": [], "sites": [],
        "hits": None, "warning": None, "next": None, "list_url": _list_url(site, query), "most": _FOUND,
    }  # fmt: skip
    if not request.may("list_pages"):
        return context
    if query:
        found = await request.call("search_everything", query=query, top_k=_FOUND, **{"in": ["pages"]})
        listed = await request.call("list_pages", limit=1, sites=True)
        hits = [hit for hit in found["results"] if not site or urlsplit(hit["key"]).hostname == site]
        return context | {"hits": hits, "warning": found.get("warning"), "sites": listed["sites"]}
    listed = await request.call(
        "list_pages", site=site or None, limit=_LISTED_PAGES, after=request.query.get("after"), sites=True
    )
    after = listed.get("next_cursor")
    return context | {
        "pages": listed["results"], "sites": listed.get("sites", []),
        "next": _list_url(site, "", after=after) if after else None,
    }  # fmt: skip


def _list_url(site: str, query: str, **more: str) -> str:
    given = {name: value for name, value in {"site": site, "q": query, **more}.items() if value}
    return f"{READER_HOME}?{urlencode(given)}" if given else READER_HOME


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
    PageRoute(f"{HOME}/-/watched", watched),
    PageRoute(f"{HOME}/-/watched", watch, method="POST"),
    PageRoute(f"{HOME}/-/unwatch", unwatch, method="POST"),
    PageRoute(f"{HOME}/{{path:path}}", document),
    PageRoute(READER_HOME, reader),
    PageRoute(f"{READER_HOME}/-/read", read),
    PageRoute(f"{READER_HOME}/-/source", source),
    PageRoute(f"{READER_HOME}/-/remember", remember, method="POST"),
    PageRoute(f"{READER_HOME}/-/forget", forget, method="POST"),
)
