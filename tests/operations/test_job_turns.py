"""Turns of jobs among several hubs: waited for, given back, and lost with the connection."""

from __future__ import annotations

import asyncio

import pytest

from tabane.errors import HubError, StoreError
from tabane.messages import say
from tabane.operations.job_turns import Turn


class OneTurn:
    """A turn that is held as ``answers`` say, one after the other; the last one stays."""

    def __init__(self, *answers: bool | StoreError) -> None:
        self._answers, self.closed = list(answers), 0

    async def held(self) -> bool:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed += 1


def turn(shared: OneTurn) -> Turn:
    async def opened() -> OneTurn:
        return shared

    return Turn(opened, look=0.01, check=0.01)


AWAY = StoreError(say("the database is away"))


async def test_a_job_waits_until_no_other_hub_has_the_turn() -> None:
    shared = OneTurn(False, False, True)
    async with turn(shared).taken():
        assert shared.closed == 0
    assert shared.closed == 1


async def test_a_job_ends_when_another_hub_has_its_turn_but_not_while_the_database_is_away() -> None:
    shared, ends = OneTurn(True, AWAY, AWAY, False), asyncio.Event()
    with pytest.raises(HubError, match="another hub does this work now"):
        async with turn(shared).taken():
            await ends.wait()
    assert shared.closed == 1


async def test_a_job_whose_turn_cannot_be_asked_for_fails() -> None:
    shared = OneTurn(AWAY)
    with pytest.raises(StoreError, match="away"):
        async with turn(shared).taken():
            raise AssertionError
    assert shared.closed == 1
