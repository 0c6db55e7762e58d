"""Search while typing: ``python -m benchmarks.web.typing [--posts 220000] [--home FOLDER]``.

Somebody types queries key by key into a real browser, at Home and at Search, in a home with posts, documents,
pages and tools and the model of the default installation. Japanese words are composed in kana, as by an input
method, and then inserted. Milliseconds are those of the browser, from a request to the end of its answer. The
next key is pressed when the answer is there, and not before 120 ms: nothing is left out because a page gave
up. Then a fast typist does not wait, while an assistant calls a tool ten times a second.

A probe asks another question of the same hub every 20 ms all the time: what it waits is what the event loop
of the hub was not free. The parts of a key are measured without a browser, one request after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import psutil
from benchmarks.gateway.client import Client
from benchmarks.hub import HubProcess
from benchmarks.posts.sources import Sources, made
from benchmarks.report import Goal, loads, table
from benchmarks.sections.blocks import Block
from benchmarks.web.first_view import chromium, sign_in
from benchmarks.web.large_home import POSTS, LargeHub, copied, kept
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

HEADS = ("ms", "requests", "p50", "p95", "most")
PART_HEADS = ("part of a key, ms", "p50", "p95", "CPU of the hub")

_QUERIES = 12  # of each language and page: about 200 keys
_WORDS_OF_QUERY = 2
_BETWEEN, _FAST = 0.12, 0.07  # seconds between two keys
_CALLS = 0.1  # seconds between two calls of the assistant
_PROBE = 0.02  # seconds between two questions of the probe
_WARM = 10  # requests that do not count
_PATIENCE = 60_000  # milliseconds
_KANA = "かきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもらりるれろ"

_COUNT = """path => performance.getEntriesByType("resource")
  .filter(each => each.name.includes(path) && each.responseStatus === 200).length"""
_TAKE = """path => {
  const found = performance.getEntriesByType("resource").filter(each => each.name.includes(path))
    .map(each => [each.responseEnd - each.startTime, each.responseStatus, each.name.includes("typing=1")]);
  performance.clearResourceTimings();
  return found;
}"""


class TypedRequests(NamedTuple):
    """Requests of one kind, and their milliseconds: the median, the 95th percentile, the maximum."""

    name: str
    requests: int
    p50: float
    p95: float
    most: float

    @classmethod
    def of(cls, name: str, ms: Sequence[float]) -> TypedRequests:
        found = sorted(ms)
        return cls(name, len(found), statistics.median(found), found[int(len(found) * 0.95)], found[-1])

    @property
    def texts(self) -> tuple[str, ...]:
        return self.name, f"{self.requests}", *(f"{ms:.1f}" for ms in (self.p50, self.p95, self.most))


class KeyPart(NamedTuple):
    """One part of what a key costs: milliseconds, and those of CPU in the hub."""

    name: str
    p50: float
    p95: float
    cpu: float

    @property
    def texts(self) -> tuple[str, ...]:
        return self.name, f"{self.p50:.1f}", f"{self.p95:.1f}", f"{self.cpu:.1f}"


class TypingFigures(NamedTuple):
    """All that was measured. ``memory`` is the hub's in MB: before the keys, after half, after all."""

    posts: int
    keys: list[TypedRequests]
    parts: list[KeyPart]
    lag: TypedRequests
    memory: tuple[float, float, float]
    load: str


def queries(sources: Sources) -> dict[str, list[str]]:
    """Return queries by language, of frequent and of rare words in the posts."""
    found: dict[str, list[str]] = {}
    for language in ("ja", "en"):
        terms = [list(words) for kind, words in sources.terms().items() if kind.endswith(language)]
        pairs = itertools.islice(zip(*terms, strict=False), _QUERIES)
        found[language] = [" ".join(pair[:_WORDS_OF_QUERY]) for pair in pairs]
    return found


def typed(sources: Sources) -> dict[str, list[str]]:
    """Return the text in the box after each key, by language."""
    return {
        language: [text for query in texts for text in _prefixes(query)]
        for language, texts in queries(sources).items()
    }


def _prefixes(query: str) -> Iterator[str]:
    for length in range(1, len(query) + 1):
        if not query[length - 1].isspace():
            yield query[:length]


# -- a browser -----------------------------------------------------------------------------------------


