"""Unchanged clients of the original twilog against a hub process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.conftest import absent
from tests.harness.home import Home, hub

PYTHON = """
import asyncio, json, sys
import websockets

async def main(url, method):
    async with websockets.connect(url) as websocket:
        await websocket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": {}, "id": 1}))
        while True:
            answer = json.loads(await websocket.recv())
            print(json.dumps(answer))
            if not answer.get("more", False):
                break

asyncio.run(main(*sys.argv[1:]))
"""
"""The shape of twilog's own client: one request, then answers until one says that there is no more."""

NODE = """
const [url, ...tokens] = process.argv.slice(1);
const WebSocket = require("ws");
const socket = tokens.length ? new WebSocket(url, ["tabane.rpc", ...tokens]) : new WebSocket(url);
const ask = (method, params, id) => socket.send(JSON.stringify({jsonrpc: "2.0", method, params, id}));
socket.on("open", () => ask("check_init", {}, 1));
socket.on("message", (data) => {
  const answer = JSON.parse(data.toString());
  console.log(JSON.stringify(answer));
  if (answer.id === 1) ask("hub_status", {}, 2); else socket.close();
});
socket.on("error", (error) => { console.error(error.message); process.exit(1); });
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path)
    found.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    with hub(found):
        yield found


def address(home: Home) -> str:
    url: str = home.run("status", "--json").json["http"]
    return url.replace("http://", "ws://").removesuffix("mcp")


def said(*command: str, **environment: str) -> list[Any]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_client_of_twilog_is_answered(home: Home) -> None:
    (answer,) = said(sys.executable, "-c", PYTHON, address(home), "check_init")
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"status": "init_completed"}}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="without the token on Linux alone")
def test_it_stops_the_hub_as_it_stopped_its_own_server(home: Home) -> None:
    (answer,) = said(sys.executable, "-c", PYTHON, address(home), "stop_server")
    assert answer["result"]["status"] == "stopping"
    assert home.run("start").status == 0  # waits until the last one is gone


def test_a_hub_that_is_stopped_closes_its_websockets_in_order(home: Home) -> None:
    with connect(address(home), proxy=None) as client:
        assert home.run("stop").status == 0
        with pytest.raises(Exception, match="1001"):
            client.recv(timeout=60)
    assert home.run("start").status == 0


@pytest.mark.node
@pytest.mark.parametrize("known", [False, True])
def test_a_client_in_node_is_answered(home: Home, node_tools: Path, known: bool) -> None:
    modules = node_tools.parent / "node_modules"
    if not (modules / "ws").is_dir():
        absent("ws (make node)")
    token = (home.tabane / "token").read_text().strip()
    shown = [f"tabane.token.{token}"] if known else []
    command = [str(node_tools / "node"), "-e", NODE, address(home), *shown]
    first, second = said(*command, NODE_PATH=str(modules))
    assert first["result"] == {"status": "init_completed"}
    assert second["result"]["status"] == "running" if known else second["error"]["code"] == -31403
