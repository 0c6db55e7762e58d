"""The first view of each page in a real browser, and what the page costs the hub in memory.

Each view is that of a browser with an empty cache, signed in: :data:`VIEWS` of the home page, :data:`OTHERS`
of each other one. It is interactive when its
content is shown and its script runs. Bytes are those on the wire, headers included.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.hub import HubProcess
from playwright.sync_api import Browser, BrowserContext, CDPSession, sync_playwright

VIEWS = 15
OTHERS = 3
PATHS = (
    *("/", "/search", "/activity", "/questions", "/approvals", "/flows", "/assistants", "/servers"),
    *("/changes", "/tools", "/posts", "/documents", "/reader", "/jobs", "/usage", "/audit", "/keys"),
    *("/profiles", "/models", "/settings", "/health", "/preferences"),
)
UPSTREAM = str(Path(__file__).parents[1] / "gateway" / "upstream.py")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

_WATCH = """
window.seen = {ready: 0, paint: 0, shift: 0, blocked: 0};
new MutationObserver(() => {
  if (!seen.ready && document.querySelector("#app[aria-busy=false] main h1")) seen.ready = performance.now();
}).observe(document, {subtree: true, childList: true, attributes: true});
const watch = (type, take) => new PerformanceObserver(list => list.getEntries().forEach(take))
  .observe({type, buffered: true});
watch("largest-contentful-paint", entry => { seen.paint = entry.startTime; });
watch("layout-shift", entry => { if (!entry.hadRecentInput) seen.shift += entry.value; });
watch("longtask", entry => { seen.blocked += Math.max(0, entry.duration - 50); });
"""


class FirstView(NamedTuple):
    """One view: milliseconds since its request, bytes, requests, and how much its content moved."""

    ready: float
    paint: float
    blocked: float
    shift: float
    bytes: int
    requests: int


class PageFigures(NamedTuple):
    """All views, and the hub's memory in MB (resident, and what of it is its own) after each step."""

    views: list[FirstView]
    memory: dict[str, tuple[float, float]]
    pages: dict[str, list[FirstView]]

    def median(self, name: str, path: str = "") -> float:
        """Return the median of a figure of the home page, or of another one."""
        return statistics.median(float(getattr(view, name)) for view in self.pages.get(path, self.views))


def chromium() -> str | None:
    """Return the path of the browser, if there is one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def measure() -> PageFigures | None:
    """Start a hub and a browser, and measure. Returns None without a browser."""
    path = chromium()
    if path is None:
        return None
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as hub, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--disable-dev-shm-usage"])
        memory = {"before any request over HTTP": hub.memory()}
        urllib.request.urlopen(f"{root(hub)}/healthz").read()
        memory["after a request over HTTP"] = hub.memory()
        state = sign_in(browser, hub)
        memory["after the first page"] = hub.memory()
        views = [view(browser, hub, state) for _ in range(VIEWS)]
        memory[f"after {VIEWS} more first views"] = hub.memory()
        visit_all(browser, hub, state)
        memory["after every page"] = hub.memory()
        pages = {path: [view(browser, hub, state, path) for _ in range(OTHERS)] for path in PATHS}
        browser.close()
    return PageFigures(views, memory, pages)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[HubProcess]:
    """Run a hub over four servers with 115 tools."""
    hub = HubProcess(folder, TABANE_HTTP="true")
    kinds = ("chat", "files", "sql", "web")
    hub.configure({kind: {"command": sys.executable, "args": ["-S", UPSTREAM, kind]} for kind in kinds})
    hub.start()
    try:
        hub.tabane("tools", "list")
        yield hub
    finally:
        hub.stop()


def root(hub: HubProcess) -> str:
    return hub.url.removesuffix("/mcp")


def sign_in(browser: Browser, hub: HubProcess) -> Any:
    """Return what a browser keeps after it used a link."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(hub.tabane("open", "--print").strip())
    page.locator("main h1").first.wait_for()
    state = context.storage_state()
    context.close()
    return state


class Wire:
    """Counts bytes and requests of a page. The stream of events, which does not end, is not counted."""

    def __init__(self, session: CDPSession) -> None:
        self.bytes = self.requests = 0
        session.on("Network.loadingFinished", self._finished)
        session.send("Network.enable")

    def _finished(self, event: dict[str, Any]) -> None:
        self.bytes += int(event["encodedDataLength"])
        self.requests += 1


def view(browser: Browser, hub: HubProcess, state: Any, path: str = "/") -> FirstView:
    """Open a page in a browser with an empty cache."""
    context = browser.new_context(storage_state=state, viewport={"width": 1280, "height": 800})
    context.add_init_script(_WATCH)
    page = context.new_page()
    wire = Wire(context.new_cdp_session(page))
    page.goto(root(hub) + path)
    page.wait_for_function("() => window.seen.ready")
    page.wait_for_timeout(500)  # what it loads afterwards counts too
    seen = page.evaluate("() => window.seen")
    context.close()
    return FirstView(seen["ready"], seen["paint"], seen["blocked"], seen["shift"], wire.bytes, wire.requests)


def visit_all(browser: Browser, hub: HubProcess, state: Any) -> None:
    """Show every page once."""
    context: BrowserContext = browser.new_context(storage_state=state)
    page = context.new_page()
    for path in PATHS:
        page.goto(root(hub) + path)
        page.locator("#app[aria-busy=false] main h1").first.wait_for()
    context.close()
