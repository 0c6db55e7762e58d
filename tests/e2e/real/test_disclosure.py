"""The tasks that come with Tabane can be done on the real servers, and every one is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.home import Home

pytestmark = pytest.mark.node


def test_every_task_that_comes_with_tabane_can_be_done_with_its_expected_tools(
    tmp_path: Path, node_tools: Path
) -> None:
    home = Home(tmp_path)
    home.environment["PATH"] = f"{node_tools}{os.pathsep}{home.environment['PATH']}"
    found = home.json("bench", "disclosure", "--model", "words")["tasks"]
    assert found["skipped"] == {}
    assert found["unsolved_with_expected_tools"] == {}
    # The least that words alone find: a floor for what may not get worse.
    sums = found["scripted_agent"]["sums"]
    assert sums["all"]["tasks"] == 60
    assert sums["all"]["right_tool_in_answer"] >= 70
    assert sums["all"]["passed"] >= 40
