"""Trails: what was read lately by one caller, with one client, in one folder.

A trail only gains labels. It ends after 30 minutes without a call, and not with a connection, so that a
client that connects again keeps what it has read.

A trail remembers the addresses that it has seen. The links of an untrusted text were there before anything
private was read, so each of them carries nothing. Which of them are followed, and how often, can: 26 links
spell a text. So they are counted.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import unquote, urljoin

import msgspec

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
    unescaped,
)
from tabane.guard.flows.naming import TrailTexts, compact
from tabane.guard.flows.targets import folded
from tabane.servers.labels import PRIVATE, READ_LABELS, UNTRUSTED

MOST_OWN = 512
MOST_LINKED = 2_000
MOST_HOSTS = 512
MOST_RELATIVE = 300
MOST_FAMILIES = 128
LONGEST_PRIVATE = 1 << 17
"""Bytes of private texts that a trail keeps, in memory alone. Of longer ones, the end."""

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
        "_said", "_shreds", "_used", "kept", "said", "whole",
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
        self._private: list[bytes] = []
        self._said: list[bytes] = []
        self.kept = self.said = 0
        self._last = 0
        self._counted_since = 0.0
        self.whole = True

    # -- what a trail learns ---------------------------------------------------------------------------

    def know(self, address: str) -> None:
        """Note an address that carries nothing away, because nothing untrusted can have asked for it."""
        _put(self._own, hash(plain_address(address) or address), None, MOST_OWN)

    def hear(self, given: bytes, *, asks: bool) -> None:
        """Note arguments from before anything untrusted was read. ``asks``: they look for something.

        The words of a question are its user's, so an address may repeat them. A text that is saved is not.
        """
        if b"/" in given or b"www." in given:
            for address in addresses_in(unescaped(given.decode("utf-8", "replace"))):
                self.know(address)
        size = len(given)
        if asks and size <= LONGEST_QUESTION:
            self._said.append(given)
            self.said += size
            while self.said > LONGEST_SAID + size:
                self.said -= len(self._said.pop(0))

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

    def keep(self, body: bytes) -> int:
        """Keep a private result (JSON), to see whether an address holds words of it.

        Return the bytes that are kept in addition.
        """
        before = self.kept
        self._private.append(body[-LONGEST_PRIVATE:])
        self.kept = after = before + len(self._private[-1])
        if after <= LONGEST_PRIVATE:
            return after - before
        self.whole = False
        while self.kept - len(self._private[0]) > LONGEST_PRIVATE:
            self.kept -= len(self._private.pop(0))
        self._private[0] = self._private[0][self.kept - LONGEST_PRIVATE :]
        self.kept = LONGEST_PRIVATE
        return self.kept - before

    def drop(self) -> int:
        """Forget the private texts, to make room. Then any word may be private. Return their bytes."""
        kept, self.kept = self.kept, 0
        self._private, self.whole = [], False
        return kept

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
        private = b"\n".join(self._private).decode("utf-8", "ignore")
        said = unescaped(b" ".join(self._said).decode("utf-8", "replace"))
        words = private_words(private, said[-LONGEST_SAID:])
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
"""Trails whose texts are kept."""

MOST_LABELED = 16_384
"""Trails whose labels and sources are kept, about a kilobyte each."""

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

    ``asked`` are tools with targets that a person was asked about, and ``passed`` those that one has let
    pass. Times are in seconds since 1970: ``since`` of the first label (0: it has none), ``used`` of the last
    call, ``kept`` of the last call that is on disk. ``addresses`` is what is known of addresses, and
    ``texts`` what was said and read. Both end with the hub.
    """

    key: TrailKey
    labels: int = 0
    private: dict[str, str] = field(default_factory=dict)
    untrusted: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    addresses: TrailAddresses = field(default_factory=TrailAddresses)
    texts: TrailTexts = field(default_factory=TrailTexts)
    since: float = 0.0
    used: float = 0.0
    kept: float = 0.0

    def add(self, labels: int, source: str, tool: str) -> bool:
        """Add the labels of a result. Return whether the trail knows more than before."""
        news = False
        if labels & PRIVATE and source not in self.private:
            news = _note(self.private, source, tool)
        if labels & UNTRUSTED and source not in self.untrusted:
            news = _note(self.untrusted, source, tool) or news
        self.labels |= labels & READ_LABELS
        if self.labels and not self.since:
            self.since = self.used
        return news

    def take(self, other: Trail) -> None:
        """Add all that another trail has read. What a person let pass there is not taken."""
        self.addresses.whole = self.addresses.whole and not other.labels & PRIVATE
        self.texts.whole = self.texts.whole and not other.labels & UNTRUSTED
        self.labels |= other.labels
        for sources, others in ((self.private, other.private), (self.untrusted, other.untrusted)):
            for source, tool in others.items():
                _note(sources, source, tool)
        self.since = min(self.since or other.since, other.since or self.since)
        self.used = max(self.used, other.used)

    def empty(self) -> int:
        """Keep only labels and sources, to make room. Return the characters that were forgotten."""
        size = self.texts.size + self.addresses.kept
        self.addresses, self.texts = TrailAddresses(), TrailTexts()
        self.addresses.whole = not self.labels & PRIVATE
        self.texts.whole = not self.labels & UNTRUSTED
        return size

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


