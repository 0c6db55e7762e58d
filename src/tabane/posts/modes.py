"""The ways in which posts are near to a query: in one space, in three at once, or by words as well; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.post import SPACES
from tabane.search.engine import Combination, VectorQuery

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
            say("weights can be used with mode average or weighted, not with {mode}", mode=mode), "weights"
        )
    fit = len(weights) == len(SPACES) and all(0 <= weight < math.inf for weight in weights)
    if not fit or not any(weights):
        raise BadArguments(
            say(
                "weights must be {count} numbers, for content, reasoning and summary: at least 0, "
                "and not all 0",
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
