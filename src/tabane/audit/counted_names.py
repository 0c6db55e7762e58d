"""Names with their counts, the most frequent ones first; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def top(counted: Iterable[tuple[str, int]], most: int) -> list[dict[str, Any]]:
    """Return the names with the highest counts, without entries that have none."""
    sums: dict[str, int] = {}
    for name, count in counted:
        if name:
            sums[name] = sums.get(name, 0) + count
    best = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
    return [{"name": name, "count": count} for name, count in best]
