"""The addresses that a trail has seen, and the rule whether a call may read one.

The links of an untrusted text were there before anything private was read, so each of them carries nothing.
Which of them are followed, and how often, can: 26 links spell a text. So they are counted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Literal, TypeVar
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
"""The same for a number of up to three digits."""

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
        """Return the characters of private texts that are kept."""
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
