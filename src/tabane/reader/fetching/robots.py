"""robots.txt by RFC 9309: which paths a site closes to crawlers.

Each file is fetched on first use and cached. Patterns are matched by finding their pieces one after the
other: a regular expression made of an untrusted pattern can take forever.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from string import ascii_letters, digits
from urllib.parse import quote, urlsplit

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.guard import Target

LIMIT = 500 * 1024
"""Bytes that are read; the rest is ignored (RFC 9309, 2.5)."""

KEPT = 3_600.0
"""Seconds for which an answer holds; RFC 9309, 2.4, allows a day."""

RETRIED = 60.0
"""Seconds before a robots.txt that could not be fetched is requested again."""

_AWAY = frozenset({"dns", "connect", "refused"})
"""Causes of errors of a host of which no page can be fetched either."""

_HOSTS = 1_000
_CHARACTERS = 4_000_000
_MUCH = 8_000
"""Characters of rules, or of a path, that take longer to compare than it takes to hand them to a thread."""

_UNRESERVED = frozenset(ascii_letters + digits + "-._~")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_PRODUCT = re.compile(r"[A-Za-z_-]+")
_LINES = re.compile(r"\r\n|\r|\n")
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
_SITEMAPS = 20


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of one program: (allowed, pattern), the longest pattern first, allowing before forbidding.

    ``delay`` is the number of seconds between two requests that the site asks for, and ``sitemaps`` are the
    addresses of its sitemaps as written.
    """

    lines: tuple[tuple[bool, str], ...] = ()
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()

    def allow(self, path: str) -> bool:
        """Return whether ``path``, with its query, may be read: the longest matching pattern decides."""
        path = _normal_path(path)
        if path == "/robots.txt":
            return True
        return next((allowed for allowed, pattern in self.lines if matches(pattern, path)), True)


def rules(text: str, product: str) -> RobotsRules:
    """Return those for ``product`` in a robots.txt: of all groups that name it, else of those for
    everybody.
    """
    # Only groups for these two are kept: a rule is one of all programs that are named before it, and a file
    # can name thousands.
    groups: dict[str, list[tuple[bool, str]]] = {}
    delays: dict[str, float] = {}
    sitemaps: list[str] = []
    programs = {product.lower(), "*"}
    agents: set[str] = set()
    begun = True
    for line in _LINES.split(text.removeprefix("\ufeff")):
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower() if colon else "", value.strip()
        if key == "user-agent":
            agents, begun = (set() if begun else agents), False
            if (name := _product_name(value)) in programs:
                agents.add(name)
                groups.setdefault(name, [])
        elif key in ("allow", "disallow"):
            begun = True
            if value and agents:
                rule = (key == "allow", _normal_path(value))
                for agent in agents:
                    groups[agent].append(rule)
        elif key == "crawl-delay":
            begun = True
            if _SECONDS.fullmatch(value):
                delays |= dict.fromkeys(agents, float(value))
        elif key == "sitemap" and value and len(sitemaps) < _SITEMAPS:
            sitemaps.append(value)
    agent = product.lower() if product.lower() in groups else "*"
    lines = sorted(set(groups.get(agent, [])), key=lambda rule: (-len(rule[1]), not rule[0], rule[1]))
    return RobotsRules(tuple(lines), delays.get(agent, 0.0), tuple(sitemaps))


def matches(pattern: str, path: str) -> bool:
    """Return whether ``path`` begins with ``pattern``: ``*`` matches anything, a final ``$`` the end of the
    path.
    """
    ends = pattern.endswith("$")
    begin, *rest = (pattern[:-1] if ends else pattern).split("*")
    if not path.startswith(begin):
        return False
    at = len(begin)
    if not rest:
        return not ends or at == len(path)
    for piece in rest[:-1]:
        place = path.find(piece, at)
        if place < 0:
            return False
        at = place + len(piece)
    if ends:
        return path.endswith(rest[-1]) and len(path) - len(rest[-1]) >= at
    return path.find(rest[-1], at) >= 0


