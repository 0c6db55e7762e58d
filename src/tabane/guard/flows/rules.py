"""Rules of flows: what may not follow what was read, and what a person has let pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tabane.guard.flows.trails import Trail
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL, PRIVATE, UNTRUSTED

FlowPolicy = Literal["off", "ask", "strict"]

BrokenRule = Literal["private-leaves", "untrusted-acts", "untrusted-leaves"]
"""``private-leaves``: something private and something untrusted were read, and the call is external.
``untrusted-acts``: something untrusted was read, and the call is destructive. ``untrusted-leaves``: only
something untrusted was read, and the call is external; a rule of the policy ``strict`` alone."""


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """Why a call may not simply begin.

    ``sources`` are the untrusted sources in question, each with the tool that was read there, and
    ``private`` is one private source. ``pairs`` are what a person has to allow: ``source>server``.
    """

    action: Literal["ask", "refuse"]
    rule: BrokenRule
    sources: tuple[tuple[str, str], ...]
    private: tuple[str, str]
    pairs: tuple[str, ...]


def broken_rule(policy: FlowPolicy, read: int, call: int) -> BrokenRule | None:
    """Return the rule that a call with the labels ``call`` breaks after ``read``; None if it breaks none."""
    if policy == "off" or not read & UNTRUSTED:
        return None
    if call & EXTERNAL and read & PRIVATE:
        return "private-leaves"
    if call & DESTRUCTIVE:
        return "untrusted-acts"
    return "untrusted-leaves" if policy == "strict" and call & EXTERNAL else None


def find_flow(
    policy: FlowPolicy, trails: Sequence[Trail], call: int, sink: str, allowed: Collection[str]
) -> FlowFinding | None:
    """Return why a call of the server ``sink`` may not begin; None if it may.

    ``trails`` are what counts for the caller. Each source of untrusted content makes a pair with the server,
    and each pair has to be allowed, for always or in this trail.
    """
    rule = broken_rule(policy, labels_read(trails), call)
    if rule is None:
        return None
    open_sources = tuple(
        (source, tool)
        for trail in trails
        for source, tool in trail.untrusted.items()
        if not _is_allowed(pair_of(source, sink), trails, allowed)
    )
    if not open_sources:
        return None
    return FlowFinding(
        "refuse" if policy == "strict" and rule != "untrusted-leaves" else "ask",
        rule,
        open_sources,
        next((each for trail in trails for each in trail.private.items()), ("", "")),
        tuple(pair_of(source, sink) for source, _ in open_sources),
    )


def labels_read(trails: Iterable[Trail]) -> int:
    """Return the labels of all that counts for a caller."""
    read = 0
    for trail in trails:
        read |= trail.labels
    return read


def pair_of(source: str, sink: str) -> str:
    """Return the name of a pair, such as ``web>mail``."""
    return f"{source}>{sink}"


def _is_allowed(pair: str, trails: Sequence[Trail], allowed: Collection[str]) -> bool:
    return pair in allowed or any(pair in trail.passed for trail in trails)
