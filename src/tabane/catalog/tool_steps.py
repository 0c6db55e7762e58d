"""Results of a search for the steps of a task: one list, and its text by step; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from tabane.messages import Lang, say
from tabane.search.snippets import one_line
from tabane.text.cutting import shortened

T = TypeVar("T")

_OF_A_STEP = 3
_QUERY = 80


class StepHit(NamedTuple):
    """The place of a hit: its step, and its rank there."""

    step: int
    rank: int


def most_hits(limit: int, steps: int, most: int) -> int:
    """Return how many tools a search returns: ``limit``, or more so that each of several steps has three."""
    return limit if steps < 2 else min(most, max(limit, _OF_A_STEP * steps))


def fused_steps(names: Sequence[Sequence[str]], most: int) -> list[StepHit]:
    """Return the best hits of the steps in turn, each tool once, in the order of steps and ranks.

    ``names`` are those of each step's tools, best first. The best tool of every step is among them.
    """
    chosen: dict[str, StepHit] = {}
    for rank in range(max(map(len, names), default=0)):
        for step, found in enumerate(names):
            if rank < len(found) and len(chosen) < most:
                chosen.setdefault(found[rank], StepHit(step, rank))
    return sorted(chosen.values())


def steps_text(
    queries: Sequence[str],
    texts: Sequence[str],
    best: Sequence[str | None],
    shown: Mapping[str, int],
    lang: Lang,
) -> str:
    """Return the texts of the steps under their numbers and queries.

    ``best`` is the best tool of each step. If it is listed with an earlier step, as ``shown`` says, it is
    named.
    """
    lines = []
    for number, (query, text, name) in enumerate(zip(queries, texts, best, strict=True)):
        lines.append(f"{number + 1}. {shortened(one_line(query), _QUERY)}")
        if name is not None and shown.get(name, number) != number:
            above = say("Best: {name} (step {step})", name=name, step=shown[name] + 1)
            lines.append(above.render(lang))
        if text:
            lines.append(text)
    return "\n".join(lines)


def same_text(same: Mapping[str, Sequence[str]], lang: Lang) -> str:
    """Return a line that names the tools of other servers that are the same as one that was found."""
    pairs = [f"{name} = {', '.join(others)}" for name, others in same.items() if others]
    return say("Same on other servers: {tools}", tools="; ".join(pairs)).render(lang) if pairs else ""
