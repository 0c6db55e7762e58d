"""Trails: what was read lately by one caller, with one client, in one folder.

A trail only gains labels. It ends after 30 minutes without a call, and not with a connection, so that a
client that connects again keeps what it has read.

A trail remembers the addresses that it has seen. The links of an untrusted text were there before anything
private was read, so each of them carries nothing. Which of them are followed, and how often, can: 26 links
spell a text. So they are counted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import unquote, urljoin

from tabane.guard.flows.addresses import (
    LONGEST_ADDRESS,
    AddressParts,
    addresses_in,
    host_of,
    hosts_in,
    is_known_site,
    looks_encoded,
    plain_address,
    private_words,
    shape_of,
    shreds_of,
    site_of,
)
from tabane.servers.labels import PRIVATE, READ_LABELS, UNTRUSTED

MOST_OWN = 512
MOST_LINKED = 2_000
MOST_HOSTS = 512
MOST_RELATIVE = 300
MOST_FAMILIES = 128
LONGEST_PRIVATE = 1 << 17
"""Characters of private texts that a trail keeps, in memory alone. Of longer ones, the end."""

LONGEST_SAID = 1 << 14
LONGEST_QUESTION = 1_000

MOST_ELSEWHERE = 12
"""Addresses of other sites than the one that linked them, and made-up ones, that a trail may read."""

MOST_WITHIN = 20
"""Links to the same site as their page, and repetitions, that a trail may read."""

MOST_LETTERS = 3
"""Addresses that differ in one character alone, and are not read in their order."""

MOST_NUMBERS = 8
"""Addresses that differ in a number of up to three digits alone, and are not read in their order."""

MOST_WORDS = 4
"""Made-up addresses with a word of a private text, on sites that something untrusted has named."""

MOST_OPAQUE = 3
"""Made-up addresses with a code that is no text, such as the hash of a commit, on other sites than those."""

REFILL = 1800.0
"""Seconds after which a trail may use its bounds up again: a client that works all day is one trail."""

Price = Literal["", "elsewhere", "within", "letter", "number", "word", "opaque"]
"""The limit of a trail that reading an address counts against; empty if none."""

_BOUNDS = {
    "elsewhere": MOST_ELSEWHERE, "within": MOST_WITHIN, "letter": MOST_LETTERS, "number": MOST_NUMBERS,
    "word": MOST_WORDS, "opaque": MOST_OPAQUE,
}  # fmt: skip
_RELATIVE = re.compile(r"\]\(((?![a-z+]+:|//|#)[^\s()\\\"]{1,500})[)#]")
_Value = TypeVar("_Value")
_SHORT = re.compile(r"(?<![^\W_])(?:\d{2,3}|[^\W_])(?![^\W_])")


class TrailAddresses:
    """Addresses by the hash of their text: own ones, links of untrusted texts, and those that were read.

    ``whole``: False if private texts were read that are not known here, as after a restart.
    """

    __slots__ = (
        "_counted_since", "_families", "_hosts", "_last", "_linked", "_named", "_own", "_private", "_read",
        "_said", "_shreds", "_used", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self._own: dict[int, None] = {}
        self._linked: dict[int, bool] = {}
        self._read: dict[int, None] = {}
        self._named: dict[int, None] = {}
        self._hosts: dict[str, None] = {}
        self._families: dict[int, int] = {}
        self._used = dict.fromkeys(_BOUNDS, 0)
        self._shreds: list[tuple[str, ...]] = []
        self._private = self._said = ""
        self._last = 0
        self._counted_since = 0.0
        self.whole = True

    # -- what a trail learns ---------------------------------------------------------------------------

    def know(self, address: str) -> None:
        """Note an address that carries nothing away, because nothing untrusted can have asked for it."""
        _put(self._own, hash(plain_address(address) or address), None, MOST_OWN)

    def hear(self, text: str, *, asks: bool) -> None:
        """Note what was said before anything untrusted was read. ``asks``: it looks for something.

        The words of a question are its user's, so an address may repeat them. A text that is saved is not.
        """
        for address in addresses_in(text):
            self.know(address)
        if not asks or len(text) > LONGEST_QUESTION:
            return
        self._said = (self._said + " " + text)[-LONGEST_SAID:]

    def write(self, text: str) -> None:
        """Note what was written after something untrusted was read: it may come back in a result."""
        for host in hosts_in(text):
            if len(self._hosts) < MOST_HOSTS:
                self._hosts[host] = None

    def find(self, text: str) -> None:
        """Note the addresses of a trusted text, but not those that the trail may have written into it."""
        for address in addresses_in(text):
            if not self._wrote(address):
                self.know(address)

    def link(self, text: str, page: str = "") -> None:
        """Note the addresses of an untrusted text, which is a page if its address is given."""
        home = site_of(host_of(page)) if page else ""
        for address in addresses_in(text):
            if self._wrote(address):
                continue
            site = site_of(host_of(address))
            _put(self._linked, hash(address), site == home, MOST_LINKED)
            _put(self._named, hash(site), None, MOST_HOSTS)
        for found in itertools.islice(_RELATIVE.finditer(text), MOST_RELATIVE) if page else ():
            _put(self._linked, hash(plain_address(urljoin(page, found[1]))), True, MOST_LINKED)

    def keep(self, text: str) -> None:
        """Keep a private result (JSON), to see whether an address holds words of it."""
        if len(self._private) + len(text) > LONGEST_PRIVATE:
            self.whole = False
        self._private = (self._private + "\n" + text)[-LONGEST_PRIVATE:]

    @property
    def kept(self) -> int:
        """The characters of private texts that are kept."""
        return len(self._private)

    def drop(self) -> None:
        """Forget the private texts, to make room. Then any word may be private."""
        self._private, self.whole = "", False

    def _wrote(self, address: str) -> bool:
        if not self._hosts:
            return False
        host = host_of(address)
        return len(self._hosts) >= MOST_HOSTS or host in self._hosts or host.partition(":")[0] in self._hosts

    # -- what it may read --------------------------------------------------------------------------------

    def price(self, address: str, *, again: bool = False, fresh: bool = False) -> Price | None:
        """Return what reading an address uses up; None if a person has to be asked.

        ``again``: the call goes on with the page that was read last. ``fresh``: its site sees each call.
        """
        if not address or len(address) > LONGEST_ADDRESS:
            return None
        key, known = hash(address), is_known_site(host_of(address))
        if again and key == self._last:
            return ""
        if key in self._own:
            return self._left("within") if fresh and key in self._read and not known else ""
        seen = key in self._read or key in self._linked
        made_up: Price | None = "" if seen else self._price_made_up(address, known=known)
        if made_up is None or known:
            return made_up
        step = self._step(address)
        if step in ("letter", "number"):
            return self._left(step)
        if seen:
            return self._left("within" if key in self._read or self._linked[key] else "elsewhere")
        return "" if step == "next" else made_up

    def knows(self, address: str) -> bool:
        """Return whether an address was read before, or carries nothing away."""
        return hash(address) in self._own or hash(address) in self._read

    def _price_made_up(self, address: str, *, known: bool) -> Price | None:
        """Return what an address uses up that nobody has shown; None if it may carry something away."""
        parts = AddressParts.of(address)
        if any(self._is_unseen(inner) for inner in parts.inner):
            return None
        if known:
            return ""
        words = private_words(self._private, self._said)
        shreds = shreds_of(parts)
        words.whole = self.whole
        if words.are_in(parts) or (shreds and words.are_spelled([*self._shreds, shreds])):
            return None
        named = hash(site_of(host_of(address))) in self._named
        if looks_encoded(parts):
            alike = hash(shape_of(address)) in self._named
            return (
                self._left("opaque")
                if (alike or not named) and not looks_encoded(parts, opaque=True)
                else None
            )
        return self._left("word" if named and words.has_word_in(parts.path) else "elsewhere")

    def _is_unseen(self, inner: str) -> bool:
        key = hash(inner)
        return not (key in self._own or key in self._linked or key in self._read)

    def refill(self, now: float) -> None:
        """Begin to count again if the bounds have been in use for long."""
        if now - self._counted_since >= REFILL:
            self._counted_since = now
            self._used = dict.fromkeys(_BOUNDS, 0)
            self._shreds.clear()

    def _left(self, price: Price) -> Price | None:
        return price if self._used[price] < _BOUNDS[price] else None

    def _step(self, address: str) -> Literal["", "next", "letter", "number"]:
        """Return how an address differs from one that was read: in a short part, or as the next of its kind.

        Addresses that differ in one character alone can spell a text, unless they are read in their order.
        """
        found: Literal["", "next", "number"] = ""
        for family, value in _families_of(address):
            last = self._families.get(family)
            if last is None or last == value:
                continue
            if last >= 0 and value == last + 1:
                found = found or "next"
            elif max(last, value) < 10:
                return "letter"
            else:
                found = "number"
        return found

    def take(self, address: str, price: Price, *, trusted: bool) -> None:
        """Note that an address is read. ``trusted``: nothing untrusted can have asked for it."""
        key = hash(address)
        if trusted:
            self.know(address)
        elif price in ("elsewhere", "word") and key not in self._linked:
            self._shreds += filter(None, (shreds_of(AddressParts.of(address)),))  # as few as their bounds
        if price:
            self._used[price] += 1
        _put(self._read, key, None, MOST_OWN)
        self._last = key
        _put(self._named, hash(site_of(host_of(address))), None, MOST_HOSTS)
        if (shape := shape_of(address)) != address:
            _put(self._named, hash(shape), None, MOST_HOSTS)
        for family, value in _families_of(address):
            _put(self._families, family, value, MOST_FAMILIES)


def _families_of(address: str) -> Iterator[tuple[int, int]]:
    """Yield for each short part of an address what is around it, and its number; negative for a letter."""
    address = unquote(address)
    for found in itertools.islice(_SHORT.finditer(address, address.find("://") + 3), 6):
        family = hash((address[: found.start()], address[found.end() :]))
        yield family, int(found[0]) if found[0].isdecimal() else -ord(found[0])


def _put(kept: dict[int, _Value], key: int, value: _Value, most: int) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


IDLE = 1800.0
"""Seconds without a call after which a trail ends."""

STALE = 30.0
"""Seconds that the time on disk may lag behind."""

MOST_TRAILS = 1_024
MOST_SOURCES = 16
"""Sources of one label in a trail. Further ones are :data:`OTHERS`."""

LONGEST_KEY = 512
"""Characters of a client's name or folder. Longer ones are cut, and share a trail if they begin alike."""

