"""A standalone hub that answers its first request and does nothing else, and what it has imported by then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.harness.patience import LONG

_PROGRAM = """
import json, os, sys, threading
from tabane.hub.bridge import mcp_command

asked, ask = os.pipe()
answered, answer = os.pipe()

def look():
    client = {"name": "x", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    os.write(ask, json.dumps(request).encode())
    os.write(ask, b"\\n")
    result = json.loads(os.read(answered, 1 << 20))["result"]
    print(json.dumps([result["serverInfo"]["name"], *sorted(sys.modules)]))
    os.close(ask)

threading.Thread(target=look).start()
os.dup2(asked, 0)
os.dup2(answer, 3)
request = mcp_command.parse_arguments(["--standalone"], dict(os.environ))
hello = mcp_command._hello(request, "stdio", os.environ["TABANE_HOME"], os.environ)
from tabane.hub.process.serve import run_standalone
run_standalone(0, 3, hello, ())
"""


def imported_modules(folder: Path) -> frozenset[str]:
    """Return the names of all modules of a hub with one server, in a new home, at its first answer."""
    folder.mkdir(parents=True, exist_ok=True)
    servers = folder / "mcp-servers.json"
    servers.write_text(json.dumps({"mcpServers": {"files": {"command": "true", "args": ["--root", "/x"]}}}))
    servers.chmod(0o600)
    own = {"TABANE_HOME": str(folder / "home"), "TABANE_SERVERS": str(servers), "HOME": str(folder)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TABANE_")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**kept, **own},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name, *modules = json.loads(done.stdout)
    assert name == "tabane"
    return frozenset(modules)
