"""Trees of decisions, grown elsewhere and read from a file: how probable it is that a block is content."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from importlib.resources import files
from math import exp
from typing import Any

Node = Any
"""A leaf is its value; a fork is (feature, threshold, what is at most that, what is more)."""


class Forest:
    """Gradient-boosted trees: the sum of one leaf of each is the log-odds.

    Friedman, Greedy function approximation: a gradient boosting machine (2001).
    """

    def __init__(self, base: float, trees: Sequence[Node]) -> None:
        self._base, self._trees = base, tuple(_frozen(tree) for tree in trees)

    def odds(self, row: Sequence[float]) -> float:
        """Log-odds of a row of features."""
        total = self._base
        for node in self._trees:
            while node.__class__ is tuple:
                node = node[2] if row[node[0]] <= node[1] else node[3]
            total += node
        return total

    def probability(self, row: Sequence[float]) -> float:
        return 1 / (1 + exp(-max(-30.0, min(30.0, self.odds(row)))))


def _frozen(node: Node) -> Node:
    if not isinstance(node, list):
        return float(node)
    return (node[0], node[1], _frozen(node[2]), _frozen(node[3]))


def forest(name: str = "forest.json.gz") -> Forest:
    """The forest that is in a file of this room."""
    data = json.loads(gzip.decompress(files(__package__).joinpath(name).read_bytes()))
    return Forest(data["base"], data["trees"])
