"""The conformance run judges as it says, and its own server speaks the eras it is told to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.conftest import absent
from tests.e2e.protocol.conformance import suite
from tests.e2e.protocol.conformance.__main__ import main
from tests.e2e.protocol.conformance.servers import TARGETS, Era, Target, upstream
from tests.e2e.protocol.conformance.suite import ROOT, Outcome, outcomes_in, scored
from tests.e2e.protocol.conformance.verdict import Expected, complaints, expected_failures, mark, unknown

PASSED, FAILED = Outcome(), Outcome(failures=("check: went wrong",))
BRIDGE = Expected("2025-11-25", "both", "asks", "needs the bridge")
THROUGH = Target("2025-11-25", "stdio")


@pytest.mark.core
@pytest.mark.heavy("the official suite, in both revisions, through a hub")
def test_a_hub_over_http_conforms() -> None:
    if missing := suite.absent():
        absent(missing)
    assert main(["--way", "http"]) == 0


def test_all_passed_is_no_complaint() -> None:
    assert complaints(THROUGH, ["lists"], {"lists": PASSED}, [BRIDGE]) == []


def test_a_failure_is_a_complaint_with_the_message_of_the_check() -> None:
    assert complaints(THROUGH, ["lists"], {"lists": FAILED}, [BRIDGE]) == ["lists: check: went wrong"]
    assert mark(THROUGH, "lists", {"lists": FAILED}, [BRIDGE]) == "FAILED"


def test_a_failure_that_is_listed_is_expected() -> None:
    assert complaints(THROUGH, ["asks"], {"asks": FAILED}, [BRIDGE]) == []
    assert mark(THROUGH, "asks", {"asks": FAILED}, [BRIDGE]) == "expected"


def test_a_listed_scenario_that_passes_is_a_complaint() -> None:
    [complaint] = complaints(THROUGH, ["asks"], {"asks": PASSED}, [BRIDGE])
    assert "has to leave" in complaint


def test_a_scenario_that_did_not_run_is_a_complaint() -> None:
    assert complaints(THROUGH, ["lists"], {}, []) == ["lists: was not run"]


@pytest.mark.parametrize(
    "target",
    [Target("2025-11-25", "alone"), Target("2025-11-25", "http", "legacy"), Target("2026-07-28", "stdio")],
)
def test_the_list_excuses_no_other_target(target: Target) -> None:
    assert complaints(target, ["asks"], {"asks": FAILED}, [BRIDGE]) == ["asks: check: went wrong"]


def test_a_warning_passes_and_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "server-caching-2026-11-22T01-26-16-952Z"
    folder.mkdir()
    checks = [
        {"id": "one", "status": "SUCCESS"},
        {"id": "two", "status": "WARNING", "errorMessage": "should"},
    ]
    (folder / "checks.json").write_text(json.dumps(checks))
    outcomes = outcomes_in(tmp_path)
    assert outcomes == {"caching": Outcome(warnings=("two: should",))}
    assert complaints(THROUGH, ["caching"], outcomes, []) == []
    assert mark(THROUGH, "caching", outcomes, []) == "warning"


def test_an_entry_that_names_nothing_that_runs_is_told() -> None:
    listed = [
        BRIDGE,
        Expected("2025-11-25", "both", "tools-list", ""),
        Expected("2026-07-28", "modern", "ping", ""),
    ]
    told = unknown({"2025-11-25": ["tools-list"], "2026-07-28": ["ping"]}, listed)
    assert [line.split()[4] for line in told] == ["asks", "ping"]


@pytest.mark.heavy("scenarios of the official suite")
def test_the_list_names_scored_scenarios_and_gives_a_reason_for_each() -> None:
    if missing := suite.absent():
        absent(missing)
    listed = expected_failures()
    required = {revision: asyncio.run(scored(revision)) for revision in suite.REVISIONS}
    assert unknown(required, listed) == []
    assert all(entry.reason for entry in listed)
    assert {target.revision for target in TARGETS} == set(required)


@pytest.mark.heavy("scenarios of the official suite")
@pytest.mark.parametrize(
    ("era", "mode", "version"),
    [("both", "auto", "2026-07-28"), ("both", "legacy", "2025-11-25"), ("legacy", "auto", "2025-11-25")],
)
async def test_the_server_of_the_suite_speaks_the_eras_it_is_told_to(
    era: Era, mode: ConnectMode, version: str
) -> None:
    command, *arguments = upstream(era)
    parameters = StdioServerParameters(command=command, args=arguments, cwd=ROOT)
    async with Client(stdio_client(parameters), mode=mode) as client:
        assert client.protocol_version == version
        assert len((await client.list_tools()).tools) > 20
