"""docs/rpc.md is true: its requests are answered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.e2e.docs.pages import blocks
from tests.harness.home import Home, hub
from tests.harness.patience import LONG


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    found.write_servers({"c": found.child()})
    found.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    with hub(found):
        assert found.run("servers", "test", "c").status == 0  # so that its tools are known
        yield found


def typed(home: Home, mark: str, *command: str) -> str:
    """What the block of that mark prints, with the port of this hub in place of the one it names."""
    (block,) = blocks(mark)
    port = home.run("status", "--json").json["http"].rsplit(":", 1)[1].removesuffix("/mcp")
    text = block.text.replace("127.0.0.1:8765", f"127.0.0.1:{port}")
    assert text != block.text
    done = subprocess.run(
        [*command, text], env=home.environment, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_in_python_is_answered(home: Home) -> None:
    assert typed(home, "rpc:python", sys.executable, "-c") == "init_completed\n"


def test_the_request_in_a_shell_is_answered(home: Home) -> None:
    if shutil.which("curl") is None:
        absent("curl")
    answer = json.loads(typed(home, "rpc:curl", "sh", "-c"))
    assert answer["result"]["results"]
