"""Jobs in a group of hubs: each hub shows, follows and cancels the jobs of all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tabane.hub.work.job import Job
from tabane.messages import say
from tabane.operations import Progress
from tabane.operations.job_turns import Turn
from tests.group.asking import ask, refused
from tests.harness.http_hub import HttpHub
from tests.harness.hub_group import hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.web.visitor import text, visitor


class Work:
    """The work of a job, which ends when it is let."""

    def __init__(self, result: Any = "counted") -> None:
        self.result, self.may_end = result, asyncio.Event()
        self.progress: Progress | None = None

    async def __call__(self, progress: Progress) -> Any:
        self.progress = progress
        progress.tell(3, 10)
        await self.may_end.wait()
        return self.result


async def seen(hub: HttpHub, job: Job, status: str) -> dict[str, Any]:
    """The state of a job at a hub, once it has that status."""
    found: dict[str, Any] = {}

    async def has() -> bool:
        rows = (await ask(hub, "list_jobs"))["results"]
        found.update(next((row for row in rows if row["job"] == job.key), {}))
        return found.get("status") == status

    await until(has, f"the job is seen as {status}")
    return found


@pytest.mark.heavy("a real PostgreSQL")
async def test_jobs_are_seen_followed_and_cancelled_at_every_hub(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with hubs_in_group(tmp_path, postgres, "jobs", {}) as group:
        first, second = group.hubs
        work, endless = Work(), Work()
        title = say("count to {to}", to=10)
        job = first.hub.jobs.start("count", title, work)
        running = await seen(second, job, "running")
        assert (running["title"], running["hub"]) == ("count to 10", group.group(0).me.address)
        assert (running["done"], running["total"]) == (3, 10)
        assert work.progress is not None
        work.progress.tell(7, 10)
        later = await ask(second, "follow_job", job=job.key, version=running["version"], wait=20)
        assert later["done"] == 7
        following = asyncio.ensure_future(
            ask(second, "follow_job", job=job.key, version=later["version"], wait=20)
        )
        work.may_end.set()
        ended = await following
        assert (ended["status"], ended["result"]) == ("done", "counted")
        other = second.hub.jobs.start("count", title, endless)
        await seen(first, other, "running")
        assert (await ask(first, "cancel_job", job=other.key))["status"] == "cancelled"
        assert other.status == "cancelled"
        assert (await refused(first, "follow_job", job="none")).startswith("There is no job none")
        person = await visitor(first)
        assert (await person.sign_in()).status == 200
        for path in ("/jobs", f"/jobs/{other.key}"):
            assert group.group(1).me.address in text(await person.content(path)), path
        large = first.hub.jobs.start("count", title, Work("x" * 100_000))
        await seen(second, large, "running")
        await group.kill(0, postgres, "jobs")
        lost = await seen(second, large, "interrupted")
        assert "run the command again" in lost["error"]["message"]
        assert (await ask(second, "cancel_job", job=large.key))["status"] == "interrupted"


async def test_one_job_of_a_kind_runs_in_the_whole_group(tmp_path: Path, postgres: PostgresServer) -> None:
    async with hubs_in_group(tmp_path, postgres, "turns", {}) as group:
        works = [Work(), Work()]
        jobs = []
        for hub, work in zip(group.hubs, works, strict=True):
            turn = Turn(hub.hub.stores.turn("import", "posts"))

            async def whole(progress: Progress, turn: Turn = turn, work: Work = work) -> Any:
                async with turn.taken(progress):
                    return await work(progress)

            jobs.append(hub.hub.jobs.start("import_posts", say("import"), whole))
            if work is works[0]:
                await until(lambda: works[0].progress, "the first one has the turn")
        await until(lambda: jobs[1].state("en")["waits_for"], "the second one waits")
        assert works[1].progress is None
        assert jobs[1].state("en")["note"] == "waiting for its turn"
        works[0].may_end.set()
        await until(lambda: works[1].progress, "the second one has the turn")
        works[1].may_end.set()
        await until(lambda: jobs[1].status == "done")
