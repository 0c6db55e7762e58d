"""docs/privacy.md is true: a hub that starts and searches makes no connection, and its files are private."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.settings import OPTIONS
from tests.e2e.docs.pages import ROOT
from tests.harness.patience import LONG

WATCHER = '''\
#!{python}
"""A Python that writes down each name it looks up and each address it connects to, and so do its children."""
import ipaddress, os, runpy, sys

def watch(event, arguments):
    if event == "socket.getaddrinfo":
        note(arguments[0])
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg") and isinstance(arguments[1], tuple):
        note(arguments[1][0])

def note(host):
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    try:
        local = ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        local = name == "localhost"
    if not local:
        with open({log!r}, "a") as log:
            log.write(f"{{name}} {{sys.argv}}\\n")

sys.addaudithook(watch)
sys.executable = {program!r}
words = sys.argv[1:]
while words[0] not in ("-m", "-c"):
    words.pop(0)  # -I, -P and the like
kind, what, *rest = words
with open({log!r} + ".programs", "a") as log:
    log.write(what.partition("\\n")[0] + "\\n")
sys.argv = [what, *rest]
if kind == "-m":
    runpy.run_module(what, run_name="__main__", alter_sys=True)
else:
    exec(what, {{"__name__": "__main__"}})
'''


class WatchedTabane:
    """Tabane in an empty home, with a Python that writes down where it connects to."""

    def __init__(self, folder: Path) -> None:
        self.log, self._program = folder / "connections", folder / "python"
        self.home = folder / "home"
        self._program.write_text(
            WATCHER.format(python=sys.executable, log=str(self.log), program=str(self._program))
        )
        self._program.chmod(0o755)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TABANE_HOME": str(self.home),
            "TABANE_PORT": "0",
        }

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [str(self._program), "-m", "tabane", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        return done.stdout + done.stderr

    @property
    def connections(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def programs(self) -> set[str]:
        return set(Path(f"{self.log}.programs").read_text().splitlines())


@pytest.mark.heavy("a hub with its model")
def test_a_hub_that_starts_and_searches_makes_no_connection_and_its_files_are_private(tmp_path: Path) -> None:
    tabane = WatchedTabane(tmp_path)
    try:
        for command in (
            ("start",), ("status",), ("settings", "list"), ("doctor", "--quick"), ("health",),
            ("docs", "put", "notes/today", "We chose the blue one."), ("posts", "import", "--sample"),
            ("tools", "search", "time"), ("search", "which one did we choose"), ("models", "show"),
        ):  # fmt: skip
            output = tabane.run(*command)
            assert "Traceback" not in output, output
        assert {"tabane", "tabane.search.embedding.worker"} <= tabane.programs
        assert tabane.connections == []
        open_files = [path for path in (tabane.home, *tabane.home.rglob("*")) if not is_private(path)]
        assert open_files == []
        tabane.run("read", "https://nothing.invalid/")
        assert any(line.startswith("nothing.invalid ") for line in tabane.connections), "nothing is watched"
    finally:
        tabane.run("stop")


def is_private(path: Path) -> bool:
    return path.is_symlink() or path.is_socket() or not stat.S_IMODE(path.stat().st_mode) & 0o077


def test_every_setting_that_leads_to_another_machine_is_on_the_page() -> None:
    text = (ROOT / "docs/privacy.md").read_text("utf-8")
    outward = [
        option.name
        for option in OPTIONS
        if re.search(r"_url$|_endpoint$|_proxy$|_issuer$|^engine$|^vector_index$|^advertise$", option.name)
    ]
    about_clients = {"public_url", "oauth_jwks_url", "oauth_introspection_url", "login_client_metadata_url"}
    missing = {name for name in outward if f"`{name}`" not in text} - about_clients
    assert missing == set()
