"""A measured figure, its goal, and which direction is better."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

RATIO = "×"
"""The unit of figures that :mod:`benchmarks.check` compares: they depend little on the machine."""


class Better(StrEnum):
    """Which of two values of a figure is better."""

    LESS = "less"
    MORE = "more"

    def loss(self, value: float, other: float) -> float:
        """Return how many times worse ``value`` is than ``other``: above 1 if worse. Both are positive."""
        if value == other:
            return 1.0
        first, second = (value, other) if self is Better.LESS else (other, value)
        return first / second if second else float("inf")


class Figure(Struct, frozen=True, omit_defaults=True):
    """A value with its unit, as shown. ``goal`` is the most or the least that it should be.

    ``goal_digits`` are the decimals of the goal, if they are not those of the value.
    """

    name: str
    value: float
    unit: str = ""
    digits: int = 0
    goal: float | None = None
    better: Better = Better.LESS
    goal_digits: int | None = None

    @property
    def is_met(self) -> bool:
        """Whether the goal is met. A figure without a goal meets it."""
        if self.goal is None:
            return True
        return self.value <= self.goal if self.better is Better.LESS else self.value >= self.goal

    @property
    def is_ratio(self) -> bool:
        return self.unit.strip() == RATIO

    @property
    def shown(self) -> str:
        return f"{self.value:,.{self.digits}f}{self.unit}"

    @property
    def shown_goal(self) -> str:
        """The goal with its sign; a dash if there is none."""
        if self.goal is None:
            return "–"
        digits = self.digits if self.goal_digits is None else self.goal_digits
        sign = "≤" if self.better is Better.LESS else "≥"
        return f"{sign} {self.goal:,.{digits}f}{self.unit}"

    @property
    def verdict(self) -> str:
        return "" if self.goal is None else "met" if self.is_met else "missed"
