"""The doctor and the restart of a running hub, as programs ask for them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.settings.content import READER_SITES
from tests.harness.patience import wait_until
from tests.harness.user import User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.close()


def call(user: User, method: str, **params: Any) -> Any:
    return user.json("rpc", method, "--params", json.dumps(params))


def result(user: User, method: str, **params: Any) -> Any:
    """Start a job, and return its state when it is over."""
    job = call(user, method, **params)
    while job["status"] == "running":
        job = call(user, "follow_job", job=job["job"], version=job["version"])
    return job


def findings(report: Any) -> list[dict[str, Any]]:
    return [finding for section in report["sections"] for finding in section["findings"]]


@pytest.mark.heavy("a hub with real servers")
def test_a_finding_has_its_fix_and_the_fix_works_once(user: User) -> None:
    assert user.run("start").status == 0
    log = user.tabane / "logs" / "hub.log"
    os.chmod(log, 0o644)
    report = result(user, "run_doctor")["result"]
    assert [section["section"] for section in report["sections"]][:4] == [
        "versions",
        "configuration",
        "environment",
        "files",
    ]
    readable = next(each for each in findings(report) if "Other users can read" in each["title"])
    assert readable["level"] == "warning"
    assert readable["command"].startswith("chmod -R go= ")
    assert report["warning"] >= 1
    done = result(user, "apply_fix", fix=readable["fix"])
    assert done["result"]["fixed"] == [readable["title"]]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    again = result(user, "apply_fix", fix=readable["fix"])
    assert again["status"] == "failed"
    assert "does not exist any more" in json.dumps(again["error"])
    left = findings(result(user, "run_doctor")["result"])
    assert not [each for each in left if "Other users can read" in each["title"]]


@pytest.mark.heavy("a hub with real servers")
def test_sites_of_the_reader_are_checked_if_that_is_requested(user: User) -> None:
    user.environment["TABANE_READER_SITES_OFF"] = ",".join(READER_SITES)
    assert user.run("start").status == 0
    report = result(user, "run_doctor", online=True)["result"]
    assert report["sections"][-1]["section"] == "sites"
    assert {each["level"] for each in report["sections"][-1]["findings"]} == {"note"}
    without = result(user, "run_doctor")["result"]
    assert "sites" not in [section["section"] for section in without["sections"]]


def test_a_hub_restarts_itself(user: User) -> None:
    assert user.run("start", "--list-wait", "3").status == 0
    before = user.holder.pid
    assert user.json("status")["restartable"]
    assert call(user, "restart_hub")["status"] == "restarting"
    wait_until(lambda: user.runs and user.holder.pid != before, "another hub runs")
    assert "--list-wait=3.0" in user.json("status")["flags"]


def test_settings_are_changed_on_the_command_line(user: User) -> None:
    del user.environment["TABANE_LIST_WAIT"]
    assert user.run("start").status == 0
    assert "list_wait is 7 now." in user.run("settings", "set", "list_wait", "7").succeeded.out
    assert "from the next start" in user.run("settings", "set", "log_files", "9").succeeded.out
    listed = user.json("settings", "list", "--changed")
    assert {"list_wait", "log_files"} <= {row["name"] for row in listed["results"]}
    assert "list_wait is 2 now." in user.run("settings", "unset", "list_wait").succeeded.out
    refused = user.run("settings", "set", "model", "auto")
    assert refused.status != 0
    assert "TABANE_MODEL" in refused.err
