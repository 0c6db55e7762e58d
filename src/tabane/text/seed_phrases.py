"""Seed phrases of wallets: runs of words that are all in the English list of BIP-39.

``seed_words.txt`` is that list. It is read when a text first has a run of words that may be a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

SHORTEST = 12
"""Words of the shortest phrase."""

_SHORTEST_TEXT = 4 * SHORTEST - 1
_LETTERS = bytes(byte | 32 if chr(byte).isalpha() and byte < 128 else 32 for byte in range(256))
_WORD = re.compile(r"[A-Za-z]+")
_BETWEEN = re.compile(r"(?:[\s,;:.|/'\"`*\[\]()#-]|\\n|\d{1,2}){1,12}")


@cache
def _seed_words() -> frozenset[bytes]:
    return frozenset(Path(__file__).with_name("seed_words.txt").read_bytes().split())


def _is_seed(word: str) -> bool:
    return word.strip().lower().encode("utf-8", "replace") in _seed_words()


def may_have_phrase(text: bytes) -> bool:
    """Return whether a text may have a phrase: three words in a row are in the list, of each fourth one."""
    if len(text) < _SHORTEST_TEXT:
        return False
    # "the" and "and" are no words of the list: between them, most sentences are too short for a phrase.
    for part in text.split(b" the "):
        if len(part) >= _SHORTEST_TEXT:
            for rest in part.translate(_LETTERS).split(b" and "):
                if len(rest) < _SHORTEST_TEXT or len(words := rest.split()) < SHORTEST:
                    continue
                if b"\1\1\1" in bytes(map(_seed_words().__contains__, words[3::4])):
                    return True
    return False


def phrases_of_words(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the phrases in a list of words, as the first index and the one after the last."""
    if len(words) < SHORTEST:
        return
    first = 0
    for at in range(len(words) + 1):
        if at == len(words) or not _is_seed(words[at]):
            if at - first >= SHORTEST:
                yield first, at
            first = at + 1


def seed_phrases(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has phrases, with whatever separates or numbers their words."""
    if not may_have_phrase(text.encode("utf-8", "replace")):
        return
    found = list(_WORD.finditer(text))
    first = 0
    for at, word in enumerate(found):
        if not _is_seed(word[0]):
            first = at + 1
        elif at > first and not _BETWEEN.fullmatch(text, found[at - 1].end(), word.start()):
            first = at
        if at - first + 1 >= SHORTEST:
            yield found[first].start(), word.end()