class Typist:
    """Types into one page of a browser, and reads what its requests took."""

    def __init__(self, page: Page, path: str) -> None:
        self._page, self._path = page, path
        self._session: CDPSession = page.context.new_cdp_session(page)
        page.evaluate("() => performance.setResourceTimingBufferSize(10000)")
        self._box = page.locator("input[name=q]").first

    def query(self, text: str, *, waits: bool = True) -> list[float]:
        """Type a query into the empty box. Return milliseconds: of each request, or of the last one."""
        self._box.focus()
        self._box.fill("")
        self._page.wait_for_timeout(300)
        self._take()
        found: list[float] = []
        for press in self._keys(text):
            began = time.perf_counter()
            press()
            if waits:
                self._page.wait_for_function(
                    f"path => ({_COUNT})(path) > 0", arg=self._path, timeout=_PATIENCE
                )
                found += [ms for ms, status, _ in self._take() if status == 200]
            self._page.wait_for_timeout(
                max(0.0, (_BETWEEN if waits else _FAST) - time.perf_counter() + began) * 1e3
            )
        if waits:
            return found
        self._page.wait_for_timeout(500)
        self._page.wait_for_function(f"path => ({_COUNT})(path) > 0", arg=self._path, timeout=_PATIENCE)
        return [ms for ms, status, _ in self._take() if status == 200][-1:]

    def _take(self) -> list[tuple[float, int, bool]]:
        return [tuple(each) for each in self._page.evaluate(_TAKE, self._path)]

    def _keys(self, text: str) -> Iterator[Callable[[], object]]:
        """Yield what each key does: a letter, or a word that was composed in kana."""
        if not text.isascii():
            for place, word in enumerate(text.split()):
                yield partial(self._compose, word if not place else f" {word}")
            return
        for letter in text:
            press = partial(self._page.keyboard.type, letter)
            if letter == " ":
                press()  # with it the query is the same
            else:
                yield press

    def _compose(self, word: str) -> None:
        size = 2 * len(word.strip())
        for length in range(1, size + 1):
            kana = "".join(_KANA[(7 * each + len(word)) % len(_KANA)] for each in range(length))
            composed = {"text": kana, "selectionStart": length, "selectionEnd": length}
            self._session.send("Input.imeSetComposition", composed)
        self._page.keyboard.insert_text(word)


PAGES = {"Home": ("/", "/home/search?q="), "Search": ("/search", "/search/results?")}


def of_browser(
    hub: LargeHub, browser: Browser, state: Any, texts: dict[str, list[str]]
) -> list[TypedRequests]:
    """Return what the requests of both pages took, in both languages."""
    found: list[TypedRequests] = []
    for name, (path, requests) in PAGES.items():
        with _typist(hub, browser, state, path, requests) as typist:
            for language, several in texts.items():
                if not found:
                    found.append(TypedRequests.of("the first query after a start", typist.query(several[0])))
                ms = [each for text in several for each in typist.query(text)]
                found.append(TypedRequests.of(f"{name}, {language}", ms))
    return found


def beside_an_assistant(
    hub: LargeHub, browser: Browser, state: Any, texts: dict[str, list[str]]
) -> list[TypedRequests]:
    """Return the same while an assistant calls a tool, and what a fast typist waits for the last key."""
    found: list[TypedRequests] = []
    with calling(hub), _typist(hub, browser, state, *PAGES["Home"]) as typist:
        for language, several in texts.items():
            ms = [each for text in several for each in typist.query(text)]
            found.append(TypedRequests.of(f"Home, {language}, beside an assistant", ms))
        last = [
            ms for several in texts.values() for text in several for ms in typist.query(text, waits=False)
        ]
        found.append(TypedRequests.of("Home, a fast typist: the last key", last))
    return found


