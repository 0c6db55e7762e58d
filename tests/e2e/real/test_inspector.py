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
from tests.harness.home import Home
from tests.harness.home import hub as lead_hub
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


def test_the_inspector_reaches_a_hub_over_https_with_what_a_colleague_gets(
    tmp_path: Path, node_tools: Path
) -> None:
    """NODE_EXTRA_CA_CERTS names the authority, as the letter of a key says."""
    lead = Home(tmp_path)
    lead.write_servers({"c": lead.child()})
    lead.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    lead.run("tls", "create", "localhost").succeeded  # noqa: B018
    with lead_hub(lead):
        made = lead.json("keys", "create", "alice", "--allow", "*", "--print-client", "cursor")
        server = json.loads(made["client"]["text"])["mcpServers"]["tabane"]
        inspector = [str(node_tools / "mcp-inspector"), "--cli", server["url"], "--transport", "http"]
        for name, value in server["headers"].items():
            inspector += ["--header", f"{name}: {value}"]
        environment = {
            "PATH": f"{node_tools}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "NODE_EXTRA_CA_CERTS": made["client"]["authority"],
        }
        done = subprocess.run(
            [*inspector, "--method", "tools/list"],
            env=environment, capture_output=True, text=True, timeout=LONG, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "c__echo" in [tool["name"] for tool in json.loads(done.stdout)["tools"]]
        del environment["NODE_EXTRA_CA_CERTS"]
        refused = subprocess.run(
            [*inspector, "--method", "tools/list"],
            env=environment, capture_output=True, text=True, timeout=LONG, check=False,
        )  # fmt: skip
        assert refused.returncode != 0
