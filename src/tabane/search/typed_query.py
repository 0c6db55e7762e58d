"""Typed queries: how the text that a person or an assistant types becomes a query; pure.

A typed text becomes a query without errors. ``"two words"`` is a phrase. ``-word`` and ``-"two words"`` are
excluded. ``word*`` at the end is a prefix. Full-width quotes, 「」, and the minus and star of Japanese
keyboards have the same effect. Anything else is read as text, such as an unclosed quote or a star elsewhere.
"""

from __future__ import annotations

import re

from msgspec import structs

from tabane.search.analysis import content, normalize, visible
from tabane.search.engine import LexicalQuery, Mode
from tabane.search.records import LONGEST_NEEDLE, And, Contains, Filter, Not
from tabane.search.source import SearchRequest
from tabane.text.lazy_patterns import lazy_pattern

LONGEST = 2_000  # characters that are read
MOST_PHRASES = 16

_QUOTED = r'"([^"]+)"|“([^”]+)”|＂([^＂]+)＂|「([^」]+)」|『([^』]+)』'
_PIECE = lazy_pattern(rf"(?P<minus>(?<!\S)[-－−])?(?:{_QUOTED}|(?P<word>[^\s\"“＂「『]+|[\"“＂「『]))")
_STAR = re.compile(r"(?<=[^\s*＊])[*＊]\s*$")
# Japanese brackets name things in running text. They are quotes only if nothing else touches them.
_ALONE = re.compile(r"(?:^|[\s\-－−])$")


def typed(text: str, mode: Mode = Mode.ANY) -> LexicalQuery:
    """Parse a typed text into a query. ``mode`` says how its words are combined."""
    text = visible(text[:LONGEST])
    prefix = _STAR.search(text) is not None
    text = _STAR.sub("", text)
    if mode is Mode.PHRASE:
        return LexicalQuery(text, mode, prefix=prefix)
    words: list[str] = []
    phrases: list[str] = []
    exclude: list[str] = []
    last = 0
    for piece in _PIECE.finditer(text):
        quoted = next((found for found in piece.groups()[1:6] if found is not None), None)
        said = quoted if quoted is not None else piece["word"]
        words.append(" " if piece.start() > last else "")
        last = piece.end()
        if piece["minus"] and said.strip("-－−"):
            exclude.append(said)
        elif quoted is not None and _ALONE.search(text[: piece.start()]):
            phrases.append(quoted)
        else:
            words.append(piece.group())
    query = LexicalQuery("".join(words).strip(), mode, tuple(exclude[:MOST_PHRASES]), prefix)
    return structs.replace(query, phrases=tuple(phrases[:MOST_PHRASES]))


def sense(query: LexicalQuery) -> str:
    """Return the text of a query that is embedded: all but the excluded words."""
    return " ".join(filter(None, (query.spelled or query.text, *query.phrases)))


def marked_terms(query: LexicalQuery) -> list[str]:
    """Return the words and phrases of a query that are marked in a hit: no words of grammar."""
    spellings = (spelling for _, *others in query.spellings for spelling in others)
    return [content(query.text), *query.phrases, *spellings]


def demands(query: LexicalQuery) -> Filter:
    """Return the condition for hits that vectors find: the phrases of the query, and none of its exclusions.

    Compared are characters, not words, so ``-art`` excludes ``start`` too.
    """
    wanted = (Contains(phrase[:LONGEST_NEEDLE]) for phrase in query.phrases if normalize(phrase).strip())
    unwanted = (Not(Contains(word[:LONGEST_NEEDLE])) for word in query.exclude if normalize(word).strip())
    return And((*wanted, *unwanted))


_LAST_LETTER = re.compile(r"(?:^|(?<=\s))[A-Za-z0-9]$")


def words_of(request: SearchRequest) -> LexicalQuery:
    """Return a request as keywords. In a query that is being typed, the last word is a prefix.

    A last letter alone is no prefix: it begins a tenth of all words, and 220,000 posts take 0.1 s.
    """
    words = typed(request.query)
    if request.keywords != "typing":
        return words
    if _LAST_LETTER.search(words.text) is None:
        return structs.replace(words, prefix=True)
    return structs.replace(words, text=_LAST_LETTER.sub("", words.text) or words.text)
