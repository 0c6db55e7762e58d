"""A server that floods the log: its share is bounded, and older entries stay."""

from __future__ import annotations

import pytest

from tests.e2e.faults.hostile.assistants import SharedHub, misbehave, stdio
from tests.harness.servers.hostile_stdio import ENTRIES

STORMS = ("a_storm_of_elicitations", "lines_of_rubbish", "answers_that_nobody_asked_for")


@pytest.mark.parametrize("name", STORMS)
def test_a_storm_leaves_the_history_of_the_log(shared_hub: SharedHub, name: str) -> None:
    path = shared_hub.user.tabane / "logs" / "hub.log"
    before = path.read_text()
    misbehave(shared_hub, ENTRIES[name], stdio(ENTRIES[name]))
    log = path.read_text()
    assert log.startswith(before)
    assert len(log.removeprefix(before)) < 100_000
    assert log.removeprefix(before).count(shared_hub.last) <= 100
