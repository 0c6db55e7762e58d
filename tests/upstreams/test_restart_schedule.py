"""Times at which a failed server is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabane.upstreams.connection import UpstreamLimits, UpstreamState
from tabane.upstreams.upstream import RestartSchedule

LIMITS = UpstreamLimits(restart_first=2.0, restart_max=60.0, circuit_failures=8, circuit_wait=300.0)


class StoppedLoop(asyncio.SelectorEventLoop):
    """An event loop at a time that does not pass."""

    def time(self) -> float:
        return 1000.0


@pytest.fixture
def schedule() -> Iterator[RestartSchedule]:
    loop = StoppedLoop()
    yield RestartSchedule(loop, lambda: None)
    loop.close()


@pytest.mark.parametrize(
    ("failures", "delay"), [(0, 2), (1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (7, 60), (8, 300), (2000, 300)]
)
def test_the_wait_doubles_from_the_first_to_the_longest_until_the_circuit_opens(
    schedule: RestartSchedule, failures: int, delay: float
) -> None:
    is_open = failures >= LIMITS.circuit_failures
    for _ in range(20):
        state = schedule.failed(failures, LIMITS)
        assert state is (UpstreamState.OPEN if is_open else UpstreamState.WAITING)
        assert schedule.left == delay if is_open else 0.75 * delay <= schedule.left <= 1.25 * delay
    schedule.clear()
    assert schedule.left <= 0


def test_servers_that_failed_together_do_not_start_together(schedule: RestartSchedule) -> None:
    waits = {(schedule.failed(1, LIMITS), schedule.left)[1] for _ in range(20)}
    assert len(waits) > 1


async def test_a_start_is_planned_once_and_can_be_canceled() -> None:
    starts: list[None] = []
    schedule = RestartSchedule(asyncio.get_running_loop(), lambda: starts.append(None))
    schedule.arm()
    schedule.cancel()
    schedule.arm()
    schedule.arm()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(starts) == 1
