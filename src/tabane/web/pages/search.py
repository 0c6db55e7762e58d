"""The page that searches everything, as a person types, and the palette of commands."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, WholePage
from tabane.web.pages.documents import document_url
from tabane.web.pages.posts import LOG_TYPES, PostFilterQuery, cut, text_parts
from tabane.web.rendering import url_part

FIRST, ALL = 20, 100
"""Hits that are shown at first, and all that can be shown."""

LONGEST_SHOWN = 600
"""Characters of a post in the list."""

KINDS: Mapping[str, Message] = {
    "": say("Everything"),
    "posts": say("Posts"),
    "documents": say("Documents"),
    "pages": say("Pages"),
    "tools": say("Tools"),
    "docs": say("Manual"),
}
ONE: Mapping[str, Message] = {
    "posts": say("post"),
    "documents": say("document"),
    "pages": say("page"),
    "tools": say("tool"),
    "docs": say("manual"),
}

_BOTH = say("Words and meaning")
_WORDS = say("Words only")
MODES: Mapping[str, Message] = {"": _BOTH, "words": _WORDS}
POST_MODES: Mapping[str, Message] = {
    "": _BOTH,
    "words": _WORDS,
    "content": say("Meaning of the post"),
    "reasoning": say("Meaning of the reasoning"),
    "summary": say("Meaning of the summary"),
    "average": say("All three, average"),
    "weighted": say("All three, weighted"),
    "maximum": say("All three, best"),
    "minimum": say("All three, worst"),
    "product": say("All three, product"),
}
_LINK_TO_PAGE = re.compile(r"\]\(([\w.-]{1,100}\.md)(?:#[^)\s]*)?\)")
"""A link of the manual from one page to another."""


class SearchQuery(NamedTuple):
    """The search, as the address bar has it."""

    text: str
    kind: str
    mode: str
    filters: PostFilterQuery
    all: bool
    typing: bool

    @classmethod
    def of(cls, query: Mapping[str, str]) -> SearchQuery:
        """Return the search in a query string."""
        kind = query.get("in", "")
        kind = kind if kind in KINDS else ""
        modes = POST_MODES if kind == "posts" else MODES
        mode = query.get("mode", "")
        return cls(
            query.get("q", "")[:2000],
            kind,
            mode if mode in modes else "",
            PostFilterQuery.of(query),
            query.get("all") == "1",
            query.get("typing") == "1",
        )

    @property
    def keywords(self) -> str | None:
        """Return how keywords are searched: while somebody types, or without meaning."""
        if self.typing:
            return "typing"
        return "only" if self.mode == "words" else None

    @property
    def limit(self) -> int:
        """Return how many hits are shown."""
        return ALL if self.all else FIRST


async def search(request: PageRequest) -> WholePage:
    """Show the box, the filters, and the place of the results."""
    asked = SearchQuery.of(request.query)
    given = {name: request.query.get(name, "") for name in ("user", "tag", "type")}
    context = {
        "asked": asked,
        "kinds": KINDS,
        "modes": POST_MODES if asked.kind == "posts" else MODES,
        "given": given,
        "since": asked.filters.since,
        "until": asked.filters.until,
    }
    return WholePage("search/page.html", say("Search"), context, module="search")


async def results(request: PageRequest) -> Fragment:
    """Search, and show the hits."""
    asked = SearchQuery.of(request.query)
    if not asked.text.strip():
        return Fragment("search/results.html", {"asked": asked, "hits": None})
    began = time.perf_counter()
    try:
        terms = {"query": asked.text, "top_k": asked.limit, "keywords": asked.keywords}
        if asked.kind == "posts":
            mode = "hybrid" if asked.mode in ("", "words") else asked.mode
            asking = request.call("find_posts", **terms, mode=mode, **asked.filters.parameters())
            found = await request.while_connected(asking)
            hits = [_post_hit(row) for row in found["results"]]
        else:
            kinds = {"in": [asked.kind]} if asked.kind else {}
            asking = request.call("search_everything", **terms, explain=True, **kinds)
            found = await request.while_connected(asking)
            hits = [_hit(row, fused=not asked.kind) for row in found["results"]]
    except TabaneError as error:
        failure = {"asked": asked, "hits": None, "error": error.text(request.lang)}
        return Fragment("search/results.html", failure)
    context: dict[str, Any] = {
        "asked": asked,
        "hits": hits,
        "warnings": _warnings(found),
        "ms": (time.perf_counter() - began) * 1e3,
        "more": len(hits) == asked.limit and not asked.all,
        "ranked": any(hit["why"]["meaning"] for hit in hits),
        "one": ONE,
    }
    return Fragment("search/results.html", context)


def _warnings(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return why hits may be missing, as rows. Posts alone have one text."""
    if "warnings" in found or "warning" not in found:
        return list(found.get("warnings", ()))
    return [{"about": "search", "kinds": ["posts"], "text": found["warning"]}]


