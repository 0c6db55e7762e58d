"""Relevance of hits of different kinds in 0..1, by which they can be ordered together; pure.

Scores of several searches are not comparable: each has its own statistics of words. Comparable are the
share of the query's words that a hit covers, weighted by their rarity among all hits, and the cosine
between query and hit, on the scale of its model.

Words of grammar in a query: articles, pronouns, question words. They say nothing about what is searched.
In a small collection such a word may be the rarest of all, so it must not decide. Names are spelled with
a capital (May, the US, The Who), so they are not taken for grammar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from tabane.search.analysis import is_cjk, is_mixed, normalize, placed_runs, tokens

_WORDS = """
a an the of to in on at by for with from as is are was were be been being am it its this that these those
there here and or but if then else so than too very can could would should will shall may might must do does
did doing done have has had having i me my mine we us our ours you your yours he him she her hers they them
their theirs his what which who whom whose when where why how please let just also any some more most other
others such only same no not nor out up down over under again further into through during before after above
below between about against all each few both because while until don won isn doesn didn aren wasn weren
hasn haven hadn couldn shouldn wouldn
"""

FUNCTION_WORDS = frozenset(_WORDS.split())
"""English words of grammar, as they are written."""


def content(text: str) -> str:
    """Return a query without its words of grammar; the whole query if it has no others.

    Words keep their spelling and order. Japanese needs no list here: pairs of hiragana are no tokens.

    >>> content("when is the dentist appointment?")
    'dentist appointment?'
    >>> content("to be or not to be")
    'to be or not to be'
    """
    runs = list(placed_runs(text))
    empty = _grammar_places(runs)
    if not empty or len(empty) == len(runs):
        return text
    kept = [(start, run) for place, (start, run) in enumerate(runs) if place not in empty]
    if not any(_says_something(run) for _, run in kept):
        return text
    return _remove_runs(text, [runs[place] for place in sorted(empty)])


def _grammar_places(runs: Sequence[tuple[int, str]]) -> set[int]:
    """Return the places of words of grammar among the runs of a text."""
    words = [run for _, run in runs]
    some_lower = any(word.islower() for word in words)
    found = set[int]()
    for place, word in enumerate(words):
        name = some_lower and (place > 0 or (len(word) > 1 and word.isupper())) and word[0].isupper()
        bare = normalize(word.replace("’", "'").partition("'")[0])
        if bare in FUNCTION_WORDS and (bare == "i" or not name):
            found.add(place)
    return found


def _says_something(run: str) -> bool:
    return not is_cjk(run) or any(not "ぁ" <= letter <= "ゟ" for letter in run)


def _remove_runs(text: str, gone: Sequence[tuple[int, str]]) -> str:
    """Return the text without these runs, and with one space where one was."""
    edges = [0, *(edge for start, run in gone for edge in (start, start + len(run))), len(text)]
    pieces = [text[start:end] for start, end in list(pairwise(edges))[::2]]
    return " ".join(" ".join(pieces).split())


LONGEST_TEXT = 8_000
"""Characters of a text whose words are read."""

_MOST_WORDS = 64  # of a query
_MIXED = 0.4  # a bigram that is half hiragana is grammar more than content
_BODY = 0.8  # what a word counts below the title
_FULL = 0.58  # cosines of good answers are so far on the way from unrelated texts to the same text
_MEANING = 0.5  # the weight of the cosine beside the words
_USUAL = 0.05  # the cosine between unrelated texts, if nothing is known


class HitWords(Struct, frozen=True):
    """The words of a hit: those of its title and name, and those of its passage."""

    title: frozenset[str]
    body: frozenset[str]

    @classmethod
    def of(cls, title: str, body: str) -> HitWords:
        return cls(frozenset(tokens(title[:LONGEST_TEXT])), frozenset(tokens(body[:LONGEST_TEXT])))


def coverages(query: str, hits: Sequence[HitWords], *, unfinished: bool = False) -> list[float]:
    """Return for each hit the share in 0..1 of the query's words that it has.

    Words count by the root of their rarity among these hits; words of grammar do not count. A word counts
    most in a title. ``unfinished``: the last word is the beginning of a word.
    """
    asked = list(dict.fromkeys(tokens(content(query))))[:_MOST_WORDS]
    open_end = asked[-1] if unfinished and asked and not is_cjk(asked[-1]) else None
    found = [[_place_worth(word, hit, word == open_end) for word in asked] for hit in hits]
    weights = [
        (_MIXED if is_mixed(word) else 1.0) * _rarity(len(hits), sum(row[at] > 0 for row in found))
        for at, word in enumerate(asked)
    ]
    whole = sum(weights)
    if not whole:
        return [0.0] * len(hits)
    return [
        min(sum(weight * place for weight, place in zip(weights, row, strict=True)) / whole, 1.0)
        for row in found
    ]


def _place_worth(word: str, hit: HitWords, begins: bool) -> float:
    """Return what a word counts at its best place in a hit; 0 if it is not there."""
    for words, worth in ((hit.title, 1.0), (hit.body, _BODY)):
        if word in words or (begins and any(other.startswith(word) for other in words)):
            return worth
    return 0.0


def _rarity(hits: int, having: int) -> float:
    return math.sqrt(math.log(1 + (hits - having + 0.5) / (having + 0.5)))


def name_fit(query: str, name: str) -> float:
    """Return the share in 0..1 of the words of a name that the query has."""
    words = set(tokens(content(name[:LONGEST_TEXT])))
    return len(words & set(tokens(query))) / len(words) if words else 0.0


def closeness(cosine: float, usual: float | None) -> float:
    """Return what a cosine says, in 0..1: nothing at ``usual``, the cosine between unrelated texts.

    A cosine as of good answers, or above, says 1.
    """
    nothing = _USUAL if usual is None else usual
    return min(max((cosine - nothing) / max((1 - nothing) * _FULL, 1e-9), 0.0), 1.0)


def lowest(cosines: Iterable[float | None]) -> float | None:
    """Return the lowest cosine: the best guess for unrelated texts of a model that nobody measured."""
    return min((cosine for cosine in cosines if cosine is not None), default=None)


def relevance(coverage: float, near: float | None) -> float:
    """Return the relevance in 0..1 of a hit by its words and its closeness; by words if that is None."""
    return coverage if near is None else (1 - _MEANING) * coverage + _MEANING * near


def raised(value: float, times: float) -> float:
    """Return a relevance that something else speaks for, still in 0..1. 0 stays 0. ``times``: at least 0."""
    return 1.0 - math.pow(1 - value, 1 + times)
