"""Servers of both registries behind a company's proxy and authority, in a hub that a desktop program starts.

Nothing is configured but the terminal in which `tabane install` ran.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tabane.cli.bench.temporary_hub import Assistant
from tests.conftest import absent
from tests.harness.company_network import CompanyProxy, company_network
from tests.harness.home import Home
from tests.harness.patience import LONG, wait_until

ROOT = Path(__file__).parents[3]
NODE = ROOT / "build" / "node" / "bin"
PROGRAMS = f"{NODE}{os.pathsep}{Path(sys.executable).parent}"
DOWNLOADED = 10 * LONG
"""Seconds in which the servers are downloaded, on a slow machine too."""


def registries() -> dict[str, str]:
    """The addresses of the registries as this machine has them. An empty home would know the public ones."""
    kept = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    asked = subprocess.run(
        [str(NODE / "npm"), "config", "get", "registry"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    return {**found, "npm_config_registry": asked.stdout.strip()}


def test_a_desktop_hub_downloads_and_runs_servers_through_the_proxy_of_the_terminal(tmp_path: Path) -> None:
    if not (NODE / "npx").exists():
        absent("Node.js: make node")
    home = Home(tmp_path)
    python = ["--python", sys.executable]
    home.write_servers(
        {
            "time": {"command": "uvx", "args": [*python, "mcp-server-time"]},
            "memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]},
        }
    )
    with company_network(tmp_path) as company:
        terminal = registries() | company.environment
        terminal |= {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
        (tmp_path / ".cursor").mkdir()
        home.run("install", "cursor", environment=terminal).succeeded  # noqa: B018  (asserts)
        assert not company.hosts
        with desktop_hub(home):
            wait_until(lambda: listed(home) >= {"time", "memory"}, _told(home, company), DOWNLOADED)
            answer = home.json("tools", "call", "time__get_current_time", "timezone=Asia/Tokyo")
        assert "Asia/Tokyo" in answer["content"][0]["text"]
        hosts = set(company.hosts)
        npm = urlsplit(terminal["npm_config_registry"]).hostname
        assert npm in hosts, "npx did not use the proxy"
        assert hosts - {npm}, "uvx did not use the proxy"


def listed(home: Home) -> set[str]:
    """The servers that have listed tools."""
    rows = home.json("servers", "list")["results"]
    waiting = [row["name"] for row in rows if not row["tools"]]
    for name in waiting:
        # a start that gave up is started again, as a person would do
        home.run("servers", "test", name)
    return {row["name"] for row in rows if row["tools"]}


def _told(home: Home, company: CompanyProxy) -> str:
    return (
        "servers that list their tools. This test needs the registries of npm and PyPI: "
        f"npm config get registry says where the first is. See {home.tabane}/logs; tunnels: {company.hosts}"
    )


@contextmanager
def desktop_hub(home: Home) -> Iterator[None]:
    """A hub that a program with windows has started, with next to no environment."""
    entry = json.loads((home.folder / ".cursor" / "mcp.json").read_text())["mcpServers"]["tabane"]
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(home.folder)}
    bare |= {name: value for name, value in home.environment.items() if name.startswith(("TABANE_", "XDG_"))}
    assistant = Assistant((entry["command"], *entry["args"]), bare, str(home.folder / "bridge.log"))
    try:
        assistant.open(timeout=LONG)
        yield
    finally:
        assistant.close()
        home.run("stop")
