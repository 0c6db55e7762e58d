"""Searches for tools, and the hits that answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from tabane.catalog.tools.match_terms import MatchedTerm
from tabane.search.source import SearchRequest

Match = Literal["relevance", "partial", "prefix", "exact", "fuzzy"]


@dataclass(frozen=True, slots=True)
class ToolQuery(SearchRequest):
    """A search for tools. ``tags`` are met by any of them; ``match`` other than relevance is by name.

    ``names`` are those of the tools that may be found; None: all. ``folded``: of tools that are the same on
    several servers, only the best is a hit, and it names the others.

    One matching tag is enough. Each ``match`` other than relevance compares names. A relevance query without
    any word lists the tools that match the filters, by alias.
    """

    limit: int = 5
    server: str | None = None
    tags: tuple[str, ...] = ()
    category: str | None = None
    match: Match = "relevance"
    names: frozenset[str] | None = None
    explain: bool = False
    folded: bool = False


class ToolHit(Struct, frozen=True):
    """A tool that was found. ``score`` is in 0..1 and good for order; see ``cosine`` for relevance.

    Without vectors, it is how much of a relevance query the words of the tool cover, and ``words`` is always
    that. ``cosine`` is the mean over the models that compared query and tool; None if none did. ``relevance``
    is the same on a scale that does not depend on the model: 0 is usual between texts that have nothing to do
    with each other, above 1 is rare. ``same`` are the names of tools of other servers that are folded into
    this one. ``terms`` are why, if the query asks for an explanation.
    """

    alias: str
    score: float
    terms: tuple[MatchedTerm, ...] = ()
    cosine: float | None = None
    relevance: float | None = None
    words: float = 0.0
    same: tuple[str, ...] = ()


class ToolHits(Struct, frozen=True):
    """The best hits in order, ties by alias, and the total number of tools that matched.

    ``nearest``: no tool fits the query, and these are the nearest. Then there are no hits. ``compared``: by
    meaning too, ``incomplete``: without the tools that have no vector yet. ``starting``: vectors of the query
    or of tools are still being made.
    """

    hits: tuple[ToolHit, ...]
    total: int
    nearest: tuple[str, ...] = ()
    compared: bool = False
    incomplete: bool = False
    starting: bool = False
