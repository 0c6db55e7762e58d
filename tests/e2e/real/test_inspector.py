"""The MCP Inspector's command line lists and calls through the hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real.conftest import Workplace
from tests.harness.patience import LONG

pytestmark = pytest.mark.node


def inspect(place: Workplace, tools: Path, hub: list[str], *arguments: str, status: int = 0) -> Any:
    """What ``mcp-inspector --cli`` prints, decoded; it must end with that status."""
    environment = place.environment | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    # The Inspector hands a server few variables by itself; the hub's are named.
    passed = [
        part for name in ("TABANE_HOME", "TABANE_CONFIG") for part in ("-e", f"{name}={environment[name]}")
    ]
    done = subprocess.run(
        [str(tools / "mcp-inspector"), "--cli", *passed, *hub, *arguments],
        env=environment,
        cwd=place.folder,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_the_tools_of_search_mode(python_servers: Workplace, node_tools: Path) -> None:
    listed = inspect(python_servers, node_tools, python_servers.hub(), "--method", "tools/list")
    names = [tool["name"] for tool in listed["tools"]]
    assert names[:4] == ["search_tools", "describe_tools", "call_tool", "call_readonly_tool"]


def test_the_inspector_calls_a_tool_of_a_real_server(python_servers: Workplace, node_tools: Path) -> None:
    arguments = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}
    called = inspect(
        python_servers, node_tools, python_servers.hub(),
        "--method", "tools/call", "--tool-name", "call_tool",
        "--tool-arg", "name=time__convert_time", "--tool-arg", f"arguments={json.dumps(arguments)}",
    )  # fmt: skip
    assert "T00:30:00" in json.loads(called["content"][0]["text"])["target"]["datetime"]


def test_the_inspector_lists_and_calls_by_name_in_full_mode_through_bridge_and_daemon(
    node_servers: Workplace, node_tools: Path
) -> None:
    bridge = [sys.executable, "-m", "tabane", "mcp", "--mode", "full"]
    try:
        called = inspect(
            node_servers, node_tools, bridge,
            "--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=束ね",
        )  # fmt: skip
        assert called["content"] == [{"type": "text", "text": "Echo: 束ね"}]
        listed = inspect(node_servers, node_tools, bridge, "--method", "tools/list")
        names = [tool["name"] for tool in listed["tools"]]
        assert {"filesystem__write_file", "memory__open_nodes", "everything__echo"} <= set(names)
    finally:
        stopped = subprocess.run(
            [sys.executable, "-m", "tabane", "stop"],
            env=node_servers.environment,
            capture_output=True,
            timeout=LONG,
            check=False,
        )
    assert stopped.returncode == 0, stopped.stderr
