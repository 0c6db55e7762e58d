"""The scanner keeps its floor: attacks are found, honest definitions are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.scanning.quality import ATTACKS, HELD_OUT, HONEST, REAL, cases, found, share

from tests.guard.scanner import floor


@pytest.mark.parametrize(("path", "goal"), [(HELD_OUT, 0.90), (ATTACKS, 0.90)])
def test_attacks_are_found(path: Path, goal: float) -> None:
    least = floor.read()[-1]
    assert share(path) >= max(goal, (least.held_out if path == HELD_OUT else least.attacks) / 1000)


@pytest.mark.parametrize(("path", "goal"), [(REAL, 0.01), (HONEST, 0.05)])
def test_honest_definitions_are_not(path: Path, goal: float) -> None:
    least = floor.read()[-1]
    most = min(goal, (least.real if path == REAL else least.honest) / 1000)
    assert share(path) <= most, [(case.name, findings) for case, findings in found(cases(path))]


def test_the_collections_are_as_large_as_they_have_to_be() -> None:
    assert len(cases(REAL)) >= 500
    assert len(cases(HELD_OUT)) >= 60
    assert len(cases(ATTACKS)) >= 120
    assert len(cases(HONEST)) >= 80


def test_the_floor_was_never_lowered_without_a_reason() -> None:
    assert list(floor.faults(floor.read())) == []


def test_the_collections_are_those_that_the_floor_was_measured_on() -> None:
    assert floor.read()[-1].collections == floor.digest(), (
        'python -m tests.guard.scanner --lower "what was changed in them"'
    )
