"""One page in a browser of its own: from its URL to the HTML that its scripts made.

The browser has a new profile, which is deleted at its end. Silence alone does not say that the content of a
page is there: a page may be silent before its script has begun, and another never is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.extraction import page_kinds
from tabane.reader.fetching.interface import FetchedResource, Policy, Resolver
from tabane.reader.fetching.network import GuardedNetworkBackend, Source
from tabane.reader.fetching.network import source as local_address
from tabane.reader.fetching.responses import media, refusal, walled
from tabane.reader.guard import Guard
from tabane.reader.rendering.chromium import (
    SCROLL,
    BrowserGone,
    DevToolsConnection,
    DevToolsError,
    RenderLimits,
    flags,
    program,
)
from tabane.reader.rendering.egress_proxy import EgressProxy

_HTML = ("text/html", "application/xhtml+xml", "")
_LOADED = "load"
_BETWEEN = 0.2  # seconds between two looks at a page
_LOOKS = 12  # looks at a page after a scroll, at most
_ANSWERING = 3.0  # seconds that a page may keep its snapshot waiting before its programs are stopped

# The resources of a page, without those that are not text. Frames are pages of their own.
_NEEDED = frozenset(
    {"Script", "Stylesheet", "XHR", "Fetch", "EventSource", "WebSocket", "Preflight", "Other"}
)
_PATTERNS = [
    {"urlPattern": "*", "requestStage": "Request"},
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
]

# APIs that bypass a proxy and that pages rarely need; the browser's flags disable them too.
_NARROW = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete self[name];"
    # No user can answer, and a script that opens endless dialogs could not be stopped between two of them.
    "self.alert = self.print = () => undefined; self.confirm = () => false; self.prompt = () => null;"
)


class PageVisit:
    """One visit to a page. The User-Agent is not set here: the browser's command line has it."""

    def __init__(
        self, talk: DevToolsConnection, gate: EgressProxy, guard: Guard, limits: RenderLimits
    ) -> None:
        self._talk, self._gate, self._guard, self._limits = talk, gate, guard, limits
        self.crashed = False
        self._target = self._session = self._loader = ""
        self._marks: set[str] = set()
        self._settled = asyncio.Event()
        self._status = 0
        self._error = ""
        self._unreachable = ""
        self._turned_away: ReadError | None = None
        self._requests = self._dialogs = 0
        self._challenged: set[str] = set()
        self._open = OpenRequests()
        self._wall: str | None = None
        self._heard: dict[str, Callable[[dict[str, Any]], None]] = {
            "Fetch.requestPaused": self._judge_request,
            "Fetch.authRequired": self._answer_challenge,
            "Network.requestWillBeSent": self._begun,
            "Network.loadingFinished": self._ended,
            "Network.loadingFailed": self._ended,
            "Page.lifecycleEvent": self._life_cycle_event,
            "Page.frameNavigated": self._frame_navigated,
            "Page.javascriptDialogOpening": self._answer_dialog,
        }

    async def go(self, url: str, scrolls: int = 0) -> FetchedResource:
        """Return the page as HTML, after it was scrolled by that many screens.

        Raises ReadError, and BrowserGone if the browser ended.
        """
        self._talk.heard = self._take_event
        await self._open_page()
        late = await self._load(url)
        self._raise_load_error(url)
        more = bool(scrolls) and not late and await self._scroll_down(scrolls)
        try:
            shown = await self._shown()
        except DevToolsError as error:
            raise ReadError(
                say("the browser cannot show the page: {reason}.", reason=error), "broken"
            ) from None
        self._raise_load_error(url)
        # Scripts may have led the browser to an address that is not a page.
        at = self._guard.target(str(shown["url"]))
        return FetchedResource(
            at.url,
            self._status or 200,
            {"content-type": "text/html; charset=utf-8"},
            str(shown["html"]).encode(),
            "text/html",
            "utf-8",
            warnings=tuple(self._warnings(late, more)),
        )

    async def _open_page(self) -> None:
        """Open an empty page, in a context that exists only in memory."""
        ask = self._talk.ask
        context = (await ask("Target.createBrowserContext", disposeOnDetach=True))["browserContextId"]
        await ask("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
        # Permissions that are not granted are refused without a prompt.
        await ask("Browser.grantPermissions", permissions=[], browserContextId=context)
        self._target = (
            await ask("Target.createTarget", url="about:blank", browserContextId=context)
        )["targetId"]  # fmt: skip
        attached = await ask("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        await ask("Target.setDiscoverTargets", discover=True)
        on = self._session
        self._talk.tell("Page.setPrerenderingAllowed", on, isAllowed=False)
        await asyncio.gather(
            ask("Page.enable", on),
            ask("Page.setLifecycleEventsEnabled", on, enabled=True),
            ask("Network.setBypassServiceWorker", on, bypass=True),
            ask("Network.enable", on, maxTotalBufferSize=1_000, maxResourceBufferSize=1_000),
            ask("Fetch.enable", on, patterns=_PATTERNS, handleAuthRequests=True),
            ask("Page.addScriptToEvaluateOnNewDocument", on, source=_NARROW),
        )

    async def _load(self, url: str) -> bool:
        """Return whether the time was up before the page showed its content. Raises ReadError if no page came
        at all.
        """
        try:
            async with asyncio.timeout(self._limits.settle):
                answer = await self._talk.ask("Page.navigate", self._session, url=url)
                self._error = str(answer.get("errorText", ""))
                await self._wait_for_content()
        except DevToolsError as error:
            raise ReadError(
                say("the browser cannot show the page: {reason}.", reason=error), "broken"
            ) from None
        except TimeoutError:
            if not self._status and not self._unreachable:
                self._raise_load_error(url)
                raise ReadError(
                    say("the page was not received within {seconds:g} s.", seconds=self._limits.settle),
                    "timeout",
                ) from None
            return True
        return False

    async def _wait_for_content(self) -> None:
        """Return when the content of the page is there, which may be one that its scripts led to."""
        clock = asyncio.get_running_loop().time
        before: Glimpse | None = None
        document, since, looked = "", clock(), clock()
        while True:
            await self._settled.wait()
            if self._unreachable or self._turned_away or (self._status >= 400 and self._wall is None):
                return
            if self._loader != document:
                document, since, before = self._loader, clock(), None
            now = await self._look_at_page()
            done = now is not None and is_there(before, now, clock() - since, self._limits.patience)
            # If a page has little, any request that is open may bring content.
            little = now is not None and now.text < ENOUGH
            quiet = self._open.none if little else self._open.quiet(clock(), looked)
            if done and quiet and self._wall is None:
                return
            before, looked = now, clock()
            await asyncio.sleep(_BETWEEN)

    async def _look_at_page(self) -> Glimpse | None:
        """Look at the page. None if it is being replaced by another."""
        value = await self._evaluate(GLIMPSE)
        return None if value is None else glimpse(value)

    async def _evaluate(self, expression: str) -> dict[str, Any] | None:
        """Return what the expression gives in a world that the scripts of the page cannot reach."""
        try:
            world = await self._talk.ask(
                "Page.createIsolatedWorld", self._session, frameId=self._target, worldName="looking"
            )
            answer = await self._talk.ask(
                "Runtime.evaluate", self._session, contextId=world["executionContextId"],
                returnByValue=True, expression=expression,
            )  # fmt: skip
        except DevToolsError:
            return None
        value = answer.get("result", {}).get("value")
        return value if isinstance(value, dict) and "exceptionDetails" not in answer else None

    async def _scroll_down(self, scrolls: int) -> bool:
        """Scroll down by screens, and wait after each for what it loads. Return whether more may follow."""
        grown = False
        try:
            async with asyncio.timeout(self._limits.scrolling):
                for _ in range(scrolls):
                    before = await self._look_at_page()
                    at = await self._evaluate(SCROLL)
                    after = await self._wait_until_calm()
                    grown = before is not None and after is not None and after.height > before.height
                    if not grown and (at is None or at.get("end")):
                        return False
        except TimeoutError:
            return True
        return grown

    async def _wait_until_calm(self) -> Glimpse | None:
        """Return a look at the page when it does not change any more, or after a while."""
        clock = asyncio.get_running_loop().time
        before = now = None
        looked = clock()
        for _ in range(_LOOKS):
            await asyncio.sleep(_BETWEEN)
            now = await self._look_at_page()
            if now is not None and is_still(before, now) and self._open.quiet(clock(), looked):
                break
            before, looked = now, clock()
        return now

    def _raise_load_error(self, url: str) -> None:
        """Raise the error that kept the page from loading. ``url`` is the requested URL."""
        if self._turned_away is not None and not self._status:
            raise self._turned_away
        if self._unreachable:
            raise self._load_error(self._unreachable)
        host = urlsplit(url).netloc
        if not self._status and (known := self._of_the_gate(host)) is not None:
            raise known
        if self._status >= 400:
            raise (
                refusal(self._status, host, None)
                if self._wall is None
                else walled(self._status, host, self._wall)
            )

    def _load_error(self, url: str) -> ReadError:
        host = urlsplit(url).netloc.rpartition("@")[2]
        if (known := self._of_the_gate(host)) is not None:
            return known
        error = self._error.removeprefix("net::")
        said = say(
            "the browser could not load the page from {host} ({error}).", host=host or url[:80], error=error
        )
        return ReadError(said, "tls" if error.startswith(("ERR_CERT_", "ERR_SSL_")) else "connect")

    def _of_the_gate(self, host: str) -> ReadError | None:
        """Return the proxy's error for ``host``, with or without its port."""
        known = {**self._gate.failed, **self._gate.refused}
        names = (host, f"{host}:443", f"{host}:80")
        return next((error for name, error in known.items() if name in names), None)

    async def _shown(self) -> dict[str, Any]:
        """Return the HTML of the page. Scripts that never end are stopped, and the page is read again."""
        try:
            async with asyncio.timeout(_ANSWERING):
                return await self._take_snapshot()
        except TimeoutError:
            self._talk.tell("Emulation.setScriptExecutionDisabled", self._session, value=True)
            self._talk.tell("Runtime.terminateExecution", self._session)
        return await self._take_snapshot()

    async def _take_snapshot(self) -> dict[str, Any]:
        world = await self._talk.ask(
            "Page.createIsolatedWorld", self._session, frameId=self._target, worldName="reader"
        )
        answer = await self._talk.ask(
            "Runtime.evaluate", self._session, contextId=world["executionContextId"], returnByValue=True,
            expression=program(self._limits.html, self._limits.nodes),
        )  # fmt: skip
        if "exceptionDetails" in answer:
            if "RangeError: large" in str(answer["result"].get("description", "")):
                raise ReadError(
                    say(
                        "the content of the page is too large: more than {size} "
                        "{size:character|characters} or {nodes} {nodes:element|elements}.",
                        size=self._limits.html, nodes=self._limits.nodes),
                    "large",
                )  # fmt: skip
            raise DevToolsError(str(answer["result"].get("description", ""))[:200])
        value: dict[str, Any] = answer["result"]["value"]
        return value

    def _warnings(self, late: bool, more: bool) -> list[Message]:
        said = []
        if self._gate.refused:
            hosts = ", ".join(list(self._gate.refused)[:5])
            said.append(
                say(
                    "The page's scripts requested hosts that the reader does not connect to: {hosts}.",
                    hosts=hosts,
                )
            )
        if self._gate.spent or self._requests > self._limits.requests:
            said.append(
                say(
                    "The page's scripts made more requests than are allowed for one page, so something "
                    "may be missing."
                )
            )
        if late:
            said.append(
                say("The page was not complete after {seconds:g} s. This is what it showed at that time.",
                    seconds=self._limits.settle)
            )  # fmt: skip
        if more:
            said.append(
                say(
                    "The page loaded more content with the last scroll. To read on, set scrolls to a "
                    "higher number."
                )
            )
        return said

    # Events of the browser

    def _take_event(self, method: str, said: dict[str, Any], session: str) -> None:
        if session == self._session and method in self._heard:
            self._heard[method](said)
        elif method == "Target.targetCreated":
            # Close a window that the page opened.
            target = said["targetInfo"]
            if target.get("type") == "page" and target.get("targetId") != self._target:
                self._talk.tell("Target.closeTarget", targetId=target["targetId"])
        elif method == "Target.targetCrashed" and said.get("targetId") == self._target:
            self.crashed = True
            self._talk.drop()
        elif method == "Target.targetDestroyed" and said.get("targetId") == self._target:
            self._talk.drop()

    def _judge_request(self, said: dict[str, Any]) -> None:
        if "responseStatusCode" in said or "responseErrorReason" in said:
            return self._judge_response(said)
        kind, main = said.get("resourceType"), said.get("frameId") == self._target
        if kind == "Document" and main:
            # Another document is loading: events of this one do not count any more.
            self._loader, self._marks = "", set()
            self._open.clear()
            self._settled.clear()
        elif kind not in _NEEDED or str(said["request"].get("headers", {}).get("Accept", "")).startswith(
            "image/"
        ):
            return self._fail_request(said, "BlockedByClient")
        self._requests += 1
        if self._requests > self._limits.requests or not _by_network(said["request"]["url"]):
            return self._fail_request(said, "BlockedByClient")
        return self._talk.tell("Fetch.continueRequest", self._session, requestId=said["requestId"])

    def _judge_response(self, said: dict[str, Any]) -> None:
        """The head of a document: whether it is one, and no file to be kept."""
        status = int(said.get("responseStatusCode") or 0)
        if said.get("frameId") != self._target or not 200 <= status < 600 or 300 <= status < 400:
            return self._talk.tell("Fetch.continueRequest", self._session, requestId=said["requestId"])
        headers = {one["name"].lower(): one["value"] for one in said.get("responseHeaders", ())}
        kind, _ = media(headers.get("content-type", ""))
        kept = headers.get("content-disposition", "").strip().lower().startswith("attachment")
        if (kept or kind not in _HTML) and status < 400:
            self._turned_away = ReadError(
                say("the page's scripts lead to a file ({kind}), not to a page.", kind=kind or say("bytes")),
                "type",
            )
            # The shown page is kept.
            self._settled.set()
            return self._fail_request(said, "Aborted")
        self._status, self._wall = status, page_kinds.by_headers(status, headers)
        return self._talk.tell("Fetch.continueRequest", self._session, requestId=said["requestId"])

    def _fail_request(self, said: dict[str, Any], why: str) -> None:
        self._talk.tell("Fetch.failRequest", self._session, requestId=said["requestId"], errorReason=why)

    def _answer_challenge(self, said: dict[str, Any]) -> None:
        """The proxy's question is answered, once; no other is."""
        challenge, request = said["authChallenge"], said["requestId"]
        ours = challenge.get("source") == "Proxy" and request not in self._challenged
        self._challenged.add(request)
        answer: dict[str, str] = {"response": "CancelAuth"}
        if ours:
            answer = {
                "response": "ProvideCredentials",
                "username": self._gate.user,
                "password": self._gate.password,
            }
        self._talk.tell(
            "Fetch.continueWithAuth", self._session, requestId=request, authChallengeResponse=answer
        )

    def _begun(self, said: dict[str, Any]) -> None:
        kind = str(said.get("type", ""))
        self._open.begin(str(said["requestId"]), kind, asyncio.get_running_loop().time())

    def _ended(self, said: dict[str, Any]) -> None:
        self._open.end(str(said["requestId"]))

    def _life_cycle_event(self, said: dict[str, Any]) -> None:
        if said["frameId"] != self._target:
            return
        if said["name"] == "commit" or said["name"] == "init":
            self._loader, self._marks = said["loaderId"], set()
        elif said["loaderId"] == self._loader:
            self._marks.add(said["name"])
            if _LOADED in self._marks:
                self._settled.set()

    def _frame_navigated(self, said: dict[str, Any]) -> None:
        frame = said["frame"]
        if not frame.get("parentId"):
            self._unreachable = str(frame.get("unreachableUrl", ""))
            if self._unreachable:
                self._settled.set()

    def _answer_dialog(self, said: dict[str, Any]) -> None:
        """Dismiss a dialog; accept one that asks whether to leave the page."""
        self._dialogs += 1
        if self._dialogs >= self._limits.dialogs:
            # At each event: one that arrives while the script waits for an answer may be lost.
            self._talk.tell("Emulation.setScriptExecutionDisabled", self._session, value=True)
            self._talk.tell("Runtime.terminateExecution", self._session)
        self._talk.tell(
            "Page.handleJavaScriptDialog", self._session, accept=said.get("type") == "beforeunload"
        )


def _by_network(url: str) -> bool:
    return url[:7].lower() in ("http://", "https:/") or url[:5].lower() in ("data:", "blob:")


ENOUGH = 200
"""Characters of text with which a page has content; a page of less may still be loading."""

_LEAST = 0.5  # seconds that scripts get after a page is loaded, to ask for more
_LONGEST = 4.0  # seconds after which a request is taken for one that is kept open
_CHANGES = 50  # a text that changes by less than this part of it is the same: a clock, a counter
_LOADING = re.compile(
    r"(?:now |page (?:is )?)?loading(?: (?:the )?(?:page|content|data|app|application))?"
    r"|please wait|just a (?:moment|second)"
    r"|one moment(?: please)?|initializing|starting"
    r"|(?:ただいま)?(?:読み込み中|ロード中|読込中)(?:です)?|(?:しばらく|少々)?お待ち(?:ください|下さい)",
    re.IGNORECASE,
)

GLIMPSE = """(() => {
  const body = document.body;
  if (!body) return {text: 0, nodes: 0, busy: false, words: "", height: 0};
  const every = body.getElementsByTagName("*");
  const nodes = every.length;
  const said = (nodes > 20000 ? body.textContent : body.innerText).trim();
  let text = said.length;
  if (text < 2000) {
    for (let at = 0; at < nodes && at < 3000; at++) {
      const inner = every[at].shadowRoot;
      if (inner) text += inner.textContent.trim().length;
    }
  }
  return {
    text, nodes, busy: body.querySelector('[aria-busy="true"], [role="progressbar"]') !== null,
    words: text < 200 ? said.slice(0, 200) : "", height: document.documentElement.scrollHeight,
  };
})()"""
"""The expression that looks at a page; each look takes some milliseconds, whatever the page's size."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A look at a page: characters of its visible text, its elements, and whether it says that it loads."""

    text: int = 0
    nodes: int = 0
    loading: bool = False
    height: int = 0


def glimpse(value: dict[str, Any]) -> Glimpse:
    """Return what the expression GLIMPSE gave."""
    words = " ".join(str(value.get("words", "")).split()).strip(" .…。!")
    text = int(value.get("text", 0))
    loading = text < ENOUGH and (bool(value.get("busy")) or _LOADING.fullmatch(words) is not None)
    return Glimpse(text, int(value.get("nodes", 0)), loading, int(value.get("height", 0)))


def is_still(before: Glimpse | None, now: Glimpse) -> bool:
    """Return whether nothing that matters changed between two looks."""
    if before is None or before.loading != now.loading:
        return False
    return (
        abs(now.text - before.text) <= now.text // _CHANGES
        and abs(now.nodes - before.nodes) <= now.nodes // _CHANGES
    )


def is_there(before: Glimpse | None, now: Glimpse, waited: float, patience: float) -> bool:
    """Return whether the content of a page is there, if no request is open.

    ``waited`` are the seconds since the page and its scripts were loaded. A page with enough text is done
    once it does not change. One with little text may be waiting for more: it gets ``patience`` seconds. One
    without text, or that says it is loading, is never done.
    """
    if now.loading or not now.text or not is_still(before, now):
        return False
    return waited >= (_LEAST if now.text >= ENOUGH else patience)


class OpenRequests:
    """The requests of a page that have not ended. Times are those of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    def begin(self, request: str, kind: str, now: float) -> None:
        """Note a request. Streams that stay open do not count."""
        if kind not in ("EventSource", "WebSocket", "Ping", "Media"):
            self._begun[request] = now

    def end(self, request: str) -> None:
        """Remove a request that has ended."""
        self._begun.pop(request, None)

    def clear(self) -> None:
        """Remove all requests."""
        self._begun.clear()

    @property
    def none(self) -> bool:
        """Whether no request is open."""
        return not self._begun

    def quiet(self, now: float, since: float) -> bool:
        """Return whether none was open from ``since`` to ``now``, but for those that stay open for long.

        Newer ones do not count: a page that polls its server always has one.
        """
        return all(begun > since or now - begun > _LONGEST for begun in self._begun.values())


class RenderedPage:
    """A page under one policy. To be shown once; :meth:`end` may come at any time."""

    def __init__(
        self,
        policy: Policy,
        limits: RenderLimits,
        resolve: Resolver,
        source: Source | None,
        errors: int | None,
    ) -> None:
        self._policy, self._limits = policy, limits
        self._guard = Guard(policy.allowed, policy.ports)
        self._network = GuardedNetworkBackend(self._guard, resolve, source or local_address)
        self._browser = BrowserProcess(limits, errors)

    async def shown(self, program: str, url: str, *, sandbox: bool, scrolls: int = 0) -> FetchedResource:
        """Return the page as HTML, after it was scrolled by that many screens. Raises ReadError."""
        if self._policy.proxy:
            raise ReadError(
                say("pages that are fetched through a proxy (the setting reader_proxy) are not rendered."),
                "way",
            )
        at = self._guard.target(url).url
        try:
            async with (
                asyncio.timeout(self._limits.seconds) as limit,
                EgressProxy(self._guard, self._network, self._limits, self._policy.connect_timeout) as gate,
            ):
                talk = await self._browser.start(
                    program,
                    lambda profile: flags(
                        profile, gate.name, gate.port, self._policy.user_agent, sandbox=sandbox
                    ),
                )
                visit = PageVisit(talk, gate, self._guard, self._limits)
                try:
                    await talk.ask("Browser.getVersion")
                except (BrowserGone, DevToolsError):
                    raise _start_error(await self._browser.end()) from None
                try:
                    return await visit.go(at, scrolls)
                except BrowserGone:
                    raise _ended(await self._browser.end(), visit.crashed) from None
        except TimeoutError:
            if not limit.expired():
                raise
            raise ReadError(
                say("rendering took more than {seconds:g} s and was stopped.", seconds=self._limits.seconds),
                "timeout",
            ) from None
        finally:
            await self.end()

    async def end(self) -> None:
        """End the browser, if there is one."""
        await self._browser.end()


def _start_error(report: BrowserExit) -> ReadError:
    """Return why it never answered."""
    if "usable sandbox" in report.said:
        return ReadError(
            say(
                "the browser has no sandbox on this system, so it is not used. Allow user "
                "namespaces, or, if the hub as a whole is isolated, set reader_render to "
                "unsandboxed."
            ),
            "way",
        )
    lines = [line for line in report.said.splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line]
    reason = (fatal or lines or [report.why])[-1][:300].rstrip(".")
    return ReadError(say("the browser cannot be started: {reason}.", reason=reason), "way")


def _ended(report: BrowserExit, crashed: bool) -> ReadError:
    if report.why == "memory":
        return ReadError(say("the page needs more memory than the browser may use for one page."), "large")
    if crashed:
        return ReadError(say("the page's scripts made the browser crash."), "broken")
    return ReadError(say("the browser ended before it showed the page."), "broken")


_KEEPER = str(Path(__file__).with_name("browser_watchdog.py"))
_ENDING = 15.0  # seconds
_USERS = (61_184, 65_519)  # those that no person has: systemd hands them out for a service's time


_FOLDER_LENGTH = (
    40  # characters of the folder that profiles are in: sockets in them have names of 104 at most
)


class BrowserExit(NamedTuple):
    """Why a browser ended: asked, memory, ended, unstarted; and the end of its stderr."""

    why: str
    status: int | None
    said: str


class BrowserProcess:
    """A browser and its watchdog process. ``errors`` is the descriptor for the stderr of the watchdog.

    Root never runs it as root: each browser gets its own user without rights, for which the browser's sandbox
    works as usual.
    """

    def __init__(self, limits: RenderLimits, errors: int | None = None) -> None:
        self._limits, self._errors = limits, errors
        self._keeper: asyncio.subprocess.Process | None = None
        self._profile = ""
        self._talk: DevToolsConnection | None = None
        self._ending: asyncio.Task[BrowserExit] | None = None

    async def start(self, program: str, arguments: Callable[[str], list[str]]) -> DevToolsConnection:
        """Start it. ``arguments`` are made for the folder of its profile. Raises ReadError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # The folder of the system for temporary files, or one with a shorter path.
                place = tempfile.gettempdir()
                self._profile = await asyncio.to_thread(
                    tempfile.mkdtemp,
                    prefix="tabane-page-",
                    dir=(place if len(place) <= _FOLDER_LENGTH or not os.access("/tmp", os.W_OK) else "/tmp"),
                )
                await self._start_keeper([program, *arguments(self._profile)], theirs.fileno())
            except OSError as error:
                ours.close()
                raise ReadError(
                    say("the browser cannot be started: {reason}.", reason=error), "way"
                ) from None
            except BaseException:
                ours.close()
                raise
        # JSON may write a character as six bytes.
        longest = 6 * self._limits.html + 1_000_000
        self._talk = DevToolsConnection(*await asyncio.open_connection(sock=ours, limit=longest))
        return self._talk

    async def end(self) -> BrowserExit:
        """End the browser. It may be called repeatedly, and completes even if a caller is canceled."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._ended())
        return await asyncio.shield(self._ending)

    async def _start_keeper(self, run: list[str], talk: int) -> None:
        user = _USERS[0] + secrets.randbelow(_USERS[1] - _USERS[0]) if os.geteuid() == 0 else None
        order = {
            "run": run, "talk": talk, "profile": self._profile, "user": user, "memory": self._limits.memory,
        }  # fmt: skip
        keeper = self._keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _KEEPER,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if self._errors is None else self._errors,
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
            pass_fds=(talk,), start_new_session=True,
        )  # fmt: skip
        assert keeper.stdin is not None
        keeper.stdin.write(msgspec.json.encode(order) + b"\n")
        await keeper.stdin.drain()

    async def _ended(self) -> BrowserExit:
        if self._talk is not None:
            await self._talk.close()
        said = b""
        if self._keeper is not None:
            said = await self._read_report(self._keeper)
        if self._profile:
            await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            return BrowserExit(**msgspec.json.decode(said, type=dict))
        return BrowserExit("ended", None, "")

    async def _read_report(self, keeper: asyncio.subprocess.Process) -> bytes:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.close()
        try:
            async with asyncio.timeout(_ENDING):
                said = await keeper.stdout.read()
                await keeper.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                keeper.kill()
            await keeper.wait()
            return b""
        return said
