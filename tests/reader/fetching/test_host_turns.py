"""Delays between requests to a host, with a fake clock."""

from __future__ import annotations

import asyncio

from tabane.reader.fetching.network import RequestTurns


class Clock:
    """Time that passes while somebody sleeps, and else stands still."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, until)


async def test_a_host_is_asked_at_intervals_and_others_are_not_kept_waiting() -> None:
    clock = Clock()
    begun: list[tuple[str, float]] = []

    async def one(turns: RequestTurns, host: str) -> None:
        async with turns.turn(host, 0.5):
            begun.append((host, clock.now))

    turns = RequestTurns(clock, clock.sleep)
    for host in ("a", "a", "b", "a"):
        await one(turns, host)
    assert begun == [("a", 0.0), ("a", 0.5), ("b", 0.5), ("a", 1.0)]


def test_two_ask_a_host_at_once_and_eight_all_hosts_together() -> None:
    async def most(hosts: list[str]) -> int:
        turns = RequestTurns(clock := Clock(), clock.sleep)
        inside, highest = 0, 0
        release = asyncio.Event()

        async def one(host: str) -> None:
            nonlocal inside, highest
            async with turns.turn(host, 0.0):
                inside += 1
                highest = max(highest, inside)
                await release.wait()
                inside -= 1

        tasks = [asyncio.create_task(one(host)) for host in hosts]
        for _ in range(20):
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*tasks)
        return highest

    assert asyncio.run(most(["a"] * 9)) == 2
    assert asyncio.run(most([str(n) for n in range(20)])) == 8


async def test_whoever_gives_up_waiting_leaves_the_turn_to_others() -> None:
    turns = RequestTurns(clock := Clock(), clock.sleep)
    async with turns.turn("a", 0.0), turns.turn("a", 0.0):
        waiting = asyncio.create_task(_take(turns))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.gather(_take(turns), _take(turns))


async def _take(turns: RequestTurns) -> None:
    async with turns.turn("a", 0.0):
        pass


async def test_hosts_that_nobody_asks_any_more_are_forgotten() -> None:
    clock = Clock()
    turns = RequestTurns(clock, clock.sleep)
    for number in range(2_000):
        clock.now += 1
        async with turns.turn(str(number), 0.5):
            pass
    assert len(turns) < 300
