"""Evidence in a text: signals near each other, weighed together. One signal is seldom enough.

The weight of a passage is the sum of its strongest signal of each sign, and more if it says both what is
wanted and where it is to go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tabane.gateway.scanning.signals import Sign, Signal

MEDIUM, HIGH = 4, 6
"""Weights of a passage from which it is a finding."""

PASSAGE = 700
"""Characters within which signals belong together."""

_MOST_HITS = 200

_WORDS = re.compile(r"[a-z0-9][\w'/-]*")
_NEGATED = re.compile(
    r"\b(?:not|never|don't|avoid|without|cannot|must not|nor|refuses? to|rather than|no|stop|prevents?|against) (?:\S+ ){0,4}$"
)
_QUOTED = re.compile(
    r"(?:detect|scan|flag|identif|prevent|block|reject|guard|protect|sanitiz|classif|filter|analy[sz]|phrase|pattern"
    r"|attack|attempt|inject|jailbreak|malicious|phishing|such as|e\.g|example|like|risk|vulnerab|explain|describe|what|learn|against|warn)"
    r"[^.!?\n]{0,160}$"
)
_NEGATABLE = frozenset({Sign.SECRETS, Sign.STUFFING, Sign.CHANNEL, Sign.CONVERSATION, Sign.OVERRIDE})
_QUOTABLE = frozenset({Sign.OVERRIDE, Sign.MARKUP, Sign.SECRECY, Sign.SECRETS, Sign.COMMAND})
_WANTED = frozenset({Sign.SECRETS, Sign.CONVERSATION})
_WAYS = frozenset({Sign.STUFFING, Sign.CHANNEL, Sign.REDIRECT})


class Hit(NamedTuple):
    """A signal that was found in a text."""

    start: int
    end: int
    sign: Sign
    weight: int


class Passage(NamedTuple):
    """Signals that belong together, and their weight."""

    weight: int
    hits: tuple[Hit, ...]

    @property
    def signs(self) -> frozenset[Sign]:
        return frozenset(hit.sign for hit in self.hits)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in small letters, as signals name them."""
    return frozenset(_WORDS.findall(text))


def hits_of(text: str, words: frozenset[str], signals: Iterable[Signal]) -> list[Hit]:
    """Return what the signals find in a text, at most 200 times each, in their order in the text."""
    hits: list[Hit] = []
    for signal in signals:
        if signal.may_be_in(words):
            hits.extend(_found(text, signal))
    hits.sort(key=lambda hit: (hit.start, hit.end))
    return hits


def _found(text: str, signal: Signal) -> Iterable[Hit]:
    for number, found in enumerate(signal.expression.finditer(text)):
        if number >= _MOST_HITS:
            break
        before = text[max(0, found.start() - 180) : found.start()]
        if signal.sign in _NEGATABLE and _NEGATED.search(before[-60:]):
            continue
        if signal.sign in _QUOTABLE and _QUOTED.search(before):
            continue
        yield Hit(found.start(), found.end(), signal.sign, signal.weight)


NO_PASSAGE = Passage(0, ())


def heaviest(hits: Sequence[Hit]) -> Passage:
    """Return the passage with the most evidence. ``hits`` are in their order in the text."""
    here = _Passing()
    best = first = 0
    kept = (0, 0)
    for last, hit in enumerate(hits):
        here.add(hit)
        while hits[first].start < hit.end - PASSAGE and first < last:
            here.remove(hits[first])
            first += 1
        weight = here.weight()
        if weight > best:
            best, kept = weight, (first, last + 1)
    return Passage(best, tuple(hits[slice(*kept)])) if best else NO_PASSAGE


class _Passing:
    """The signals of a passage that moves over the text, counted by sign and weight."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Sign, int]] = Counter()

    def add(self, hit: Hit) -> None:
        self._counts[hit.sign, hit.weight] += 1

    def remove(self, hit: Hit) -> None:
        self._counts[hit.sign, hit.weight] -= 1

    def weight(self) -> int:
        return weigh(key for key, count in self._counts.items() if count > 0)


def weigh(signals: Iterable[tuple[Sign, int]]) -> int:
    """Return the weight of signals that belong together: pairs of sign and weight."""
    strongest: dict[Sign, int] = {}
    for sign, weight in signals:
        strongest[sign] = max(strongest.get(sign, 0), weight)
    complete = not _WANTED.isdisjoint(strongest) and not _WAYS.isdisjoint(strongest)
    return sum(strongest.values()) + (1 if complete else 0)
