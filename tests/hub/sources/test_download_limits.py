"""Limits of downloads that are changed while a hub runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home, hub
from tests.harness.patience import wait_until

LAUNCHER = """#!/bin/sh
# A launcher whose downloads never end.
case "$*" in *first*) name=first ;; *) name=second ;; esac
: > "{folder}/$name.began"
exec cat "{folder}/gate"
"""
"""`cat` waits until somebody opens the other end of the pipe, which nobody does."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home with two servers whose packages are not there, and room for one download."""
    home = Home(tmp_path)
    launcher = tmp_path / "npx"
    launcher.write_text(LAUNCHER.format(folder=tmp_path))
    launcher.chmod(0o700)
    os.mkfifo(tmp_path / "gate")
    names = ("first", "second")
    home.write_servers(
        {name: {"command": str(launcher), "args": ["-y", f"{name}-package"]} for name in names}
    )
    write_limit(home, 1)
    with hub(home):
        starting = [
            subprocess.Popen(
                [sys.executable, "-m", "tabane", "servers", "start", name],
                env=home.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for name in names
        ]
        try:
            yield home
        finally:
            for process in starting:
                process.kill()
                process.wait()


def write_limit(home: Home, downloads: int) -> None:
    path = home.servers.with_name("tabane.toml")
    path.write_text(f"downloads = {downloads}\n")
    path.chmod(0o600)


def begun(home: Home) -> list[str]:
    return sorted(path.stem for path in home.folder.glob("*.began"))


def test_a_download_that_waits_begins_when_the_limit_is_raised(home: Home) -> None:
    def both_download() -> bool:
        rows = home.json("servers", "list")["results"]
        return [row["state"] for row in rows] == ["downloading", "downloading"]

    wait_until(lambda: (both_download() and begun(home)) or None)
    assert len(begun(home)) == 1
    write_limit(home, 2)
    wait_until(lambda: begun(home) == ["first", "second"] or None)
