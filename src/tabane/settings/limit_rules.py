"""Limits of calls by tier, tool and server, as the settings give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

KIB, MIB = 1024, 1024 * 1024

LOCAL_TIER, LOOPBACK_TIER, DEFAULT_TIER = "local", "loopback", "default"
"""The tiers of the local user, of programs of this machine without an identity, and of everybody else."""


class CallRate(NamedTuple):
    """``burst`` calls at once, and ``rate`` more each second: a token bucket."""

    burst: int
    rate: float


class TierLimits(NamedTuple):
    """The limits of one caller of a tier. None is no limit.

    ``concurrency`` is the number of calls in flight, ``server_concurrency`` that of calls to one server.
    ``queue`` is the number of calls that may wait for their turn, each for ``wait`` seconds at most.
    ``result_size`` is in bytes.
    """

    calls: CallRate | None = None
    concurrency: int | None = None
    server_concurrency: int | None = None
    queue: int = 256
    wait: float = 30.0
    result_size: int | None = None

    @property
    def unlimited(self) -> bool:
        """Return whether a call of this tier can always begin at once."""
        return self.calls is None and self.concurrency is None and self.server_concurrency is None


class CallCap(NamedTuple):
    """A limit of the tools or servers whose names match ``pattern``; they share it.

    ``per``: all callers together ("hub"), or each caller on its own ("key").
    """

    kind: Literal["tool", "server"]
    pattern: str
    calls: CallRate | None = None
    concurrency: int | None = None
    per: Literal["hub", "key"] = "hub"

    def applies(self, tool: str, server: str) -> bool:
        """Return whether a call of this tool of this server counts toward the limit."""
        name = tool if self.kind == "tool" else server
        return bool(name) and matches(self.pattern, name)


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern, in which ``*`` is any text."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    *middle, last = others
    end = len(name) - len(last)
    at = len(first)
    if not name.startswith(first) or not name.endswith(last) or at > end:
        return False
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


TIERS: Mapping[str, TierLimits] = {
    LOCAL_TIER: TierLimits(),
    LOOPBACK_TIER: TierLimits(CallRate(5000, 500.0), 256, None, 4096),
    DEFAULT_TIER: TierLimits(CallRate(100, 10.0), 16, 8, 64, 30.0, 16 * MIB),
    "authenticated": TierLimits(CallRate(1000, 50.0), 64, 32, 256, 30.0, 64 * MIB),
    "premium": TierLimits(CallRate(5000, 200.0), 128, 48, 1024, 30.0, None),
}
"""The tiers that exist without any settings."""


class LimitRules(NamedTuple):
    """All limits in force."""

    tiers: Mapping[str, TierLimits]
    caps: tuple[CallCap, ...] = ()

    def tier(self, name: str) -> TierLimits:
        """Return the limits of a tier; of the tier ``default`` if there is none of that name."""
        return self.tiers.get(name) or self.tiers[DEFAULT_TIER]

    def result_size(self, tier: str) -> int | None:
        """Return the maximum size of a result in bytes; None if there is no limit."""
        return self.tier(tier).result_size

    def free_tiers(self) -> frozenset[str]:
        """Return the tiers whose calls are not limited in any way."""
        if self.caps:
            return frozenset()
        return frozenset(
            name for name, limits in self.tiers.items() if limits.unlimited and limits.result_size is None
        )


DEFAULT_RULES = LimitRules(TIERS)
