"""Sizes and durations as short texts with the symbols of units, which are the same in every language."""

from __future__ import annotations

_SIZES = ("B", "kB", "MB", "GB", "TB")


def bytes_text(size: float) -> str:
    """Return a number of bytes: 512 B, 1.2 kB, 34 MB. A kB is 1,000 bytes."""
    value = float(size)
    for unit in _SIZES[:-1]:
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"
        value /= 1_000
    return f"{value:.1f} {_SIZES[-1]}"


def duration_text(seconds: float) -> str:
    """Return a duration in seconds with at most two units: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 4 d 3 h."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return _two(whole, 60, "min", 1, "s")
    if whole < 86_400:
        return _two(whole, 3_600, "h", 60, "min")
    return _two(whole, 86_400, "d", 3_600, "h")


def _two(whole: int, large: int, name: str, small: int, smaller: str) -> str:
    first, rest = divmod(whole, large)
    second = rest // small
    return f"{first} {name} {second} {smaller}" if second else f"{first} {name}"
