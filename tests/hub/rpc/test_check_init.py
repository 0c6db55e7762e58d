"""check_init: the first request of a client of the original twilog."""

from __future__ import annotations

import asyncio
from typing import Any

from tabane.hub.context import HubContext
from tabane.hub.process.administration import HubAdministration
from tabane.hub.rpc.permission import LOOPBACK, LoopbackAccess
from tabane.hub.work.jobs import Jobs
from tabane.messages import Message
from tabane.operations import Caller, Door, Face, OperationTable, Progress
from tabane.settings import load_settings
from tests.harness.patience import until


class Process:
    """A process that opens what it keeps by a job."""

    def __init__(self, jobs: Jobs) -> None:
        self.gate = asyncio.Event()
        self.opening = jobs.start("open", Message("Opens the archive."), self._open)

    async def _open(self, progress: Progress) -> None:
        progress.tell(3, 10)
        await self.gate.wait()

    def beginning(self, caller: Caller) -> dict[str, Any] | None:
        return self.opening.state(caller.lang) if self.opening.status == "running" else None

    def report(self) -> dict[str, Any]:
        raise NotImplementedError

    async def kept(self) -> dict[str, int]:
        raise NotImplementedError

    def settings_report(self, caller: Caller) -> list[dict[str, Any]]:
        raise NotImplementedError

    def end(self, why: str) -> None:
        raise NotImplementedError

    def sign_in_link(self) -> str:
        raise NotImplementedError

    def restart(self) -> None:
        raise NotImplementedError

    async def try_port(self) -> None:
        pass

    def keep(self) -> None:
        raise NotImplementedError


async def test_it_says_how_far_the_beginning_is_until_that_is_over(tmp_path: Any) -> None:
    jobs = Jobs(asyncio.get_running_loop())
    process, administration = Process(jobs), HubAdministration()
    administration.of(process)
    table = OperationTable(administration.table())
    door = Door(table)
    context = HubContext(
        load_settings({"home": tmp_path, "open_archive": True}, {}), {}, asyncio.get_running_loop()
    )
    visitor = Caller(LOOPBACK, Face.RPC, "ws-1", access=LoopbackAccess(context))
    await until(lambda: process.opening.state("en")["done"] == 3, "the job has told")
    found = await door.invoke(visitor, "check_init", b"{}")
    assert found["status"] == "init_in_progress"
    assert (found["progress"]["done"], found["progress"]["total"]) == (3, 10)
    process.gate.set()
    await until(lambda: process.opening.status != "running", "the job is over")
    assert await door.invoke(visitor, "check_init", b"{}") == {"status": "init_completed"}
    await jobs.close()
