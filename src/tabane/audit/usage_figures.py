"""Figures of usage, made of the amounts that are counted; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tabane.audit.entry import UsageGroup
from tabane.audit.latencies import percentiles

KEPT_DAYS = 800
"""Days whose usage is kept."""

OUTCOMES = ("ok", "failed", "refused", "limited", "cancelled")
AMOUNTS = ("calls", *OUTCOMES, "timed", "ms", "bytes", "saved")
"""The amounts that are counted, in their order."""

_SHARES = (0.5, 0.95, 0.99)


def usage_group(
    by: UsageGroup,
    name: str,
    label: str,
    server: str | None,
    sums: Sequence[float],
    buckets: Iterable[tuple[int, int]],
) -> dict[str, Any]:
    """Return a group as an answer has it. ``server`` is the only one of the group, else None."""
    group: dict[str, Any] = {by: name}
    if by == "tool" and server is not None:
        group["server"] = server
    if by == "key":
        group["label"] = label
    return group | usage_figures(sums, buckets)


def usage_figures(sums: Sequence[float], buckets: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return the figures of some amounts, which are in the order of their columns."""
    named = dict(zip(AMOUNTS, sums, strict=True))
    p50, p95, p99 = percentiles(buckets, _SHARES)
    whole = {name: int(named[name]) for name in ("calls", *OUTCOMES, "bytes", "saved")}
    errors = whole["failed"] + whole["refused"] + whole["limited"]
    mean = round(named["ms"] / named["timed"], 3) if named["timed"] else None
    return whole | {"errors": errors, "mean_ms": mean, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
