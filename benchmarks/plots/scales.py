"""Scales from values to places, linear or logarithmic, and their ticks; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1, 2, 2.5, 5, 10)
_MOST_TICKS = 6
_MOST_DECADES = 9


@dataclass(frozen=True, slots=True)
class Scale:
    """``low`` to ``high`` are mapped to ``start`` to ``end``, which are pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        low, high, value = (
            (math.log10(self.low), math.log10(self.high), math.log10(value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if not self.logarithmic:
            return steps(self.low, self.high)
        ticks = decades(self.low, self.high)
        return ticks if len(ticks) <= _MOST_DECADES else [tick for tick in ticks if _is_power(tick)]


def scale_of(values: Sequence[float], start: float, end: float, *, logarithmic: bool, zero: bool) -> Scale:
    """Return a scale that shows all values. Linear ones begin at 0 if ``zero`` is set."""
    low, high = min(values), max(values)
    if logarithmic:
        around = decades(low / 10, high * 10)
        low = max(tick for tick in around if tick <= low)
        high = min(tick for tick in around if tick >= high)
        return Scale(low, high if high > low else low * 10, start, end, logarithmic=True)
    low = min(low, 0.0) if zero else low
    room = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return Scale(low if zero else low - room, high + room, start, end)


def steps(low: float, high: float) -> list[float]:
    """Return at most some six round numbers between two."""
    rough = (high - low) / _MOST_TICKS
    unit = 10 ** math.floor(math.log10(rough))
    step = next(each * unit for each in _STEPS if each * unit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return the powers of ten between two, and 2 and 5 times these."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def _is_power(value: float) -> bool:
    """Whether it is a power of ten."""
    return abs(math.log10(value) - round(math.log10(value))) < 1e-9


def tick_label(value: float) -> str:
    """Return a number without digits that say nothing."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def value_label(value: float) -> str:
    """Return a value with three digits that count, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
