"""A hub with a server whose definition is long: other servers are served while it is scanned."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tabane.guard.definitions.review import DefinitionScans
from tabane.guard.scanner.scan_pool import ScanPool
from tabane.guard.scanner.scanner import DefinitionScanner
from tabane.workers.pool import Budget
from tests.guard.definitions.redefined import Definitions, names, operate, started, tool, waiting
from tests.harness.patience import until
from tests.harness.running_hub import running_hub, text

SIGNS = tool("look", "#" * 1_000_000)


async def test_others_are_served_while_a_definition_of_a_megabyte_is_scanned(tmp_path: Path) -> None:
    long = Definitions(tmp_path / "long", SIGNS)
    good = Definitions(tmp_path / "good", tool("other"))
    async with running_hub(tmp_path / "home", {"up": long.server(), "good": good.server()}) as here:
        pool = ScanPool(dict(os.environ), budget=Budget(seconds=600, deadline=600, patience=600))
        here.hub.gateway.review.scans = DefinitionScans(DefinitionScanner, pool)
        client = await here.connect(mode="full")
        await started(here, "good")
        starting = asyncio.create_task(started(here))
        await until(lambda: pool.pool.pids, "a process scans")
        (pid,) = pool.pool.pids
        os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(20):
                assert text(await client.through("good__other", text="x"))
            assert names(here) == ["good__other"]
        finally:
            os.kill(pid, signal.SIGCONT)
        await starting
        (row,) = await waiting(here)
        assert [each["severity"] for each in row["findings"]] == ["medium"]


async def test_a_definition_whose_scan_spends_its_budget_is_pinned_with_a_finding(tmp_path: Path) -> None:
    file = Definitions(tmp_path / "long", SIGNS, tool("other"))
    home = tmp_path / "home"
    async with running_hub(home, {"up": file.server()}) as here:
        pool = ScanPool(dict(os.environ), budget=Budget(seconds=0.001, deadline=600, patience=600))
        here.hub.gateway.review.scans = DefinitionScans(DefinitionScanner, pool)
        await started(here)
        (row,) = await waiting(here)
        assert row["name"] == "look"
        assert [each["message"] for each in row["findings"]] == [
            "It could not be scanned in time. Read it before you use it."
        ]
        assert names(here) == ["up__look", "up__other"]
        found = await operate(here, "scan_servers", names=["up"])
        assert [(each["name"], each["severity"]) for each in found["results"]] == [("look", "medium")]
