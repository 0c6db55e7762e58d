"""A servers file that names the hub itself, as a command."""

from __future__ import annotations

import sys

from tests.harness.home import Home, hub
from tests.harness.running_hub import child


def test_a_hub_that_is_its_own_server_by_command_is_refused(home: Home) -> None:
    bridge = {
        "command": sys.executable,
        "args": ["-m", "tabane", "mcp"],
        "env": {"TABANE_HOME": str(home.tabane)},
        "inherit": ["*"],
    }
    wrapped = {**bridge, "command": "sh", "args": ["-c", f"exec {sys.executable} -m tabane mcp"]}
    # A restart that comes at the same moment may take the place of the start that is asked for.
    home.environment |= {"TABANE_RESTART_FIRST": "600", "TABANE_RESTART_MAX": "600"}
    home.write_servers({"me": bridge, "wrapped": wrapped, "up": child()})
    with hub(home):
        for name in ("me", "wrapped"):
            failed = home.run("servers", "test", name)
            assert failed.status != 0, failed.out
            assert "leads back" in failed.err, failed.err
        listed = home.run("tools", "list", "--json").json
        assert {row["server"] for row in listed["results"]} == {"up"}
