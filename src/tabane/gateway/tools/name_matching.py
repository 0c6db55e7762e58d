"""How a tool's name is compared with a wanted one: in part, by its start, exactly, or with typing errors."""

from __future__ import annotations

from typing import Literal

from tabane.text.nearest_names import Similarity, similarity

NameMatch = Literal["partial", "prefix", "exact", "fuzzy"]
_SIMILAR = 0.6


def measure(match: NameMatch) -> Similarity:
    """How that way of matching compares a wanted name with a candidate."""
    if match == "fuzzy":
        return similarity(_SIMILAR)
    return {"partial": _partial, "prefix": _prefix, "exact": _exact}[match]


def _partial(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if wanted in candidate else 0.0


def _prefix(wanted: str, candidate: str) -> float:
    return len(wanted) / len(candidate) if candidate.startswith(wanted) else 0.0


def _exact(wanted: str, candidate: str) -> float:
    return float(wanted == candidate)
