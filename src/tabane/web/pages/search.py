"""The page that searches everything, as a person types."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from tabane.errors import TabaneError
from tabane.messages import Message, say
from tabane.web.markdown import plain_passage
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, WholePage
from tabane.web.pages.documents import document_url
from tabane.web.pages.posts import LOG_TYPES, PostFilterQuery, cut, text_parts
from tabane.web.pages.servers import split_signature

FIRST, ALL = 20, 100
"""Hits that are shown at first, and all that can be shown."""

MOST_FACETS = 12
"""Facets of one group."""

CLOSE = 0.55
"""The score from which hits without a word of the query are shown at once: in another language, maybe."""

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
    """The search, as the address bar has it. ``of`` narrows one kind: a server, folder, site or page."""

    text: str
    kind: str
    mode: str
    of: str
    filters: PostFilterQuery
    all: bool
    typing: bool

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> SearchQuery:
        """Return the search in a query string."""
        kind = query.get("in", "")
        kind = kind if kind in KINDS else ""
        modes = POST_MODES if kind == "posts" else MODES
        mode = query.get("mode", "")
        return cls(
            query.get("q", "")[:2000],
            kind,
            mode if mode in modes else "",
            query.get("of", "")[:1000] if kind not in ("", "posts") else "",
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
        """Return how many hits are asked for."""
        return ALL if self.all or self.of else FIRST

    def url(self, **changes: str) -> str:
        """Return the address of this search with other parameters; one that is empty is left out."""
        own = {"q": self.text, "in": self.kind, "mode": self.mode, "of": self.of} | changes
        return f"/search?{self.filters.query(dates=True, **own)}"


async def search(request: PageRequest) -> WholePage:
    """Show the box, the filters, and the place of the results."""
    asked = SearchQuery.of_query(request.query)
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
    asked = SearchQuery.of_query(request.query)
    if not asked.text.strip():
        return Fragment("search/results.html", {"asked": asked, "hits": None})
    began = time.perf_counter()
    try:
        hits, warnings = await request.while_connected(_find(request, asked, asked.limit))
    except TabaneError as error:
        failure = {"asked": asked, "hits": None, "error": error.text(request.lang)}
        return Fragment("search/results.html", failure)
    full = len(hits) == asked.limit
    if asked.of:
        hits = [hit for hit in hits if hit["group"] == asked.of]
    shown = hits if asked.all else hits[:FIRST]
    has_words = any(map(_has_words, hits))
    context: dict[str, Any] = {
        "asked": asked,
        "hits": shown,
        "warnings": warnings,
        "ms": (time.perf_counter() - began) * 1e3,
        "more": not asked.all and (full or len(hits) > FIRST),
        "ranked": any(hit["why"]["meaning"] for hit in shown),
        "nearest": bool(hits) and not has_words and not asked.mode,
        "close": bool(hits) and hits[0]["score"] >= CLOSE,
        "one": ONE,
    }
    return Fragment("search/results.html", context)


async def facets(request: PageRequest) -> Fragment:
    """Return what the best hits consist of: kinds, servers, folders, sites, users and years, with counts."""
    asked = SearchQuery.of_query(request.query)
    try:
        hits, _ = await _find(request, asked, ALL)
    except TabaneError:
        hits = []
    if any(_has_words(hit) for hit in hits):  # what is only near in meaning would hide what was asked for
        hits = [hit for hit in hits if _has_words(hit)]
    groups: list[list[Facet]] = []
    if not asked.kind:
        counts = Counter(hit["kind"] for hit in hits)
        groups.append([Facet(ONE[kind], count, asked.url(**{"in": kind})) for kind, count in counts.items()])
    elif asked.kind == "posts":
        users = Counter(hit["group"] for hit in hits if hit["group"])
        years = Counter(hit["note"][:4] for hit in hits if hit["note"][:4].isdigit())
        groups.append([Facet(f"@{user}", count, asked.url(user=user)) for user, count in users.items()])
        groups.append(
            [
                Facet(year, count, asked.url(**{"from": f"{year}-01-01", "to": f"{year}-12-31"}))
                for year, count in years.items()
            ]
        )
    else:
        counts = Counter(hit["group"] for hit in hits)
        groups.append(
            [
                Facet(
                    name.rstrip("/").rpartition("/")[2] or name,
                    count,
                    asked.url(of="" if name == asked.of else name),
                    name == asked.of,
                )
                for name, count in counts.items()
            ]
        )
    shown = [
        sorted(group, key=lambda facet: -facet.found)[:MOST_FACETS] for group in groups if len(group) > 1
    ]
    return Fragment("search/facets.html", {"groups": shown, "total": len(hits)})


def _has_words(hit: Mapping[str, Any]) -> bool:
    """Return whether a hit has words of the query. A tool is found only if it fits."""
    return bool(hit["why"]["words"] or hit["why"]["bm25"] or hit["kind"] == "tools")


class Facet(NamedTuple):
    """A part of the best hits, and the address that shows it alone, or again all if it is ``chosen``."""

    label: str | Message
    found: int
    url: str
    chosen: bool = False


async def _find(
    request: PageRequest, asked: SearchQuery, limit: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the hits as the template has them, and why hits may be missing. Raises TabaneError."""
    terms = {"query": asked.text, "top_k": limit, "keywords": asked.keywords}
    if asked.kind == "posts":
        mode = "hybrid" if asked.mode in ("", "words") else asked.mode
        found = await request.call("find_posts", **terms, mode=mode, **asked.filters.parameters())
        hits = [_post_hit(row, asked.text) for row in found["results"]]
        why = [found["warning"]] if "warning" in found else []
        warnings: list[dict[str, Any]] = [
            {"about": "search", "kinds": ["posts"], "text": text} for text in why
        ]
    else:
        kinds = {"in": [asked.kind]} if asked.kind else {}
        found = await request.call("search_everything", **terms, explain=True, **kinds)
        hits = [_hit(row, asked.text, fused=not asked.kind) for row in found["results"]]
        warnings = found.get("warnings", [])
    return hits, warnings


