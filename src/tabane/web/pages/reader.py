"""Reader: a page of the web beside its source, and the pages that were read."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from tabane.errors import BadArguments, TabaneError, UnknownName
from tabane.messages import say
from tabane.web.page import Fragment, Notice, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.document_calls import asked, document_url
from tabane.web.pages.marked_passages import marked

HOME = "/reader"

_TOKENS = 15_000  # of a part that is shown at once
_SOURCE_TOKENS = 40_000
_LISTED = 50
_FOUND = 30


_FACTS: dict[str, Any] = dict.fromkeys(
    ("title", "author", "date", "site", "language", "canonical", "share", "tokens_left", "pictures")
)
"""Members that an answer need not have."""


def read_url(url: str, **more: str | None) -> str:
    """Return the address of the reader with a page."""
    return f"{HOME}?{_query(url, more)}"


def _query(url: str, more: dict[str, str | None]) -> str:
    return urlencode({"url": url, **{name: value for name, value in more.items() if value}})


async def reader(request: PageRequest) -> WholePage | Fragment:
    """Show the field for a URL, and the page or the shelf."""
    url = _completed(request.query.get("url", "").strip())
    if url:
        source = request.query.get("view") == "source"
        context: dict[str, Any] = {
            "url": url, "source": source, "read_url": read_url, "site": "", "q": "",
            "part_url": f"{HOME}/-/read?{_query(url, {'view': 'source' if source else None})}",
        }  # fmt: skip
        return WholePage("reader/reading.html", say("Reader"), context, module="reader")
    context = {**await _shelf(request), "url": "", "source": False}
    if request.partial:
        return Fragment("reader/more.html" if request.query.get("after") else "reader/shelf.html", context)
    return WholePage("reader/reader.html", say("Reader"), context, module="reader")


def _completed(url: str) -> str:
    """Return what was typed as a URL: people leave the scheme out."""
    return (
        f"https://{url}"
        if url and "://" not in url and not url.startswith(("mailto:", "javascript:"))
        else url
    )


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
        "next": f"{HOME}/-/read?{_query(url, {'cursor': after})}" if after else None,
    }  # fmt: skip
    if cursor:
        return Fragment("reader/part.html", context)
    context |= {"kept": await _kept(request, page["url"]), **await _saved(request, page["url"])}
    context["host"] = urlsplit(page["url"]).hostname or ""
    context["source_url"] = f"{HOME}/-/source?{_query(page['url'], {})}"
    return Fragment("reader/page.html", context)


async def _kept(request: PageRequest, url: str) -> dict[str, Any] | None:
    """Return what the list of read pages says of one."""
    if not request.may("list_pages"):
        return None
    rows = (await request.call("list_pages", url=url))["results"]
    return rows[0] if rows else None


async def _saved(request: PageRequest, url: str) -> dict[str, Any]:
    """Return whether the page is a document too, and where."""
    saved = False
    if request.may("get_document"):
        try:
            await asked(request, "get_document", filepath=url, length=1)
            saved = True
        except (UnknownName, BadArguments):
            saved = False
    return {"saved": saved, "document": document_url(url), "page_url": url}


async def source(request: PageRequest) -> Fragment:
    """Show what the site sent, as text."""
    query = request.query
    url, cursor = query.get("url", ""), query.get("cursor")
    try:
        page = await request.call(
            "read_url_content", url=url, format="raw", max_tokens=_SOURCE_TOKENS, cursor=cursor
        )
    except TabaneError as error:
        return Fragment("reader/failure.html", {"url": url, "message": error.message, "read_url": read_url})
    after = page.get("next_cursor")
    following = f"{HOME}/-/source?{_query(url, {'cursor': after})}" if after else None
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
        return Redirect(HOME, message)
    return Notice(message, events=("pages",))


# -- the shelf --------------------------------------------------------------------------------------


async def _shelf(request: PageRequest) -> dict[str, Any]:
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
        "list_pages", site=site or None, limit=_LISTED, after=request.query.get("after"), sites=True
    )
    after = listed.get("next_cursor")
    return context | {
        "pages": listed["results"], "sites": listed.get("sites", []),
        "next": _list_url(site, "", after=after) if after else None,
    }  # fmt: skip


def _list_url(site: str, query: str, **more: str) -> str:
    given = {name: value for name, value in {"site": site, "q": query, **more}.items() if value}
    return f"{HOME}?{urlencode(given)}" if given else HOME


ROUTES = (
    PageRoute(HOME, reader),
    PageRoute(f"{HOME}/-/read", read),
    PageRoute(f"{HOME}/-/source", source),
    PageRoute(f"{HOME}/-/remember", remember, method="POST"),
    PageRoute(f"{HOME}/-/forget", forget, method="POST"),
)
