"""The floor of the flow policy: attacks that are stopped, and tasks that nobody is asked about."""

from __future__ import annotations

import json

import pytest

from tests.guard.flows.quality.replay import FOLDER, Replayed, read_suites, replay

FLOOR = json.loads((FOLDER / "floor.json").read_text())
FILES = ("suites.toml", "held_out.toml")


@pytest.fixture(params=FILES)
def replayed(request: pytest.FixtureRequest) -> Replayed:
    return replay(read_suites(request.param))


def test_attacks_are_stopped(replayed: Replayed) -> None:
    assert replayed.stopped >= FLOOR["stopped"], replayed.missed


def test_tasks_that_do_not_act_on_what_strangers_wrote_begin_without_a_question(replayed: Replayed) -> None:
    assert len(replayed.asked) <= FLOOR["asked"] * replayed.benign, replayed.asked


def test_nobody_is_asked_twice_in_a_task(replayed: Replayed) -> None:
    assert replayed.questions == len(replayed.asked) + replayed.outward_asked


def test_tasks_that_act_on_what_strangers_wrote_are_asked_about(replayed: Replayed) -> None:
    assert replayed.outward_asked == replayed.outward
