"""Search while typing: ``python -m benchmarks.web.typing [--posts 220000] [--keep FOLDER]``.

A client types queries key by key, as a page does: the next query is sent when the one before it was
answered. Posts are those of ``benchmarks/posts``, without vectors. Milliseconds are from before a request is
written until its answer is read: as JSON, or as the HTML that the page shows.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks.hub import HubProcess
from benchmarks.posts.asking import Client, connected, latencies
from benchmarks.posts.sources import Sources, made
from benchmarks.report import Goal

POSTS = 220_000
HEADS = ("ms", "requests", "p50", "p95", "most")
_WORDS = 2  # of a typed query
_QUERIES = 40  # of each language
_TOP_K = 20
_WARM = 10  # requests that do not count


def typed(sources: Sources) -> dict[str, list[str]]:
    """The text in the box after each key, by language: words of many posts and of few."""
    found: dict[str, list[str]] = {}
    for language in ("ja", "en"):
        terms = [list(words) for kind, words in sources.terms().items() if kind.endswith(language)]
        queries = (" ".join(pair) for pair in itertools.islice(zip(*terms, strict=False), _QUERIES))
        found[language] = [text for query in queries for text in _keys(query)]
    return found


def _keys(query: str) -> Iterator[str]:
    for length in range(1, len(query) + 1):
        if not query[length - 1].isspace():
            yield query[:length]


async def measured(hub: HubProcess, sources: Sources) -> dict[str, Any]:
    """Return the milliseconds of each key, by what is asked and by language."""
    figures: dict[str, Any] = {}
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "posts": ("find_posts", {"keywords": "typing", "top_k": _TOP_K}),
        "everything": ("search_everything", {"keywords": "typing", "top_k": _TOP_K, "explain": True}),
    }
    url = hub.url.replace("http", "ws", 1).removesuffix("mcp")
    async with connected(url, hub.token) as connection:
        client = Client(connection)
        for language, texts in typed(sources).items():
            for name, (method, params) in asked.items():
                several = [
                    lambda text=text, method=method, params=params: client.ask(
                        method, {"query": text, **params}
                    )
                    for text in texts
                ]
                figures[f"{name}, {language}"] = await latencies(several, lambda: hub.cpu)
        pages = {"first page": {}, "of a user": {"user_filter": {"includes": ["user3"]}}}
        for name, params in pages.items():
            figures[name] = await latencies(
                [lambda params=params: client.ask("list_posts", params)] * 60,  # type: ignore[misc]
                lambda: hub.cpu,
            )
        figures["pages, one after the other"] = await _paged(client, hub)
        for method in ("list_post_users", "list_post_tags", "get_timeline"):
            figures[method] = await latencies([lambda m=method: client.ask(m, {})] * 60, lambda: hub.cpu)  # type: ignore[misc]
    return figures


async def _paged(client: Client, hub: HubProcess) -> dict[str, Any]:
    cursor: list[str | None] = [None]

    async def following() -> None:
        page = await client.ask("list_posts", {"cursor": cursor[0]} if cursor[0] else {})
        cursor[0] = page["next_cursor"]

    return await latencies([following] * 60, lambda: hub.cpu)


class PageClient:
    """A connection of a browser that is signed in to the page."""

    def __init__(self, hub: HubProcess) -> None:
        self._connection = HTTPConnection("127.0.0.1", hub.port)
        link = urlsplit(hub.tabane("open", "--print").strip())
        origin = f"http://127.0.0.1:{hub.port}"
        self._headers = {"HX-Request": "true", "Origin": origin, "Sec-Fetch-Site": "same-origin"}
        body = json.dumps({"code": link.fragment})
        head = {**self._headers, "Content-Type": "application/json"}
        self._connection.request("POST", "/sign-in", body, head)
        answer = self._connection.getresponse()
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        self._headers |= {"Cookie": cookie, "Tabane-Page": json.loads(answer.read())["page"]}

    def get(self, path: str) -> bytes:
        """Return a part of a page. Raises RuntimeError unless the answer is 200."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {body[:200]!r}")
        return body


def of_pages(hub: HubProcess, sources: Sources) -> dict[str, Any]:
    """Return the milliseconds of parts of pages: each key of a search, and the lists of posts."""
    client, figures = PageClient(hub), dict[str, Any]()
    for language, texts in typed(sources).items():
        for kind in ("posts", ""):
            paths = [f"/search/results?{urlencode({'q': text, 'in': kind, 'typing': '1'})}" for text in texts]
            figures[f"page, {kind or 'everything'}, {language}"] = _timed(client, hub, paths)
    for path in ("/posts", "/posts/months", "/posts/users", "/posts/tags", "/posts/statistics"):
        figures[path] = _timed(client, hub, [path] * 30)
    return figures


def _timed(client: PageClient, hub: HubProcess, paths: list[str]) -> dict[str, Any]:
    for path in paths[:_WARM]:
        client.get(path)
    found, before = [], hub.cpu
    for path in paths:
        began = time.perf_counter()
        client.get(path)
        found.append((time.perf_counter() - began) * 1e3)
    return {"ms": sorted(found), "cpu": (hub.cpu - before) / len(found) * 1e3}


class TypedRequests(NamedTuple):
    """Requests of one kind, and their milliseconds: the median, the 95th percentile, the maximum."""

    name: str
    count: int
    p50: float
    p95: float
    most: float

    @property
    def texts(self) -> tuple[str, ...]:
        return self.name, f"{self.count}", *(f"{ms:.1f}" for ms in (self.p50, self.p95, self.most))


def rows(posts: int = POSTS, keep: Path | None = None) -> list[TypedRequests]:
    """Start a hub with so many posts, in ``keep`` if it is given, and measure."""
    sources = made(posts, vectors=False)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=sources.folder.parent) as one:
        hub = HubProcess(keep or Path(one))
        filled = any(hub.home.rglob("posts.db"))
        hub.start()
        try:
            if not filled:
                print("typing: importing", file=sys.stderr)
                results = sources.folder / "batch" / "results.jsonl"
                hub.tabane("posts", "import", str(sources.posts), str(results), "--json")
            figures = asyncio.run(measured(hub, sources)) | of_pages(hub, sources)
        finally:
            hub.stop()
    return [_row(name, figure["ms"]) for name, figure in figures.items()]


def _row(name: str, ms: list[float]) -> TypedRequests:
    return TypedRequests(name, len(ms), statistics.median(ms), ms[int(len(ms) * 0.95)], ms[-1])


def reached(found: list[TypedRequests]) -> list[Goal]:
    """Return the goal: a key is answered before the next one is pressed."""
    slowest = max(
        row.p50 for row in found if "," in row.name and row.name.startswith(("posts", "everything", "page"))
    )
    return [Goal(f"search as you type, {POSTS:,} posts, p50", slowest, 50, " ms", 1, limit_digits=0)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web.typing")
    parser.add_argument("--posts", type=int, default=POSTS)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    for row in rows(options.posts, options.keep):
        print(json.dumps([row.name, row.count, *(round(ms, 1) for ms in (row.p50, row.p95, row.most))]))


if __name__ == "__main__":
    main(sys.argv[1:])
