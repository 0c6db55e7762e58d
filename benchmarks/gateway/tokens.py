"""Tokens of what a model is sent: estimated from bytes, and counted where a tokenizer is at hand."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tabane.cli.bench.tokens import Count, o200k

__all__ = ["NOTHING", "Counter", "Tokens", "o200k"]


class Tokens(NamedTuple):
    """``estimate`` is bytes/4; ``exact`` is o200k_base, None where it could not be counted."""

    estimate: float
    exact: float | None

    def __add__(self, other: object) -> Tokens:
        assert isinstance(other, Tokens)
        exact = None if self.exact is None or other.exact is None else self.exact + other.exact
        return Tokens(self.estimate + other.estimate, exact)

    def over(self, count: int) -> Tokens:
        """The mean of so many."""
        return Tokens(self.estimate / count, None if self.exact is None else self.exact / count)

    @property
    def best(self) -> float:
        return self.estimate if self.exact is None else self.exact


class Counter:
    """Counts texts and JSON values, the latter as they stand without spaces."""

    def __init__(self, exact: Count | None = None) -> None:
        self._exact = exact

    def __call__(self, value: Any) -> Tokens:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
        return Tokens(len(text.encode()) / 4, self._exact(text) if self._exact else None)


NOTHING = Tokens(0, 0)
