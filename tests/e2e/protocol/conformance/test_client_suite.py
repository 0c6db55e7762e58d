"""The run of the client scenarios passes what the hub passes, and fails what it does not."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import absent
from tests.e2e.protocol.conformance import suite
from tests.e2e.protocol.conformance.client_suite import measure_client
from tests.e2e.protocol.conformance.suite import REVISIONS, Revision, scored


@pytest.fixture(autouse=True)
def installed() -> None:
    if missing := suite.absent():
        absent(missing)


@pytest.mark.heavy("scenarios of the official suite")
@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        ("2026-07-28", "request-metadata"),
        ("2026-07-28", "sep-2322-client-request-state"),
        ("2026-07-28", "http-invalid-tool-headers"),
        ("2025-11-25", "auth/scope-step-up"),
    ],
)
def test_the_hub_passes(revision: Revision, scenario: str) -> None:
    assert asyncio.run(measure_client(revision, scenario)) is None


@pytest.mark.parametrize("command", ["true", "false"])
def test_a_client_that_does_nothing_fails(command: str) -> None:
    fault = asyncio.run(measure_client("2026-07-28", "sep-2322-client-request-state", command))
    assert fault is not None
    assert "sep-2322-client-request-state-echoed" in fault


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_revision_has_client_scenarios_of_both_kinds(revision: Revision) -> None:
    names = asyncio.run(scored(revision, "Client"))
    assert "tools_call" in names
    assert "auth/scope-step-up" in names
