"""The glossary: synonyms and translations of English and Japanese words, for search without a model.

The glossary is a file with one concept per line: English words, a tab, Japanese headwords. All words of a
line are synonyms or translations of each other. The first English word is the nearest. The words of an
English phrase are joined by ``_``. Japanese verbs are listed by the stems that occur in texts
(読む 読み 読ん). A headword that is a single kanji counts only if no other kanji is next to it.

A line ``weather forecast < sunny umbrella <TAB> 傘`` lists kinds: each word after ``<`` leads to the words
before it, and to no others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

from tabane.search.analysis import cjk_runs, stem

# Similarity of the words of a line: to and from the first word, and between the others. A Japanese headword
# has no evidence but its translations, so the first translation counts as much as the word itself.
_FROM_FIRST = 0.55
_TO_FIRST = 0.5
_BETWEEN = 0.35
_FIRST_TRANSLATION = 1.0
_TRANSLATION = 0.6

LONGEST_HEADWORD = 12
_KINDS = "<"


class Glossary:
    """Looks up concepts by any of their words. It takes about 1 MB, and is made once, by the first search."""

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
        """Return the synonyms of an English term, with weights below 1. Terms are results of :func:`term`."""
        found: dict[str, float] = {}
        for english, _ in self._of(word):
            for other, weight in _kin(english, word):
                if other != word and weight > found.get(other, 0.0):
                    found[other] = weight
        return found

    def translations(self, headword: str) -> dict[str, float]:
        """Return English terms for a Japanese headword, with weights up to 1."""
        found: dict[str, float] = {}
        for english, _ in self._of(headword):
            for place, other in enumerate(_general(english)):
                weight = _TRANSLATION if place else _FIRST_TRANSLATION
                if weight > found.get(other, 0.0):
                    found[other] = weight
        return found

    def headwords(self, word: str) -> list[str]:
        """Return Japanese headwords for an English term, each once."""
        found = (head for english, japanese in self._of(word) if _KINDS not in english for head in japanese)
        return list(dict.fromkeys(found))

    def segments(self, run: str) -> list[tuple[int, int]]:
        """Return the headwords in a run of Japanese as (start, end), the longest first from the left."""
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
    """Return the glossary of Tabane, which the first call reads."""
    path = os.path.join(os.path.dirname(__file__), "glossary.tsv")
    with open(path, encoding="utf-8") as lines:
        return Glossary(lines)


def term(word: str) -> str:
    """Return the term for an English word, or for several joined by ``_``: their stems, joined by ``_``."""
    return "_".join([stem(part) for part in word.split("_")]) if "_" in word else stem(word)


def _kin(english: list[str], word: str) -> Iterator[tuple[str, float]]:
    if _KINDS in english:
        yield from ((general, _TO_FIRST) for general in _general(english))
        return
    for place, other in enumerate(english):
        yield other, _FROM_FIRST if english[0] == word else _BETWEEN if place else _TO_FIRST


def _general(english: list[str]) -> list[str]:
    """Return the words before ``<``, or all."""
    return english[: english.index(_KINDS)] if _KINDS in english else english


def _specific(english: list[str]) -> list[str]:
    """Return the words after ``<``, or all."""
    return english[english.index(_KINDS) + 1 :] if _KINDS in english else english


def _stands_alone(run: str, at: int, end: int, last: int) -> bool:
    """Return whether a short headword is a word there, and not a part of a longer one.

    ログ in ブログ is not a word, unless another headword ends right before it (``last``).
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