OTHERS = "…"


class TrailKey(NamedTuple):
    """Whose trail it is: the holder, the name of the client, and its working folder."""

    holder: str
    client: str
    folder: str


SPILLED = TrailKey("", "", "")
"""The trail of all that had to make room. It counts for everybody, so that making room washes nothing off."""


@dataclass(slots=True)
class Trail:
    """The labels that one conversation has read. Its sources name the server and tool that brought a label.

    ``asked`` are pairs that a person was asked about, and ``passed`` those that one has let pass. Times are
    in seconds since 1970: ``since`` of the first label (0: it has none), ``used`` of the last call, ``kept``
    of the last call that is on disk. ``addresses`` is what is known of addresses. It ends with the hub.
    """

    key: TrailKey
    labels: int = 0
    private: dict[str, str] = field(default_factory=dict)
    untrusted: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    addresses: TrailAddresses = field(default_factory=TrailAddresses)
    since: float = 0.0
    used: float = 0.0
    kept: float = 0.0

    def add(self, labels: int, source: str, tool: str) -> bool:
        """Add the labels of a result. Return whether the trail knows more than before."""
        news = False
        if labels & PRIVATE:
            news = _note(self.private, source, tool)
        if labels & UNTRUSTED:
            news = _note(self.untrusted, source, tool) or news
        self.labels |= labels & READ_LABELS
        if self.labels and not self.since:
            self.since = self.used
        return news

    def take(self, other: Trail) -> None:
        """Add all that another trail has read. What a person let pass there is not taken."""
        self.addresses.whole = self.addresses.whole and not other.labels & PRIVATE
        self.labels |= other.labels
        for sources, others in ((self.private, other.private), (self.untrusted, other.untrusted)):
            for source, tool in others.items():
                _note(sources, source, tool)
        self.since = min(self.since or other.since, other.since or self.since)
        self.used = max(self.used, other.used)

    @property
    def is_stale(self) -> bool:
        """Whether the time on disk is so old that the trail would end too early after a restart."""
        return self.used - self.kept > STALE

    def over(self, now: float) -> bool:
        """Return whether it has ended. A clock that was set back ends nothing."""
        return now - self.used > IDLE


