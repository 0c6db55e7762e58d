"""What the README tells a new user to type leads from assistants with servers to an answer of a tool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.docs.pages import ROOT, commands
from tests.e2e.docs.test_tutorial import HERE, home
from tests.harness.patience import LONG

OLD = {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}
FILES = (".claude.json", ".cursor/mcp.json")
SESSION = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "assistant", "version": "1"},
}
CALL = {"name": "time__get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (("initialize", SESSION), ("tools/call", CALL))


@pytest.mark.heavy("runs what a document says")
def test_the_first_commands_lead_to_an_answer_and_back(tmp_path: Path) -> None:
    environment = home(tmp_path, "C.UTF-8") | {"TABANE_HTTP": "false"}
    files = [Path(environment["HOME"], name) for name in FILES]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(OLD))
    assert {"tabane setup", "tabane setup --undo", "tabane doctor"} <= commands(ROOT / "README.md")
    try:
        typed("tabane setup --yes", environment)
        for file in files:
            servers = json.loads(file.read_text())["mcpServers"]
            assert list(servers) == ["tabane"]
            assert "Asia/Tokyo" in answer(servers["tabane"], environment)
        typed("tabane doctor", environment)
        typed("tabane setup --undo --yes", environment)
        assert [json.loads(file.read_text()) for file in files] == [OLD, OLD]
    finally:
        subprocess.run([str(HERE / "tabane"), "stop"], env=environment, capture_output=True, timeout=LONG)


def typed(command: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=4 * LONG
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def answer(entry: dict[str, Any], environment: dict[str, str]) -> str:
    """Return what an assistant with this entry gets from the tool."""
    process = subprocess.Popen(
        [entry["command"], *entry["args"]],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        for number, (method, params) in enumerate(REQUESTS):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            while (reply := json.loads(process.stdout.readline())).get("id") != number:
                pass
        process.stdin.close()
        process.wait(LONG)
    return json.dumps(reply["result"])