@contextlib.contextmanager
def _typist(hub: LargeHub, browser: Browser, state: Any, path: str, requests: str) -> Iterator[Typist]:
    context = browser.new_context(storage_state=state, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(hub.page + path)
    page.locator("input[name=q]").first.wait_for()
    yield Typist(page, requests)
    context.close()


# -- others ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def calling(hub: HubProcess) -> Iterator[None]:
    """Have an assistant call a tool ten times a second."""
    ended = threading.Event()

    async def call() -> None:
        client = await Client.start([sys.executable, "-m", "tabane", "mcp"], hub.environment)
        await client.initialize()
        while not ended.is_set():
            await client.call({"name": "chat1__list_channels", "arguments": {"limit": 5}})
            await asyncio.sleep(_CALLS)
        await client.close()

    with _in_thread(lambda: asyncio.run(call()), ended):
        yield


@contextlib.contextmanager
def _in_thread(work: Callable[[], object], ended: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Probe:
    """Asks whether the hub is there, again and again: the milliseconds that others wait."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub, self._ended = hub, threading.Event()
        self.ms: list[float] = []

    def __enter__(self) -> Probe:
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._hub.port)
        while not self._ended.wait(_PROBE):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self.ms.append((time.perf_counter() - began) * 1e3)
        connection.close()


# -- the parts of a key ------------------------------------------------------------------------------------


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


PARTS: Mapping[str, Callable[[str], str]] = {
    "a request that finds nothing": lambda text: "/home/search?q=",
    "tools": lambda text: _results(text, "tools"),
    "posts": lambda text: _results(text, "posts"),
    "documents": lambda text: _results(text, "documents"),
    "pages": lambda text: _results(text, "pages"),
    "manual": lambda text: _results(text, "docs"),
    "all of them, ordered": lambda text: _results(text, ""),
    "Home": lambda text: f"/home/search?{urlencode({'q': text})}",
    "with meaning, after a pause": lambda text: _results(text, "", typing=False),
}
"""The address of each part of a key."""


def _results(text: str, kind: str, *, typing: bool = True) -> str:
    return f"/search/results?{urlencode({'q': text, 'in': kind} | ({'typing': '1'} if typing else {}))}"


def parts_of(hub: HubProcess, texts: dict[str, list[str]]) -> list[KeyPart]:
    """Return what each part of a key takes."""
    client = PageClient(hub)
    keys = [text for several in texts.values() for query in several for text in _prefixes(query)]
    return [_part(client, hub, name, [address(text) for text in keys]) for name, address in PARTS.items()]


def _part(client: PageClient, hub: HubProcess, name: str, paths: list[str]) -> KeyPart:
    for path in paths[:_WARM]:
        client.get(path)
    found, before = [], _own_cpu(hub)
    for path in paths:
        began = time.perf_counter()
        client.get(path)
        found.append((time.perf_counter() - began) * 1e3)
    cpu = (_own_cpu(hub) - before) / len(found) * 1e3
    row = TypedRequests.of(name, found)
    return KeyPart(name, row.p50, row.p95, cpu)


def _own_cpu(hub: HubProcess) -> float:
    used = psutil.Process(hub.pid).cpu_times()
    return float(used.user + used.system)


# -- all of it ---------------------------------------------------------------------------------------------


def figures(posts: int = POSTS, home: Path | None = None) -> TypingFigures | None:
    """Start a hub over a copy of the large home, or over ``home`` itself, and measure. None: no browser."""
    path = chromium()
    if path is None:
        return None
    with tempfile.TemporaryDirectory(prefix="typing-") as folder:
        hub = LargeHub(home) if home else copied(kept(posts), Path(folder) / "hub")
        hub.start()
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=path, args=["--disable-dev-shm-usage"])
                found = _measured(hub, browser, posts)
                browser.close()
                return found
        finally:
            hub.stop()


def _measured(hub: LargeHub, browser: Browser, posts: int) -> TypingFigures:
    sources = made(posts, vectors=False)
    texts = queries(sources)
    state = sign_in(browser, hub)
    before = hub.memory()[0]
    with Probe(hub) as probe:
        keys = of_browser(hub, browser, state, texts)
        half = hub.memory()[0]
        keys += beside_an_assistant(hub, browser, state, texts)
    memory = (before, half, hub.memory()[0])
    lag = TypedRequests.of("another request meanwhile", probe.ms)
    return TypingFigures(posts, keys, parts_of(hub, texts), lag, memory, loads())


def reached(found: TypingFigures) -> list[Goal]:
    """Return the goals: a key is answered before the next one is pressed, and memory does not grow."""
    rows = [row for row in found.keys if row.name.startswith(("Home", "Search"))]
    title = f"search as you type, model on, {found.posts:,} posts"
    return [
        Goal(f"{title}, p50", max(row.p50 for row in rows), 50, " ms", 1, limit_digits=0),
        Goal(f"{title}, p95", max(row.p95 for row in rows), 100, " ms", 1, limit_digits=0),
    ]


def blocks(found: TypingFigures) -> list[Block | str]:
    """Return the tables of the section."""
    first, half, last = found.memory
    return [
        f"Search as somebody types into a browser, among {found.posts:,} posts, 2,000 documents, 300 pages "
        f"and 460 tools, with the default model ({found.load}):",
        table(HEADS, (row.texts for row in [*found.keys, found.lag])),
        "Where the time of a key goes, measured without a browser, one request after the other:",
        table(PART_HEADS, (row.texts for row in found.parts)),
        f"Memory of the hub: {first:.0f} MB before the first key, {half:.0f} MB after half of them, "
        f"{last:.0f} MB after all.",
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web.typing")
    parser.add_argument("--posts", type=int, default=POSTS)
    parser.add_argument("--home", type=Path, help="a home that is used as it is, and changed")
    options = parser.parse_args(arguments)
    found = figures(options.posts, options.home)
    if found is None:
        print("no browser is installed (chromium)", file=sys.stderr)
        return
    print("\n\n".join(str(block) for block in blocks(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
