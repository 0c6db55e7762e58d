"""A running hub follows its files and its home."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.patience import wait_until
from tests.harness.user import User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.close()


def test_a_hub_whose_home_was_deleted_ends(user: User) -> None:
    assert user.run("start").status == 0
    hub = user.holder.pid
    shutil.rmtree(user.tabane)
    wait_until(lambda: not psutil.pid_exists(hub), "the hub has ended")


def test_a_changed_servers_file_is_in_force_and_a_broken_one_is_reported(user: User) -> None:
    assert user.run("start").status == 0
    good = user.servers.read_text()
    configured = json.loads(good)
    configured["mcpServers"]["another"] = next(iter(configured["mcpServers"].values()))
    user.servers.write_text(json.dumps(configured))
    wait_until(
        lambda: user.json("status")["servers"] == len(configured["mcpServers"]), "the new server is known"
    )
    user.servers.write_text("{")
    os.kill(user.holder.pid, signal.SIGHUP)
    wait_until(lambda: user.json("status")["problem"] is not None, "the fault is reported")
    assert str(user.servers) in user.json("status")["problem"]
    assert user.json("status")["servers"] == len(configured["mcpServers"])
    user.servers.write_text(good)
    wait_until(lambda: user.json("status")["problem"] is None, "the mended file is in force")
    assert "another" not in user.run("servers", "list").out