def _product_name(value: str) -> str:
    """Return the product that a line of User-agent names: a version after it is not part of it."""
    if value.startswith("*"):
        return "*"
    match = _PRODUCT.match(value)
    return match[0].lower() if match else ""


def _normal_path(path: str) -> str:
    """Return a path or pattern with one spelling for each octet (RFC 9309, 2.2.2)."""
    return _ENCODED.sub(_normal_octet, quote(path, safe="/:@!$&'()*+,;=~%-._?[]|#"))


def _normal_octet(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


@dataclass(slots=True)
class _HostRobots:
    """The rules of one host. ``why`` is set if they could not be read: then no page may be read.

    ``away`` is the error if nobody answers there, or the host does not exist: it is that of the page too.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    until: float = -1.0
    rules: RobotsRules = field(default_factory=RobotsRules)
    size: int = 0
    why: Message | None = None
    away: ReadError | None = None


class RobotsCache:
    """Decides whether a program of this name may read a page.

    ``get`` fetches at most ``LIMIT`` bytes of a URL, under the guard. ``timeout`` is for a whole robots.txt.
    """

    def __init__(
        self,
        get: Callable[[str], Awaitable[FetchedResource]],
        product: str,
        timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self._get, self._product, self._timeout, self._clock = get, product, timeout, clock
        self._hosts: OrderedDict[str, _HostRobots] = OrderedDict()

    async def judge(self, target: Target) -> None:
        """Raise ReadError, cause ``robots``, if the host asks not to be read there."""
        robots = await self._host_robots(target)
        if robots.size > _MUCH or (robots.size and len(target.path) > _MUCH // 4):
            allowed = await asyncio.to_thread(robots.rules.allow, target.path)
        else:
            allowed = robots.rules.allow(target.path)
        if not allowed:
            raise ReadError(
                say(
                    "the robots.txt of {host} asks programs not to read this page. If a person "
                    "requests it, that is not a crawl: set reader_robots to never.",
                    host=target.authority,
                ),
                "robots",
            )

    async def rules_for(self, target: Target) -> RobotsRules:
        """Return the rules of a host. Raises ReadError if they, or the host, cannot be reached."""
        return (await self._host_robots(target)).rules

    async def _host_robots(self, target: Target) -> _HostRobots:
        origin = target.origin
        robots = self._hosts.setdefault(origin, _HostRobots())
        self._hosts.move_to_end(origin)
        async with robots.lock:
            if robots.until <= self._clock():
                await self._fetch_rules(origin, robots)
                self._forget_oldest()
        if robots.away is not None:
            raise ReadError(robots.away.message, robots.away.cause)
        if robots.why is not None:
            raise ReadError(
                say(
                    "the robots.txt of {host} cannot be read, and until then programs must not read "
                    "that site ({why}). Try again later, or set reader_robots to never.",
                    host=target.authority,
                    why=robots.why,
                ),
                "robots",
            )
        return robots

    async def _fetch_rules(self, origin: str, robots: _HostRobots) -> None:
        robots.rules, robots.why, robots.away, robots.size, kept = RobotsRules(), None, None, 0, KEPT
        try:
            async with asyncio.timeout(self._timeout):
                fetched = await self._get(origin + "/robots.txt")
            text = fetched.body.decode("utf-8", "replace")
            robots.rules, robots.size = await asyncio.to_thread(rules, text, self._product), len(text)
        except TimeoutError:
            robots.why, kept = say("it took too long."), RETRIED
        except ReadError as error:
            if error.cause in _AWAY and (urlsplit(origin).hostname or "") in str(error):
                robots.away, kept = error, RETRIED
            # No rules if it was 400 to 499, or redirects without an end (RFC 9309, 2.3.1.2 and 2.3.1.3).
            elif error.cause != "redirect" and not 400 <= (error.status or 0) < 500:
                robots.why, kept = error.message, RETRIED
        robots.until = self._clock() + kept

    def _forget_oldest(self) -> None:
        while len(self._hosts) > _HOSTS or sum(robots.size for robots in self._hosts.values()) > _CHARACTERS:
            oldest = next(iter(self._hosts))
            if self._hosts[oldest].lock.locked():
                return
            del self._hosts[oldest]