TERMINAL = "tabane"
"""The client of calls in a terminal, alone or before the command, such as ``tabane tools call``.

A program that an assistant starts there can make them too.
"""


def _is_terminal(key: TrailKey) -> bool:
    return key.client == TERMINAL or key.client.startswith(f"{TERMINAL} ")


class Trails:
    """The trails of a hub.

    The texts of at most ``MOST_TRAILS`` of them are kept; of older ones, labels and sources remain. If there
    are more than ``most`` trails, the oldest one with labels is joined to :data:`SPILLED`.

    ``clock`` returns seconds since 1970, because trails outlive the hub. ``kept`` is the size of all texts.
    """

    def __init__(self, clock: Callable[[], float], most: int = MOST_LABELED) -> None:
        self.clock, self._most = clock, most
        self.kept = 0
        self._trails: dict[TrailKey, Trail] = {}
        self._full: dict[TrailKey, None] = {}
        self._shared: dict[TrailKey, None] = {}
        self._latest: Trail | None = None

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

    def counting(self, key: TrailKey) -> tuple[Trail, ...]:
        """Return the trails that count for a caller: its own first.

        A call in a terminal counts what the assistants in its folder have read, and theirs what it has read.
        """
        if not self.are_shared(key):
            own = self.find(key)
            return (own,) if own is not None else ()
        found = [self.find(key), self.spilled()]
        if _is_terminal(key):
            found += [self.find(each) for each in self._trails if each != key and _is_near(each, key)]
        else:
            found += [self.find(each) for each in self._shared if _is_near(each, key)]
        return tuple(trail for trail in found if trail is not None)

    def are_shared(self, key: TrailKey) -> bool:
        """Return whether other trails may count for a caller too."""
        return bool(self._shared) or _is_terminal(key)

    def use(self, key: TrailKey) -> Trail:
        """Return the trail of a caller that makes a call now; a new one if there is none."""
        now, trail = self.clock(), self._latest
        if trail is not None and trail.key is key and 0 <= now - trail.used <= IDLE:
            trail.used = now
            return trail
        trail = self._trails.pop(key, None)
        if trail is None or trail.over(now):
            if trail is not None:
                self.kept -= trail.empty()
            trail = Trail(key)
            self._make_place(now)
        trail.used = max(now, trail.used) if now - trail.used > -IDLE else now
        self._add(trail)
        return trail

    def _add(self, trail: Trail) -> None:
        key = trail.key
        self._trails[key] = self._latest = trail
        if _is_terminal(key):
            self._shared[key] = None
        self._full.pop(key, None)
        self._full[key] = None
        if len(self._full) > MOST_TRAILS:
            oldest = next(iter(self._full))
            del self._full[oldest]
            self.kept -= self._trails[oldest].empty()

    def _make_place(self, now: float) -> None:
        """Remove trails until there is place for one more: ended ones, then those without labels."""
        while len(self._trails) >= self._most:
            oldest = self._remove(next(key for key in self._trails if key != SPILLED))
            if not oldest.over(now) and oldest.labels:
                spilled = self._trails.pop(SPILLED, None) or Trail(SPILLED)
                spilled.take(oldest)
                self._trails[SPILLED] = spilled
                self._shared[SPILLED] = None

    def _remove(self, key: TrailKey) -> Trail:
        trail, self._latest = self._trails.pop(key), None
        self._full.pop(key, None)
        self._shared.pop(key, None)
        self.kept -= trail.empty()
        return trail

    def make_room(self, most: int) -> None:
        """Forget texts, those of the trail used longest ago first, until no more than ``most`` are kept."""
        for key in list(self._full):
            if self.kept <= most:
                return
            trail = self._trails[key]
            self.kept -= trail.texts.drop() + trail.addresses.drop()

    def restore(self, trail: Trail) -> None:
        """Add a trail of an earlier run, unless it has ended."""
        if not trail.over(self.clock()):
            trail.empty()
            self._trails[trail.key], self._latest = trail, None
            if _is_terminal(trail.key) or trail.key == SPILLED:
                self._shared[trail.key] = None

    def forget(self, fits: Callable[[TrailKey], bool]) -> int:
        """Remove the trails that fit. Return the number of those that had labels and had not ended."""
        now = self.clock()
        gone = [self._remove(key) for key in list(self._trails) if fits(key)]
        return sum(1 for trail in gone if trail.labels and not trail.over(now))


