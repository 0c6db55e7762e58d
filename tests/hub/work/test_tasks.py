"""Tasks belong to identities, are bounded, and are found again after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, structs

from tabane.errors import HubError
from tabane.hub.context import HubContext
from tabane.hub.work import tasks as limits
from tabane.hub.work.tasks import HubTasks, Task, completed
from tabane.operations import Caller, CallTarget, Face
from tabane.settings import load_settings
from tabane.wire.era import Era, ProtocolRefusal
from tests.harness.identities import GivenAccess
from tests.harness.patience import until

TARGET = CallTarget("up__job", "up")
ALICE, BOB = GivenAccess("key:alice"), GivenAccess("key:bob")


def caller(access: GivenAccess) -> Caller:
    return Caller("key", Face.MCP, "1", client="test", access=access)


def context(folder: Path, **given: Any) -> HubContext:
    environment = {"TABANE_HOME": str(folder), "HOME": str(folder)}
    settings = load_settings({"config": None, **given}, environment)
    return HubContext(settings, environment, asyncio.get_running_loop())


@asynccontextmanager
async def kept(folder: Path, **given: Any) -> AsyncIterator[HubTasks]:
    tasks = HubTasks(context(folder, **given), lambda tool, server: TARGET)
    tasks.open()
    await tasks.ready()
    try:
        yield tasks
    finally:
        await tasks.close()


async def ended(tasks: HubTasks, task: Task, text: str = "done") -> None:
    tasks.finish(task, completed(Raw(json.dumps({"content": [], "text": text}).encode())))
    await tasks.ended(task)


async def test_a_task_is_invisible_to_another_identity(tmp_path: Path) -> None:
    async with kept(tmp_path) as tasks:
        task = tasks.begin(caller(ALICE), TARGET)
        assert tasks.find(caller(ALICE), task.id) is task
        assert tasks.of(caller(BOB)) == []
        refusals = []
        for access, name in ((BOB, task.id), (BOB, "task-unknown"), (ALICE, task.id[:-1]), (ALICE, None)):
            with pytest.raises(ProtocolRefusal) as refused:
                tasks.find(caller(access), name)
            refusals.append((refused.value.code, refused.value.message))
        assert len(set(refusals)) == 1, "nobody can tell a task of another from none"


async def test_an_identity_that_may_no_longer_call_the_tool_does_not_find_its_task(tmp_path: Path) -> None:
    async with kept(tmp_path) as tasks:
        access = GivenAccess("key:carol")
        task = tasks.begin(caller(access), TARGET)
        access.ended = True
        with pytest.raises(ProtocolRefusal):
            tasks.find(caller(access), task.id)
        assert tasks.of(caller(access)) == []


async def test_a_finished_result_survives_a_restart_and_a_running_call_fails_with_a_reason(
    tmp_path: Path,
) -> None:
    async with kept(tmp_path) as tasks:
        done, running, remote = (tasks.begin(caller(ALICE), TARGET) for _ in range(3))
        remote.remote, remote.era = "theirs", Era.LEGACY
        for task in (done, running, remote):
            await tasks.keep(task)
        await ended(tasks, done)
    assert (tmp_path / "tasks.db").stat().st_mode & 0o077 == 0
    again = HubTasks(context(tmp_path), lambda tool, server: TARGET)
    followed: list[Task] = []
    again.on_restored = followed.append
    again.open()
    await again.ready()
    task = again.find(caller(ALICE), done.id)
    assert task.status == "completed"
    assert json.loads(bytes(await again.body(task) or b""))["text"] == "done"
    lost = again.find(caller(ALICE), running.id)
    await again.ended(lost)
    assert lost.status == "failed"
    assert "restarted" in json.loads(bytes(await again.body(lost) or b""))["message"]
    assert [(one.id, one.remote, one.era) for one in followed] == [(remote.id, "theirs", Era.LEGACY)]
    await again.close()


async def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").write_bytes(b"this is no database" * 1000)
    async with kept(tmp_path) as tasks:
        task = tasks.begin(caller(ALICE), TARGET)
        await tasks.keep(task)
        await ended(tasks, task)
        assert await tasks.body(task)


async def test_ten_thousand_tasks_are_kept_and_the_oldest_results_make_room(tmp_path: Path) -> None:
    async with kept(tmp_path) as tasks:
        first = tasks.begin(caller(ALICE), TARGET)
        await ended(tasks, first)
        others = [tasks.begin(caller(ALICE), TARGET) for _ in range(limits.MOST_OF_HOLDER - 1)]
        assert len({task.id for task in others}) == limits.MOST_OF_HOLDER - 1
        assert tasks.find(caller(ALICE), others[-1].id) is others[-1]
        tasks.begin(caller(ALICE), TARGET)
        with pytest.raises(ProtocolRefusal):
            tasks.find(caller(ALICE), first.id)
        with pytest.raises(HubError, match="tasks are running"):
            tasks.begin(caller(ALICE), TARGET)
        assert tasks.begin(caller(BOB), TARGET), "another identity has room"


async def test_results_beyond_the_limit_remove_the_oldest(tmp_path: Path) -> None:
    async with kept(tmp_path, task_results=1 << 20) as tasks:
        made = [tasks.begin(caller(ALICE), TARGET) for _ in range(6)]
        for task in made:
            await tasks.keep(task)
            await ended(tasks, task, "x" * 230_000)
        left = [task for task in tasks.of(caller(ALICE)) if task in made]
        assert left == made[-len(left) :]
        assert 2 <= len(left) < len(made)
        assert sum(task.size for task in left) <= 1 << 20
        for task in left:
            assert len(await tasks.body(task) or b"") == task.size
        large = tasks.begin(caller(ALICE), TARGET)
        await ended(tasks, large, "x" * 300_000)
        assert large.status == "failed"
        assert "too large" in large.message


async def test_an_expired_task_is_removed_from_memory_and_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SWEEP", 0.05)
    async with kept(tmp_path) as tasks:
        task = tasks.begin(caller(ALICE), TARGET)
        await tasks.keep(task)
        await ended(tasks, task)
        task.ttl = 1
        await until(lambda: not list(tasks), "it has expired")
    async with kept(tmp_path) as tasks:
        assert list(tasks) == []


async def test_only_the_first_end_counts(tmp_path: Path) -> None:
    async with kept(tmp_path) as tasks:
        task = tasks.begin(structs.replace(caller(ALICE), client="x"), TARGET)
        tasks.finish(task, limits.CANCELLED)
        tasks.finish(task, completed(Raw(b'{"content":[]}')))
        await tasks.ended(task)
        assert task.status == "cancelled"
        assert await tasks.body(task) is None
