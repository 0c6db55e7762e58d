"""Judges whether any tool fits a query, or the best hits only share a verb with it.

A short query names the object of the action: "create pull request" is about pull requests, whatever else can
be created. If no hit covers enough of the object, nothing fits. In a long query each word means little, so
long queries are never judged. The limits cost .000 and .002 of recall@5 on two public sets of 47 and 2,487
queries.
"""

from __future__ import annotations

from collections.abc import Sequence

from tabane.gateway.tools.ranking import ToolRanking
from tabane.search.concepts import Concept

LOOKED_AT = 5
"""Hits that are judged."""

_SHORT = 5  # words of the object; longer queries are not judged
_COVERED = 0.2  # the share of them that one of the hits has to cover
_FAINT = 0.08  # a score that means nothing for a hit that covers at most half


def fits(ranking: ToolRanking, asked: Sequence[Concept], hits: Sequence[tuple[int, float]]) -> bool:
    """Judge the best hits, as number and score, for a question of these concepts."""
    objects = [concept for concept in asked if not concept.general] or asked
    if len(objects) > _SHORT or not hits:
        return True
    covered = max(_covered(ranking, objects, number) for number, _ in hits[:LOOKED_AT])
    return covered > 0.5 or (covered >= _COVERED and hits[0][1] >= _FAINT)


def _covered(ranking: ToolRanking, objects: Sequence[Concept], number: int) -> float:
    """Return the share of the object that a tool is about, in 0..1."""
    said = sum(concept.weight * ranking.covered(concept, number) for concept in objects)
    return said / sum(concept.weight for concept in objects)
