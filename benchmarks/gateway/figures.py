"""All figures of one run, and the goals that they are held against; pure."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.gateway.calling import Calls
from benchmarks.gateway.counting import CROWD, Sizes
from benchmarks.gateway.other_gateways import OtherFigures
from benchmarks.gateway.starting import LIBRARIES, Start
from benchmarks.gateway.ways import BRIDGE, STANDALONE
from benchmarks.gateway.weighing import Crowd, Weight
from benchmarks.report import Goal

BIG = 1000
"""Tools of the long list."""


@dataclass(frozen=True)
class Figures:
    """The measurements of one run."""

    starts: dict[str, Start]
    calls: list[Calls]
    one_core: list[Calls]
    standalone: Weight
    daemon: Weight
    crowds: list[Crowd]
    big_list_ms: tuple[float, float]
    sizes: Sizes
    others: dict[str, OtherFigures]
    libraries_cpu: float

    def calls_of(self, way: str, kind: str) -> Calls:
        return _of(self.calls, way, kind)

    @property
    def direct(self) -> Calls:
        return self.calls[0]

    def slower(self, way: str, kind: str) -> float:
        """How many times as long as a direct call one takes, with the scheduler as it is for users."""
        return _of(self.calls, way, kind).slower(self.calls[0])

    @property
    def light_saving(self) -> float:
        """The part of the whole list's tokens that mode light leaves out."""
        return 1 - self.sizes.lists["light"].best / self.sizes.without.best


def _of(calls: list[Calls], way: str, kind: str) -> Calls:
    return next(one for one in calls if (one.way, one.kind) == (way, kind))


def goals(figures: Figures) -> list[Goal]:
    """The goals in order, each with its figure."""
    return [
        *_tokens(figures),
        *_calls(figures),
        *_speed(figures),
        *_memory(figures),
    ]


def _calls(figures: Figures) -> list[Goal]:
    alone = figures.calls_of(STANDALONE, "call_tool")
    return [
        Goal(
            "call p50, standalone, against direct",
            figures.slower(STANDALONE, "call_tool"), 1.9, " ×", 2, limit_digits=1,
        ),
        Goal(
            "call p50, bridge and daemon, against direct",
            figures.slower(BRIDGE, "call_tool"), 2.5, " ×", 2, limit_digits=1,
        ),
        *core_goals(figures.one_core),
        Goal("calls a second, 16 at once, standalone", alone.rate(16), 25_000, least=True),
    ]  # fmt: skip


def core_goals(one_core: list[Calls]) -> list[Goal]:
    """The ratios of calls on one core, where nothing is left to the scheduler; none where that cannot be."""
    return [
        Goal(
            f"call p50 on one core, {way}, against direct",
            _of(one_core, way, "call_tool").slower(one_core[0]), None, " ×", 2,
        )
        for way in (STANDALONE, BRIDGE)
        if one_core
    ]  # fmt: skip


def _tokens(figures: Figures) -> list[Goal]:
    sizes = figures.sizes
    return [
        Goal("tokens of the list, mode search", sizes.lists["search"].best, 700),
        Goal("tokens of a task with three tools, list and instructions included", sizes.task.best, 1500),
        Goal(f"the same over {CROWD} tools", sizes.crowded_task.best, 1500),
        Goal("tokens of describe_tools, compact, a tool on average", sizes.described.best, 200),
        Goal("saved by mode light", 100 * figures.light_saving, 85, " %", 0, least=True),
    ]


def start_goal(start: Start, libraries_cpu: float) -> Goal:
    """The CPU to the first answer, beside that of importing some libraries and no more."""
    return Goal(
        f"CPU to the first answer, against importing {LIBRARIES}",
        start.answer_cpu / libraries_cpu,
        1.6,
        " ×",
        2,
    )


def _speed(figures: Figures) -> list[Goal]:
    starts = figures.starts
    return [
        Goal("CPU to the first answer, standalone", starts[STANDALONE].answer_cpu, 0.25, " s", 2),
        start_goal(starts[STANDALONE], figures.libraries_cpu),
        Goal("CPU to the first answer, bridge with the daemon up", starts[BRIDGE].answer_cpu, 0.05, " s", 2),
        Goal(f"tools/list of {BIG:,} tools, mode full", figures.big_list_ms[1], 10, " ms", 1),
    ]


def _memory(figures: Figures) -> list[Goal]:
    daemon, weights = figures.daemon, (figures.standalone, figures.daemon)
    alone, busy = max(w.alone["hub"] for w in weights), max(w.busy["hub"] for w in weights)
    return [
        Goal("memory of a hub alone", alone, 35, " MB"),
        Goal("memory of a hub with 4 servers, after 1,000 calls", busy, 45, " MB"),
        Goal("memory of a bridge", daemon.busy["bridge"], 14, " MB"),
        Goal("memory of hub, keeper and the four servers together", daemon.with_children, 100, " MB"),
    ]
