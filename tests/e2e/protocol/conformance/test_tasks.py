"""The scenarios of the extension Tasks pass through the hub."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.e2e.protocol.conformance import suite
from tests.e2e.protocol.conformance.servers import hub_over
from tests.e2e.protocol.conformance.suite import ROOT, measure_scenario

SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
"""All of them but tasks-status-notifications, which the suite skips."""


@pytest.mark.heavy("scenarios of the official suite")
async def test_the_scenarios_of_tasks_pass_through_the_hub(tmp_path: Path) -> None:
    """The last but one wants an error where the hub would wait for the task, so the hub does not."""
    if missing := suite.absent():
        absent(missing)
    arguments = ["-m", "tests.harness.servers.tasks", "stdio"]
    configured = {"command": sys.executable, "args": arguments, "cwd": str(ROOT)}
    folder = tmp_path / "hub"
    folder.mkdir()
    async with hub_over(folder, configured, b"slow_compute", TABANE_TASK_WAITING="false") as url:
        for name in SCENARIOS:
            found = await measure_scenario(url, name, "2026-07-28", tmp_path / name)
            assert found.failures == (), f"{name}: {found.failures}"
