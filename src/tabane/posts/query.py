r"""What is typed to search posts: meaning and text as ``V|T``, and the terms of T; pure, never an error.

``cats and dogs|kitten -puppy`` is near to "cats and dogs", holds "kitten" and does not hold "puppy". A
backslash takes the next character for what it is: ``\|`` is a bar, ``\-`` begins a term with a dash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tabane.search.filters import And, Contains, Filter, Not

_HALVES = re.compile(r"((?:\\.|[^\\|])*)\|(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\|])")
_ANY = re.compile(r"\\(.)", re.DOTALL)

# A term begins behind white space, or behind the closing quote of the one before it.
_TERM = re.compile(
    r"""-(?:\s|\Z)
      | (?P<minus>-)?
        (?: "(?P<phrase>(?:\\.|[^"\\]|\\\Z)*)(?:"|\Z)
          | (?P<word>(?:\\.|[^\s\\]|\\\Z)+) )""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class PostTerms:
    """What a text must hold, and what it must not, as runs of characters. Nothing of both: any text does."""

    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.includes or self.excludes)

    def filter(self, source: str) -> Filter:
        """The records whose text ``source`` fits: case and width aside."""
        return And(
            (
                *(Contains(term, (source,)) for term in self.includes),
                *(Not(Contains(term, (source,))) for term in self.excludes),
            )
        )


@dataclass(frozen=True, slots=True)
class PostQuery:
    """``meaning`` is what posts are to be near to, empty for nothing; ``terms`` are what they must hold."""

    meaning: str
    terms: PostTerms


def parsed(text: str) -> PostQuery:
    """The query ``V|T``: cut at the first bar that is not escaped; without one, all of it is V."""
    halves = _HALVES.match(text)
    if halves is None:
        return PostQuery(_unescaped(text.strip()), PostTerms())
    return PostQuery(_unescaped(halves[1].strip()), terms(halves[2]))


def terms(text: str) -> PostTerms:
    """The terms of T, or of a ``search_term``: a quote may stay open, a lone dash is nothing."""
    includes: list[str] = []
    excludes: list[str] = []
    for found in _TERM.finditer(text):
        given = found["word"] if found["phrase"] is None else found["phrase"]
        term = _ANY.sub(r"\1", given or "")
        if term:
            (excludes if found["minus"] else includes).append(term)
    return PostTerms(tuple(includes), tuple(excludes))


def escaped_meaning(text: str) -> str:
    """The text as V of a query, so that :func:`parsed` gives it back, white space at its ends aside."""
    return re.sub(r"([\\|])", r"\\\1", text)


def _unescaped(text: str) -> str:
    """V keeps its backslashes but before a bar or another one: it may be a path."""
    return _ESCAPED.sub(r"\1", text)