def _is_near(one: TrailKey, other: TrailKey) -> bool:
    """Return whether one of two trails of a holder is in the folder of the other, or below it."""
    if one.holder != other.holder or one == SPILLED:
        return False
    first, second = (_folder_of(each) for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _folder_of(key: TrailKey) -> str:
    folder = key.folder
    if folder.startswith("file://"):
        folder = unquote(folder.removeprefix("file://"))
    return folder.rstrip("/") + "/"


MOST_TEXTS = 20_000
"""Texts of servers whose labels are known."""

_LEAST_TEXT = 12
_PIECE = re.compile(r"[^\n.!?。！？]+")


class WrittenTexts:
    """What servers were given by clients that had read something untrusted, by the hash of each piece.

    Whoever reads it from the server later reads something untrusted. ``grown`` is called with what is new:
    server, hash and labels.
    """

    def __init__(self, grown: Callable[[list[tuple[str, int, int]]], None] = lambda new: None) -> None:
        self.grown = grown
        self._servers: dict[str, dict[int, int]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        return ((server, each, bits) for server, kept in self._servers.items() for each, bits in kept.items())

    def has(self, server: str) -> bool:
        """Return whether a server was given anything of that kind."""
        return server in self._servers

    def note(self, server: str, given: bytes, labels: int) -> None:
        """Note what a server is given (JSON) by a client that has read something with these labels."""
        kept = self._servers.get(server, {})
        new = [
            (server, each, labels)
            for each in _pieces_of(given)
            if kept.get(each, 0) | labels != kept.get(each)
        ]
        for each in new:
            self.restore(*each)
        if new:
            self.grown(new)

    def restore(self, server: str, piece: int, labels: int) -> None:
        """Add the hash of a text that an earlier hub has noted."""
        kept = self._servers.setdefault(server, {})
        if piece not in kept:
            self._count += 1
        kept[piece] = kept.pop(piece, 0) | labels
        if self._count > MOST_TEXTS:
            largest = max(self._servers.values(), key=len)
            del largest[next(iter(largest))]
            self._count -= 1

    def labels_of(self, server: str, result: bytes | memoryview | msgspec.Raw) -> int:
        """Return the labels of the texts in a result (JSON) of a server."""
        kept = self._servers.get(server)
        if not kept:
            return 0
        labels = 0
        for piece in _pieces_of(bytes(memoryview(result)[:LONGEST_PRIVATE])):
            labels |= kept.get(piece, 0)
        return labels


def _pieces_of(body: bytes) -> Iterator[int]:
    """Yield the hash of each sentence or line of the texts in JSON."""
    try:
        texts = list(_texts_in(msgspec.json.decode(body), 0))
    except (msgspec.DecodeError, ValueError, RecursionError):
        texts = [unescaped(body.decode("utf-8", "ignore"))]
    for text in itertools.islice(texts, MOST_LINKED):
        for found in itertools.islice(_PIECE.finditer(text), MOST_LINKED):
            piece = compact(folded(found[0]))
            if len(piece) >= _LEAST_TEXT and not piece.isdigit():
                yield int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=7).digest(), "big")


def _texts_in(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value[:1] in "[{" and depth < 12:
            with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
                yield from _texts_in(msgspec.json.decode(value), depth + 1)
                return
        yield value
    elif depth < 12 and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(each, depth + 1)
