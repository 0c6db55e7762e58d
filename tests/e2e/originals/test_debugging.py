"""LOG_LEVEL=debug: the bridge writes its actions to standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.bridge import INITIALIZE, request
from tests.harness.home import Home, hub
from tests.harness.patience import LONG
from tests.harness.user import assistant


def test_debug_lines_come_on_standard_error_alone(tmp_path: Path) -> None:
    with hub(Home(tmp_path)) as home:
        for variable in ("LOG_LEVEL", "TABANE_LOG_LEVEL"):
            with assistant(home, **{variable: "debug"}) as found:
                assert "search_tools" in found.tools()
                found.text("hello", name="a secret of mine")
                found.client.end_input()
                assert found.client.out.rest() == []
                assert found.client.wait(LONG) == 0
                errors = found.client.errors()
            assert "DEBUG" in errors
            assert "tools/list" in errors
            assert "answer to" in errors
            assert "secret of mine" not in errors
        with assistant(home) as found:
            found.client.end_input()
            assert found.client.wait(LONG) == 0
            assert found.client.errors() == ""


def test_a_standalone_hub_does_the_same(tmp_path: Path) -> None:
    home = Home(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tabane", "mcp", "--standalone"],
        input=request(1, "initialize", **INITIALIZE) + b"\n",
        env={**home.environment, "LOG_LEVEL": "debug"},
        capture_output=True,
        timeout=LONG,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert b"DEBUG" in done.stderr or b"INFO" in done.stderr


@pytest.mark.parametrize("flags", [(), ("--standalone",)])
def test_standard_error_that_nobody_reads_holds_nothing_up(tmp_path: Path, flags: tuple[str, ...]) -> None:
    home = Home(tmp_path)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    requests = [request(0, "initialize", **INITIALIZE), *(request(n, "ping") for n in range(1, 200))]
    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "mcp", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        env={**home.environment, "LOG_LEVEL": "debug"},
    )
    try:
        out, _ = process.communicate(b"\n".join(requests) + b"\n", timeout=LONG)
        assert {json.loads(line)["id"] for line in out.splitlines()} == set(range(200))
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)
        home.run("stop")
