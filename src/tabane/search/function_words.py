"""Words of grammar in a query: articles, pronouns, question words. They say nothing about what is searched.

In a small collection such a word may be the rarest of all, so it must not decide. Names are spelled with a
capital (May, the US, The Who), so they are not taken for grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tabane.search.analysis import is_cjk, normalise, placed_runs

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
    empty = _empty(runs)
    if not empty or len(empty) == len(runs):
        return text
    kept = [(start, run) for place, (start, run) in enumerate(runs) if place not in empty]
    if not any(_says_something(run) for _, run in kept):
        return text
    return _without(text, [runs[place] for place in sorted(empty)])


def _empty(runs: Sequence[tuple[int, str]]) -> set[int]:
    """Return the places of words of grammar among the runs of a text."""
    words = [run for _, run in runs]
    some_lower = any(word.islower() for word in words)
    found = set[int]()
    for place, word in enumerate(words):
        name = some_lower and (place > 0 or (len(word) > 1 and word.isupper())) and word[0].isupper()
        bare = normalise(_stem(word))
        if bare in FUNCTION_WORDS and (bare == "i" or not name):
            found.add(place)
    return found


def _stem(word: str) -> str:
    """Return what precedes an apostrophe: "what" of "what's", "doesn" of "doesn't"."""
    return word.replace("’", "'").partition("'")[0]


def _says_something(run: str) -> bool:
    return not is_cjk(run) or any(not "ぁ" <= letter <= "ゟ" for letter in run)


def _without(text: str, gone: Sequence[tuple[int, str]]) -> str:
    """Return the text without these runs, and with one space where one was."""
    edges = [0, *(edge for start, run in gone for edge in (start, start + len(run))), len(text)]
    pieces = [text[start:end] for start, end in list(pairwise(edges))[::2]]
    return " ".join(" ".join(pieces).split())
