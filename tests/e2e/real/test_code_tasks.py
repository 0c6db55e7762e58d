"""Some tasks of the benchmark of scripts, on real servers, with calls one by one and with scripts."""

from __future__ import annotations

import pytest
from benchmarks.code_tasks.measuring import CodeTaskRunner
from benchmarks.code_tasks.tasks import TASKS
from benchmarks.code_tasks.world_hub import world_hub

from tabane.cli.bench.tokens import PromptTokens
from tests.conftest import absent

SERVERS = ("git", "time")
"""Servers that are installed with the tests. Posts, documents and pages need none."""

CHEAP = ("files-since", "flights", "early-reviews", "three-plans", "cheapest-chair", "newest-posts")


@pytest.mark.timeout(400)
def test_tasks_have_the_same_outcome_with_calls_and_with_scripts() -> None:
    tasks = [task for task in TASKS if task.id in CHEAP]
    assert len(tasks) == len(CHEAP)
    with world_hub(SERVERS) as hub:
        if hub.missing:
            absent(", ".join(hub.missing.values()))
        runner = CodeTaskRunner(hub, PromptTokens())
        runs = [runner.run(task) for task in tasks]
    assert {run.task.id: run.failures for run in runs if run.failures} == {}
    direct, code = (
        sum(each.whole for each in several) for several in ([r.direct for r in runs], [r.code for r in runs])
    )
    assert code < direct / 2


def test_there_are_fifty_tasks_of_several_kinds() -> None:
    assert len({task.id for task in TASKS}) == len(TASKS) == 50
    assert sum(task.lang == "ja" for task in TASKS) >= 16
