"""docs/http.md is true: its requests are answered."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.conftest import absent
from tests.e2e.docs.pages import blocks
from tests.harness.home import Home, hub
from tests.harness.patience import LONG


def test_the_first_try_is_answered(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        absent("curl")
    (block,) = blocks("http")
    home = Home(tmp_path)
    home.write_servers({"c": home.child()})
    home.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    with hub(home):
        url = home.run("status", "--json").json["http"]
        text = block.text.replace("http://127.0.0.1:8765/mcp", url)
        assert url in text
        done = subprocess.run(
            ["sh", "-c", text],
            env=home.environment,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    tools = json.loads(done.stdout)["result"]["tools"]
    assert "search_tools" in {tool["name"] for tool in tools}