def _hit(row: Mapping[str, Any], query: str, *, fused: bool) -> dict[str, Any]:
    why, kind, key = row["why"], row["kind"], row["key"]
    arguments, marks = "", list[tuple[int, int]]()
    if kind == "tools":
        signature = split_signature(key, row["title"])
        arguments, text = signature["arguments"], signature["purpose"]
    else:
        text, marks = plain_passage(row["text"], row["marks"])
    return {
        "kind": kind,
        "url": hit_url(kind, key, query),
        "title": key if kind == "tools" else row["title"],
        "note": key if kind in ("documents", "pages") else "",
        "also": [
            {"kind": other["kind"], "url": hit_url(other["kind"], key, query)}
            for other in row.get("also", ())
        ],
        "type": None,
        "parts": text_parts(text, marks, links=False),
        "arguments": arguments,
        "score": row["score"],
        "why": why,
        "own": {"rank": why["rank"], "score": why["score"]} if fused else None,
        "rank": None,
        "group": _group(kind, key),
    }


def _group(kind: str, key: str) -> str:
    """Return the part of its kind that a hit belongs to: a server, a folder, a site, or a page."""
    if kind == "tools":
        return key.partition("__")[0] if "__" in key else "tabane"
    if kind == "documents":
        return key.rpartition("/")[0] or "/"
    if kind == "pages":
        return urlsplit(key).hostname or key
    return key.partition(":")[0]


def _post_hit(row: Mapping[str, Any], query: str) -> dict[str, Any]:
    post = row["post"]
    text, marks, was_cut = cut(post["content"], row["marks"], LONGEST_SHOWN)
    return {
        "kind": "posts",
        "url": hit_url("posts", post["post_id_str"], query),
        "title": f"@{post['user']}" if post["user"] else post["post_id_str"],
        "note": post["timestamp"],
        "also": [],
        "type": LOG_TYPES.get(post["log_type"]),
        "parts": text_parts(text + ("…" if was_cut else ""), marks, links=False),
        "arguments": "",
        "score": row["score"],
        "why": row["why"],
        "own": None,
        "rank": row["rank"],
        "group": post["user"] or "",
    }


def hit_url(kind: str, key: str, query: str = "") -> str:
    """Return the page that shows a hit. It gets the query, to mark its words."""
    asked = urlencode({"q": query}) if query else ""
    match kind:
        case "posts":
            return f"/posts/{quote(key)}" + (f"?{asked}" if asked else "")
        case "documents":
            return document_url(key) + (f"?{asked}" if asked else "")
        case "pages":
            return f"/reader?url={quote(key, safe='')}" + (f"&{asked}" if asked else "")
        case "tools":
            return f"/tools/{quote(key, safe='')}"
        case _:
            return f"/search/manual?section={quote(key, safe='')}"


async def timeline(request: PageRequest) -> Json:
    """Return the posts of each month that match the filters, without the dates."""
    asked = SearchQuery.of_query(request.query)
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
    context = {"section": found, "rendered": rendered, "listed": _manual_pages(found, request.lang)}
    return WholePage("search/manual.html", say("Manual"), context)


def _manual_pages(found: Mapping[str, Any], lang: str) -> list[tuple[str, str]]:
    """Return names and titles of the manual's pages, each in the person's language if it has that."""
    names = set(found.get("pages", ()))
    translated = {name.replace(".ja.md", ".md"): name for name in names if name.endswith(".ja.md")}
    pages = names - set(translated.values())
    if lang == "ja":
        pages = {translated.get(name, name) for name in pages}
    titles = found.get("titles", {})
    return sorted(((name, titles.get(name, name)) for name in pages), key=lambda page: page[1].casefold())


ROUTES = (
    PageRoute("/search", search),
    PageRoute("/search/results", results),
    PageRoute("/search/facets", facets),
    PageRoute("/search/timeline", timeline),
    PageRoute("/search/names", names),
    PageRoute("/search/manual", manual),
)
