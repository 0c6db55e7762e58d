r"""What is typed to search posts: meaning and text as ``V|T``, and the terms of T; pure, never an error.

``cats and dogs|kitten -puppy`` is near to "cats and dogs", holds "kitten" and does not hold "puppy". A
backslash takes the next character for what it is: ``\|`` is a bar, ``\-`` begins a term with a dash.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.post import SPACES
from tabane.search.engine import Combination, VectorQuery
from tabane.search.filters import And, Contains, Filter, Not

Source = Literal["content", "reasoning", "summary"]
Mode = Literal[
    "content", "reasoning", "summary", "average", "maximum", "minimum", "product", "weighted", "hybrid"
]
MODES: tuple[Mode, ...] = get_args(Mode)
SOURCES: tuple[Source, ...] = get_args(Source)

USUAL_WEIGHTS = (0.7, 0.2, 0.1)
"""Of content, reasoning and summary, in mode weighted."""

_WEIGHING = ("average", "weighted")
_COMBINATIONS: Mapping[str, Combination] = {
    "average": Combination.AVERAGE,
    "weighted": Combination.AVERAGE,
    "maximum": Combination.MAXIMUM,
    "minimum": Combination.MINIMUM,
    "product": Combination.PRODUCT,
}


def spaces_of(mode: Mode) -> tuple[str, ...]:
    """The spaces that a mode looks into; a post that lacks one of them is not found by it."""
    if mode == "hybrid":
        return ("content",)
    return SPACES if mode in _COMBINATIONS else (mode,)


def source_of(mode: Mode) -> Source:
    """The text that the terms of a query are looked for in: a single space's own, else the content."""
    return mode if mode in ("content", "reasoning", "summary") else "content"


def available(spaces: Sequence[str]) -> list[Mode]:
    """The modes that can be asked where there are these spaces. Words are always there."""
    return [mode for mode in MODES if mode == "hybrid" or set(spaces_of(mode)) <= set(spaces)]


def checked_weights(mode: Mode, weights: Sequence[float] | None) -> tuple[float, ...] | None:
    """Weights of content, reasoning and summary, their sum 1; None for none. Raises :class:`BadArguments`."""
    if weights is None:
        return _normalised(USUAL_WEIGHTS) if mode == "weighted" else None
    if mode not in _WEIGHING:
        raise BadArguments(
            say("weights go with mode average or weighted, not with {mode}", mode=mode), "weights"
        )
    fit = len(weights) == len(SPACES) and all(0 <= weight < math.inf for weight in weights)
    if not fit or not any(weights):
        raise BadArguments(
            say(
                "weights are {count} numbers, for content, reasoning and summary: at least 0, and not all 0",
                count=len(SPACES),
            ),
            "weights",
        )
    return _normalised(weights)


def _normalised(weights: Sequence[float]) -> tuple[float, ...]:
    # The largest first: a sum of very large or very small ones would be none.
    largest = max(weights)
    shares = [weight / largest for weight in weights]
    return tuple(share / sum(shares) for share in shares)


def vector_query(mode: Mode, weights: tuple[float, ...] | None, vectors: Mapping[str, bytes]) -> VectorQuery:
    """The question to the engine. ``vectors``: one of each of the mode's spaces; ``weights`` are checked."""
    factors = {} if weights is None else dict(zip(SPACES, weights, strict=True))
    return VectorQuery(vectors, _COMBINATIONS.get(mode, Combination.AVERAGE), factors, whole=True)


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