def _hit(row: Mapping[str, Any], *, fused: bool) -> dict[str, Any]:
    why, is_tool = row["why"], row["kind"] == "tools"
    return {
        "kind": row["kind"],
        "url": hit_url(row["kind"], row["key"]),
        "title": row["key"] if is_tool else row["title"],
        "note": row["key"] if row["kind"] in ("documents", "pages") else "",
        "also": [
            {"kind": other["kind"], "url": hit_url(other["kind"], row["key"])}
            for other in row.get("also", ())
        ],
        "type": None,
        "parts": text_parts(row["title"] if is_tool else row["text"], row["marks"], links=False),
        "score": row["score"],
        "why": why,
        "own": {"rank": why["rank"], "score": why["score"]} if fused else None,
        "rank": None,
    }


def _post_hit(row: Mapping[str, Any]) -> dict[str, Any]:
    post = row["post"]
    text, marks, was_cut = cut(post["content"], row["marks"], LONGEST_SHOWN)
    return {
        "kind": "posts",
        "url": hit_url("posts", post["post_id_str"]),
        "title": f"@{post['user']}" if post["user"] else post["post_id_str"],
        "note": post["timestamp"],
        "also": [],
        "type": LOG_TYPES.get(post["log_type"]),
        "parts": text_parts(text + ("…" if was_cut else ""), marks, links=False),
        "score": row["score"],
        "why": row["why"],
        "own": None,
        "rank": row["rank"],
    }


def hit_url(kind: str, key: str) -> str:
    """Return the page that shows a hit."""
    match kind:
        case "posts":
            return f"/posts/{quote(key)}"
        case "documents":
            return document_url(key)
        case "pages":
            return f"/reader?url={quote(key, safe='')}"
        case "tools":
            return f"/tools/{quote(key, safe='')}"
        case _:
            return f"/search/manual?section={quote(key, safe='')}"


async def timeline(request: PageRequest) -> Json:
    """Return the posts of each month that match the filters, without the dates."""
    asked = SearchQuery.of(request.query)
    unit = "year" if request.query.get("unit") == "year" else "month"
    rows = await request.call("get_timeline", unit=unit, **asked.filters.parameters(dates=False))
    return Json([[row["period"], row["post_count"]] for row in rows])


async def names(request: PageRequest) -> Json:
    """Return the users or tags that begin so, to complete what is typed."""
    member = "tag" if request.query.get("of") == "tag" else "user"
    prefix = request.query.get("prefix", "")[:200]
    found = await request.call(f"list_post_{member}s", prefix=prefix, limit=12)
    return Json([[row[member], row["post_count"]] for row in found["results"]])


async def manual(request: PageRequest) -> WholePage:
    """Show a section of the manual."""
    found = await request.call("get_documentation", section=request.query.get("section") or None)
    rendered = None
    if "text" in found:
        rendered = await request.markdown(_LINK_TO_PAGE.sub(r"](/search/manual?section=\1)", found["text"]))
    return WholePage("search/manual.html", say("Manual"), {"section": found, "rendered": rendered})


MOST_SERVERS = 5
MOST_TOOLS = 8
LONGEST = 200
"""Characters of what is typed that are used."""


async def found(request: PageRequest) -> Json:
    """Return servers and tools that match what is typed, as entries with a URL, a label and an icon."""
    typed = request.query.get("q", "").strip()[:LONGEST]
    if not typed:
        return Json([])
    entries: list[dict[str, str]] = []
    servers = await request.rows("list_servers")
    names = [row["name"] for row in servers if typed.lower() in row["name"].lower()]
    entries += [_entry("/servers/", name, "servers") for name in names[:MOST_SERVERS]]
    tools = await request.rows("search_tools", query=typed, limit=MOST_TOOLS)
    entries += [_entry("/tools/", row["name"], "tools") for row in tools if "doubtful" not in row]
    return Json(entries)


def _entry(place: str, name: str, icon: str) -> dict[str, str]:
    return {"url": f"{place}{url_part(name)}", "label": name, "icon": icon}


ROUTES = (
    PageRoute("/search", search),
    PageRoute("/search/results", results),
    PageRoute("/search/timeline", timeline),
    PageRoute("/search/names", names),
    PageRoute("/search/manual", manual),
    PageRoute("/palette", found),
)