def _note(sources: dict[str, str], source: str, tool: str) -> bool:
    if source in sources or OTHERS in sources:
        return False
    sources[source if len(sources) < MOST_SOURCES else OTHERS] = tool
    return True


class Trails:
    """The trails of a hub. At the limit, the oldest is joined to :data:`SPILLED`.

    ``clock`` returns seconds since 1970, because trails outlive the hub.
    """

    def __init__(self, clock: Callable[[], float], most: int = MOST_TRAILS) -> None:
        self.clock, self._most = clock, most
        self._trails: dict[TrailKey, Trail] = {}

    def __iter__(self) -> Iterator[Trail]:
        now = self.clock()
        return iter([trail for trail in self._trails.values() if not trail.over(now)])

    def find(self, key: TrailKey) -> Trail | None:
        """Return the trail of a caller; None if there is none."""
        trail = self._trails.get(key)
        return None if trail is None or trail.over(self.clock()) else trail

    def spilled(self) -> Trail | None:
        """Return what counts for every caller."""
        return self.find(SPILLED)

    def use(self, key: TrailKey) -> Trail:
        """Return the trail of a caller that makes a call now; a new one if there is none."""
        now = self.clock()
        trail = self._trails.pop(key, None)
        if trail is None or trail.over(now):
            trail = Trail(key)
            while len(self._trails) >= self._most:
                oldest = self._trails.pop(next(key for key in self._trails if key != SPILLED))
                if not oldest.over(now) and oldest.labels:
                    spilled = self._trails.pop(SPILLED, None) or Trail(SPILLED)
                    spilled.take(oldest)
                    self._trails[SPILLED] = spilled
        trail.used = max(now, trail.used) if now - trail.used > -IDLE else now
        self._trails[key] = trail
        return trail

    def restore(self, trail: Trail) -> None:
        """Add a trail of an earlier run, unless it has ended."""
        if not trail.over(self.clock()):
            trail.addresses.whole = not trail.labels & PRIVATE
            self._trails[trail.key] = trail

    def forget(self, fits: Callable[[TrailKey], bool]) -> int:
        """Remove the trails that fit. Return the number of those that had labels and had not ended."""
        now = self.clock()
        gone = [self._trails.pop(key) for key in list(self._trails) if fits(key)]
        return sum(1 for trail in gone if trail.labels and not trail.over(now))
