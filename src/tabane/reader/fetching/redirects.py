"""One fetch, from the requested URL to the response at the end of its redirects, under one policy.

Some sites set a cookie, redirect to the same page, and go in a circle without it. Cookies that servers set
while they redirect one read (RFC 6265, 5.2 to 5.4) are never stored. A cookie is sent to the host that set it
and, if it names a domain above that host, to the hosts of that domain.

This module is imported late, at the first fetch: it loads httpcore2, h2 and brotli.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.cookies import LONGEST_COOKIE, ImportedCookie, domain_of, may_be_sent
from tabane.reader.extraction import page_kinds
from tabane.reader.fetching.interface import FetchedResource, Policy, Resolver, SentCookies
from tabane.reader.fetching.network import GuardedHttpClient, RequestTurns, Source, StreamedResponse
from tabane.reader.fetching.network import source as local_address
from tabane.reader.fetching.responses import (
    TransientFetchError,
    UnfinishedBody,
    body,
    kept,
    late,
    media,
    refusal,
    seconds_to_wait,
    walled,
)
from tabane.reader.fetching.robots import LIMIT, RobotsCache
from tabane.reader.guard import Guard, Target, target

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

_MOVED = (301, 302, 303, 307, 308)
_PASSING = (429, 502, 503, 504)
_WALLED = frozenset({401, 403, 405, 429, 503})  # statuses of pages that check for bots
_TEXT_SHARE = 0.98  # of the time of a read, in which a text has to come: the rest is to end it
_SMALL, _SOON = 65_536, 1.0  # bytes and seconds of a body that nobody wants

_OURS = frozenset({
    "accept-encoding", "connection", "content-length", "cookie", "host", "proxy-authorization",
    "transfer-encoding", "user-agent",
})  # fmt: skip
"""Headers that nobody else sets."""


@dataclass(frozen=True, slots=True)
class RedirectLocation:
    """A redirect, with its location as written."""

    location: str


@dataclass(frozen=True, slots=True)
class FetchContext:
    """State that all redirect chains under one policy share. ``wall`` is the time as seconds since 1970."""

    policy: Policy
    guard: Guard
    network: GuardedHttpClient
    turns: RequestTurns
    sleep: Callable[[float], Awaitable[None]]
    wall: Callable[[], float]


class RedirectChain:
    """The hops of one read, each judged again.

    ``judge`` is called before each hop: may robots read it? ``within`` says whether a redirect may lead to
    an address: one that may not raises ReadError, cause ``outside``. ``cut``: a body longer than ``limit`` is
    cut there, without an error. ``until``: the time of the event loop at which a text is cut off, with a
    warning; other bodies fail. ``phase`` names the current step, for the error of a timeout.

    Cookies that a hop sets are sent to later ones. ``cookies`` are imported: they are sent until a hop leads
    to where they do not belong, and not again after it, because another host must not send the reader back
    with them.
    """

    def __init__(
        self,
        ground: FetchContext,
        judge: Callable[[Target], Awaitable[None]] | None = None,
        *,
        within: Callable[[Target], bool] | None = None,
        limit: int | None = None,
        cut: bool = False,
        cookies: SentCookies | None = None,
        until: float | None = None,
    ) -> None:
        self._until = until
        self._ground, self._judge, self._cut, self._sent = ground, judge, cut, cookies
        self._within = within
        self._limit = ground.policy.max_bytes if limit is None else limit
        self._set = SetCookies()
        self._seen: set[tuple[str, str]] = set()
        self.phase: Message = say("the reader")

    async def go(self, url: str, headers: Mapping[str, str], accept: str | None) -> FetchedResource:
        """Return the answer at the end. Raises ReadError."""
        begin = at = self._ground.guard.target(url)
        way = [at.url]
        while True:
            if self._judge is not None:
                self.phase = say("the robots.txt of {host}", host=at.authority)
                await self._judge(at)
            cookies = self._cookies(at)
            self._seen.add((at.url, cookies.get("Cookie", "")))
            # Given headers go only to the host that they were given for.
            own = {"User-Agent": self._ground.policy.user_agent, "Accept": accept or ACCEPT}
            own["Accept-Encoding"] = self._ground.network.encodings
            if same_server(begin, at):
                own |= {
                    name: " ".join(value.split())
                    for name, value in headers.items()
                    if name.lower() not in _OURS and not (name.lower() == "accept" and accept)
                }
            answer = await self._fetch_with_retries(at, own | cookies)
            if isinstance(answer, FetchedResource):
                return answer
            at = self._ground.guard.joined(at, answer.location)
            if self._within is not None and not self._within(at):
                raise ReadError(say("it redirects to {url}, outside the folder.", url=at.url), "outside")
            way.append(at.url)
            self._end_chain(way)

    def _end_chain(self, way: list[str]) -> None:
        """End a chain that goes in a circle, which no cookie was set in, or on and on."""
        if (way[-1], self._cookies(target(way[-1])).get("Cookie", "")) in self._seen:
            round_ = way[way.index(way[-1]) :]
            raise ReadError(
                say(
                    "the URL redirects in a circle: {way}. The site may need cookies. Import those of your "
                    "browser: tabane reader cookies {host} FILE",
                    way=" → ".join(round_[:4]), host=target(way[0]).authority,
                ),
                "redirect",
            )  # fmt: skip
        if len(way) > self._ground.policy.redirects + 1:
            raise ReadError(
                say(
                    "the URL redirects more than {count} {count:time|times}, the last time to {url}.",
                    count=self._ground.policy.redirects, url=way[-1],
                ),
                "redirect",
            )  # fmt: skip

    def _cookies(self, at: Target) -> dict[str, str]:
        """Return the header with the cookies for a request: imported ones, and those that a hop has set."""
        if self._sent is not None and not self._sent.jar.covers(at):
            self._sent = None
        value = self._sent.header(at, self._ground.wall()) if self._sent is not None else None
        fresh = self._set.pairs(at)
        pairs = [each for each in (value or "").split("; ") if each and each.partition("=")[0] not in fresh]
        pairs += [f"{name}={text}" for name, text in fresh.items()]
        return {"Cookie": "; ".join(pairs)} if pairs else {}

    async def _fetch_with_retries(
        self, at: Target, headers: Mapping[str, str]
    ) -> FetchedResource | RedirectLocation:
        """Return one hop, with the retries that it is worth."""
        for left in range(self._ground.policy.retries, -1, -1):
            try:
                return await self._request(at, headers)
            except TransientFetchError as trouble:
                tried = self._ground.policy.retries - left
                if trouble.wait is not None:
                    wait = trouble.wait if trouble.wait <= self._ground.policy.longest_wait else None
                else:
                    # A broken connection may have been an old one: its first retry is immediate.
                    at_once = trouble.error.cause == "broken"
                    wait = self._ground.policy.backoff * ((1, 2, 4)[min(tried, 2)] - at_once)
                if not left or wait is None:
                    raise trouble.error from None
                self.phase = say("waiting until {host} responds again", host=at.authority)
                await self._ground.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _request(self, at: Target, headers: Mapping[str, str]) -> FetchedResource | RedirectLocation:
        self.phase = say("waiting to send a request to {host}", host=at.authority)
        async with self._ground.turns.turn(at.host, self._ground.policy.gap):
            self.phase = say("an answer of {host}", host=at.authority)
            async with self._ground.network.answer(at, headers) as response:
                return await self._read_response(at, response)

    async def _read_response(
        self, at: Target, response: StreamedResponse
    ) -> FetchedResource | RedirectLocation:
        status, headers = response.status, response.headers
        if status in _MOVED:
            location = response.headers.get("location", "")
            if not location:
                raise ReadError(
                    say("{host} redirects (HTTP {status}) without an address.",
                        host=at.authority, status=response.status),
                    "redirect", status=response.status,
                )  # fmt: skip
            await _drain_body(response)
            self._set.take(at, response.headers.get("set-cookie", ""), self._ground.wall())
            return RedirectLocation(location)
        if not 200 <= status < 300 and status != 304:
            wait = seconds_to_wait(headers, self._ground.wall())
            error = refusal(status, at.authority, wait)
            data = await _drain_body(response)
            vendor = page_kinds.of_refusal(status, headers, data) if status in _WALLED else None
            if vendor is not None:
                raise walled(status, at.authority, vendor)
            raise TransientFetchError(error, wait) if status in _PASSING else error
        self.phase = say("the page at {host}", host=at.authority)
        kind, charset = media(headers.get("content-type", ""))
        data, late_warnings = b"", tuple[Message, ...]()
        if status not in (204, 205, 304):
            # Only the beginning of a text can be read without its end.
            until = self._until if kind.startswith("text/") or kind == "application/xhtml+xml" else None
            try:
                data = await body(response.stream, headers, self._limit, cut=self._cut, until=until)
            except UnfinishedBody as unfinished:
                data = unfinished.data
                if not data.strip():
                    raise late(self.phase, self._ground.policy.timeout) from None
                late_warnings = (
                    say(
                        "The server is slow. The page was cut off after {seconds:g} s, so its end is "
                        "missing. The setting reader_timeout can allow more.",
                        seconds=self._ground.policy.timeout,
                    ),
                )
        return FetchedResource(
            at.url, status, kept(headers), data, kind, charset, late_warnings, partial=bool(late_warnings)
        )


async def _drain_body(response: StreamedResponse) -> bytes:
    """Read a short body to its end, so that the connection can be used again, and return it."""
    with contextlib.suppress(TimeoutError, ReadError, TransientFetchError):
        async with asyncio.timeout(_SOON):
            return await body(response.stream, response.headers, _SMALL, cut=True)
    return b""


def same_server(begin: Target, at: Target) -> bool:
    """Return whether ``at`` is the server that ``begin`` is, as safe as it or safer."""
    if begin.host != at.host:
        return False
    upgraded = (begin.scheme, begin.port, at.scheme, at.port) == ("http", 80, "https", 443)
    return begin.origin == at.origin or upgraded


MOST = 50
"""Cookies of one read. Further ones are ignored."""


class SetCookies:
    """The cookies of one read. Those of the session live until it ends."""

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], tuple[ImportedCookie, bool]] = {}

    def take(self, at: Target, header: str, now: float) -> None:
        """Add the cookies of a response from ``at``. ``header`` has one Set-Cookie in each line."""
        for line in header.split("\n")[:MOST]:
            pair, *attributes = line.split(";")
            name, equals, value = (part.strip() for part in pair.partition("="))
            if not equals or not may_be_sent(name, value):
                continue
            settings = {
                key.strip().lower(): text.strip()
                for key, _, text in (each[:LONGEST_COOKIE].partition("=") for each in attributes)
            }
            domain = domain_of(settings.get("domain", "")) or at.host
            if domain != at.host and (
                at.address is not None or not ("." in domain and at.host.endswith("." + domain))
            ):
                continue
            path = settings.get("path", "")
            path = path if path.startswith("/") else at.path.partition("?")[0].rpartition("/")[0] or "/"
            host_only = domain_of(settings.get("domain", "")) is None
            self._cookies.pop((name, domain, path), None)
            if not _is_over(settings, now) and len(self._cookies) < MOST:
                cookie = ImportedCookie(name, value, domain, path, host_only)
                self._cookies[name, domain, path] = cookie, "secure" in settings

    def pairs(self, at: Target) -> dict[str, str]:
        """Return name and value of the cookies for a request, the one with the longest path of each name."""
        cookies = [
            cookie
            for cookie, secure in self._cookies.values()
            if cookie.is_for_host(at) and cookie.is_for_path(at.path) and (at.scheme == "https" or not secure)
        ]
        return {cookie.name: cookie.value for cookie in sorted(cookies, key=lambda each: len(each.path))}


def _is_over(attributes: dict[str, str], now: float) -> bool:
    """Return whether the attributes delete the cookie: Max-Age counts, else Expires."""
    age = attributes.get("max-age", "")
    if age.lstrip("-").isdecimal():
        return age.startswith("-") or not age.strip("0")
    try:
        return "expires" in attributes and parsedate_to_datetime(attributes["expires"]).timestamp() <= now
    except (ValueError, OverflowError):
        return False


_ROBOTS = "text/plain,*/*;q=0.5"


@dataclass(slots=True)
class PolicySession:
    """The connections and robots.txt files under one policy, and the number of fetches that use them."""

    context: FetchContext
    robots: RobotsCache
    users: int = 0

    async def fetch(
        self,
        url: str,
        headers: Mapping[str, str],
        accept: str | None,
        cookies: SentCookies | None,
        within: Callable[[Target], bool] | None = None,
    ) -> FetchedResource:
        """Return the whole resource at ``url``. Redirects lead only to addresses ``within`` bounds.

        Raises ReadError, with cause ``timeout`` when the policy's time is over.
        """
        policy = self.context.policy
        judge = self.robots.judge if policy.robots else None
        until = asyncio.get_running_loop().time() + policy.timeout * _TEXT_SHARE
        chain = RedirectChain(self.context, judge, within=within, cookies=cookies, until=until)
        try:
            async with asyncio.timeout(policy.timeout) as limit:
                return await chain.go(url, headers, accept)
        except TimeoutError:
            if limit.expired():
                raise late(chain.phase, policy.timeout) from None
            raise


async def open_session(
    policy: Policy,
    resolve: Resolver,
    source: Source | None,
    turns: RequestTurns | None,
    clock: Callable[[], float],
    wall: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> PolicySession:
    """Return a session under ``policy``. ``turns`` are those of an earlier session, whose limits go on."""
    guard = Guard(policy.allowed, policy.ports, resolves=policy.proxy is None)
    network = await asyncio.to_thread(GuardedHttpClient, policy, guard, resolve, source or local_address)
    context = FetchContext(policy, guard, network, turns or RequestTurns(clock, sleep), sleep, wall)

    async def robots_file(url: str) -> FetchedResource:
        return await RedirectChain(context, limit=LIMIT, cut=True).go(url, {}, _ROBOTS)

    return PolicySession(context, RobotsCache(robots_file, policy.product, policy.robots_timeout, clock))
