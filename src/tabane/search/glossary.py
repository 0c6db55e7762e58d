"""What else could say a word: Japanese and English, and English synonyms, for search without a model.

The glossary is a file of concepts, one a line: English words, a tab, Japanese headwords. Words of one
line stand for each other, in both languages; the first English word is the nearest. English words are
written plainly, several of them joined by ``_``. Japanese verbs are listed as the stems that text is
made of (読む 読み 読ん); a headword that is a single kanji counts only where no other kanji touches it.

A line ``weather forecast < sunny umbrella <TAB> 傘`` names kinds: what stands after ``<`` leads to what
stands before it, and to nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

from tabane.search.analysis import cjk_runs, stem

# How near the words of a line are: to and from its first word, and between the others. A Japanese
# headword has no evidence but its translations, so the first counts as the word itself.
_FROM_FIRST = 0.55
_TO_FIRST = 0.5
_BETWEEN = 0.35
_FIRST_TRANSLATION = 1.0
_TRANSLATION = 0.6

LONGEST_HEADWORD = 12
_KINDS = "<"


class Glossary:
    """Concepts looked up by any of their words. About a megabyte; made once, at the first search."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._concepts: list[str] = []
        # An int for the many words of one concept, a tuple for the rest: half the memory of lists.
        self._by_word: dict[str, int | tuple[int, ...]] = {}
        for line in lines:
            if line.strip() and not line.startswith("#"):
                self._add(line)

    def _add(self, line: str) -> None:
        english, _, japanese = line.rstrip("\n").partition("\t")
        stems = [term(word) for word in english.split()]
        headwords = ["".join(cjk_runs(word)) for word in japanese.split()]
        number = len(self._concepts)
        self._concepts.append(" ".join(stems) + "\t" + " ".join(headwords))
        for word in dict.fromkeys(_specific(stems) + headwords):
            known = self._by_word.get(word)
            if known is None:
                self._by_word[word] = number
            else:
                self._by_word[word] = (*(known if isinstance(known, tuple) else (known,)), number)

    def __contains__(self, word: str) -> bool:
        return word in self._by_word

    def synonyms(self, word: str) -> dict[str, float]:
        """English terms near an English term, with weights below 1. Terms are as :func:`term` gives them."""
        found: dict[str, float] = {}
        for english, _ in self._of(word):
            for other, weight in _kin(english, word):
                if other != word and weight > found.get(other, 0.0):
                    found[other] = weight
        return found

    def translations(self, headword: str) -> dict[str, float]:
        """English terms for a Japanese headword, with weights up to 1."""
        found: dict[str, float] = {}
        for english, _ in self._of(headword):
            for place, other in enumerate(_general(english)):
                weight = _TRANSLATION if place else _FIRST_TRANSLATION
                if weight > found.get(other, 0.0):
                    found[other] = weight
        return found

    def headwords(self, word: str) -> list[str]:
        """Japanese headwords for an English term, each once."""
        found = (head for english, japanese in self._of(word) if _KINDS not in english for head in japanese)
        return list(dict.fromkeys(found))

    def segments(self, run: str) -> list[tuple[int, int]]:
        """Where headwords stand in a run of Japanese: the longest from the left, as (start, end)."""
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(run):
            end = self._longest(run, at, found[-1][1] if found else 0)
            if end:
                found.append((at, end))
            at = end or at + 1
        return found

    def _longest(self, run: str, at: int, last: int) -> int:
        for end in range(min(len(run), at + LONGEST_HEADWORD), at, -1):
            if run[at:end] in self._by_word and _stands_alone(run, at, end, last):
                return end
        return 0

    def _of(self, word: str) -> Iterator[tuple[list[str], list[str]]]:
        numbers = self._by_word.get(word, ())
        for number in numbers if isinstance(numbers, tuple) else (numbers,):
            english, _, japanese = self._concepts[number].partition("\t")
            yield english.split(), japanese.split()


@lru_cache(maxsize=1)
def glossary() -> Glossary:
    """The glossary that comes with Tabane, read at the first call."""
    path = os.path.join(os.path.dirname(__file__), "glossary.tsv")
    with open(path, encoding="utf-8") as lines:
        return Glossary(lines)


def term(word: str) -> str:
    """An English word, or several joined by ``_``, as the glossary knows it: stems joined by ``_``."""
    return "_".join([stem(part) for part in word.split("_")]) if "_" in word else stem(word)


def _kin(english: list[str], word: str) -> Iterator[tuple[str, float]]:
    if _KINDS in english:
        yield from ((general, _TO_FIRST) for general in _general(english))
        return
    for place, other in enumerate(english):
        yield other, _FROM_FIRST if english[0] == word else _BETWEEN if place else _TO_FIRST


def _general(english: list[str]) -> list[str]:
    """The words before ``<``, or all."""
    return english[: english.index(_KINDS)] if _KINDS in english else english


def _specific(english: list[str]) -> list[str]:
    """The words after ``<``, or all."""
    return english[english.index(_KINDS) + 1 :] if _KINDS in english else english


def _stands_alone(run: str, at: int, end: int, last: int) -> bool:
    """Whether a short headword is a word of its own there, and no piece of a longer one.

    ログ is no part of ブログ unless what is before it was a headword that ended there (``last``).
    """
    if end - at == 1:
        return not (at and _is_kanji(run[at - 1])) and not (end < len(run) and _is_kanji(run[end]))
    if end - at <= 3 and _is_katakana(run[at]) and at and at != last:
        return not _is_katakana(run[at - 1])
    return True


def _is_kanji(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff"


def _is_katakana(character: str) -> bool:
    return "ァ" <= character <= "ー"
