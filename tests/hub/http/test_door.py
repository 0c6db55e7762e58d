"""The HTTP door: when it opens, what it costs, why it stays closed, how it closes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tabane.errors import ConfigurationError
from tabane.hub.rpc.permission import load_token
from tabane.settings import load_settings
from tests.harness.patience import wait_until
from tests.harness.user import User

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    yield user
    user.close()


class Caller:
    """A client of a user's hub, over one connection."""

    def __init__(self, user: User) -> None:
        status = user.json("status")
        address = urlsplit(status["http"])
        self.port = address.port
        self.connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        self.token = Path(status["http_token"]).read_text().strip()

    def send(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> None:
        params = {**(params or {}), "_meta": ENVELOPE}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        given = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            **({"mcp-name": params["name"]} if "name" in params else {}),
            **headers,
        }
        self.connection.request("POST", "/mcp/full", json.dumps(message), given)

    def answer(self) -> http.client.HTTPResponse:
        return self.connection.getresponse()

    def call(self, name: str, **arguments: Any) -> Any:
        self.send("tools/call", {"name": name, "arguments": arguments})
        return self.result()

    def result(self) -> Any:
        """The answering message, which a slow machine gives at the end of a stream."""
        answer = self.answer()
        text = answer.read()
        if answer.headers["content-type"] == "text/event-stream":
            text = text.strip().rpartition(b"data:")[2]
        return json.loads(text)


def test_a_hub_says_where_it_is_reached_and_never_its_token(user: User) -> None:
    assert user.run("start").status == 0
    shown = user.run("status", "--json").out
    status = json.loads(shown)
    assert status["http"] == f"http://127.0.0.1:{urlsplit(status['http']).port}/mcp"
    path = Path(status["http_token"])
    assert path == user.tabane / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().strip()
    assert len(token) == 43
    caller = Caller(user)
    assert caller.call("small__echo", n=1)["result"]["content"]
    assert token not in shown + user.run("status", "--settings").out
    assert token not in (user.tabane / "logs" / "hub.log").read_text()
    found = user.run("doctor", "--quick", "--json").out
    assert status["http"] in found
    assert user.run("restart").status == 0
    assert Caller(user).token == token


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has loaded is told by Linux alone")
def test_what_serves_is_loaded_with_the_first_connection(user: User) -> None:
    user.forks_hub = False
    assert user.run("start").status == 0
    hub = psutil.Process(user.holder.pid)
    assert not any("httptools" in found.path for found in hub.memory_maps())
    assert user.json("status")["memory_mb"] <= 45  # the performance page has the figure
    Caller(user).call("small__echo")
    assert any("httptools" in found.path for found in hub.memory_maps())


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_told_and_an_assistant_is_served(user: User, taken: int) -> None:
    user.environment |= {"TABANE_PORT": str(taken)}
    client = user.assistant()
    assert client.call(1, name="small__echo", arguments={})["result"]
    status = user.json("status")
    assert status["http"] is None
    assert f"port {taken}" in status["http_problem"]
    assert "TABANE_PORT" in status["http_problem"]
    assert "TABANE_PORT" in user.run("doctor", "--quick").out
    again = user.run("start")
    assert again.status == 1
    assert f"port {taken}" in again.err
    assert user.run("restart").status == 0, "the hub is still one that a bridge started"


@pytest.mark.parametrize("how", ["flag", "environment", "settings", "foreground", "standalone"])
def test_a_start_with_a_port_that_is_taken_fails_and_names_who_has_it(
    user: User, taken: int, how: str, tmp_path: Path
) -> None:
    arguments = ["start"]
    if how == "environment":
        user.environment |= {"TABANE_PORT": str(taken)}
    elif how == "settings":
        config = tmp_path / "tabane.toml"
        config.write_text(f"port = {taken}\n")
        config.chmod(0o600)
        del user.environment["TABANE_PORT"]
        user.environment |= {"TABANE_CONFIG": str(config)}
    elif how == "standalone":
        arguments = ["mcp", "--standalone"]
        user.environment |= {"TABANE_PORT": str(taken), "TABANE_HTTP": "true"}
    else:
        arguments += [f"--port={taken}", *(["--foreground"] if how == "foreground" else [])]
    done = user.run(*arguments)
    assert done.status == 1
    assert f"port {taken}" in done.err
    if sys.platform == "linux":
        assert f"process {os.getpid()}" in done.err
    assert done.out == ""
    user.gone()
    if how in ("environment", "settings"):
        assert f"Port {taken}" in user.run("doctor", "--quick").out


def test_an_archive_is_not_served_silently_beside_another_server(user: User, taken: int) -> None:
    (user.folder / "embeddings").mkdir()
    archive = ["-e", str(user.folder / "embeddings")]
    user.environment |= {"TABANE_PORT": str(taken)}
    fresh = user.run("start", *archive)
    assert (fresh.status, fresh.out) == (1, "")
    assert f"port {taken}" in fresh.err
    user.assistant()
    again = user.run("start", *archive)
    assert (again.status, again.out) == (1, "")
    assert f"port {taken}" in again.err
    assert user.json("jobs", "list")["results"] == []


@pytest.mark.parametrize("name", ["http", "port", "posts_embeddings", "posts_reasoning", "posts_summary"])
def test_whoever_gives_a_port_or_an_archive_wants_http(name: str, tmp_path: Path) -> None:
    value = {"http": "true", "port": "8765"}.get(name, str(tmp_path))
    variables = {"HOME": str(tmp_path)}
    assert not load_settings({}, variables).insists_on_http
    assert load_settings({}, {**variables, f"TABANE_{name.upper()}": value}).insists_on_http
    off = {**variables, f"TABANE_{name.upper()}": value, "TABANE_HTTP": "false"}
    assert not load_settings({}, off).insists_on_http


def test_the_default_port_may_be_taken_and_the_start_says_so(user: User) -> None:
    for name in ("TABANE_HTTP", "TABANE_PORT"):
        del user.environment[name]
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # then somebody else has it, which is as good
            stack.enter_context(socket.create_server(("127.0.0.1", 8765)))
        done = user.run("start")
        assert user.json("status")["http"] is None
    assert done.status == 0
    assert "port 8765" in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="who listens at a port is told by Linux alone")
def test_the_port_of_a_hub_whose_home_was_deleted_is_waited_for(user: User) -> None:
    user.json("start", "--port=0")
    port = user.json("status")["http"].rpartition(":")[2].removesuffix("/mcp")
    shutil.rmtree(user.tabane)
    started = user.json("start", f"--port={port}")
    assert started["started"] is True
    assert f":{port}/" in started["http"]


def test_a_token_that_others_may_read_is_refused(user: User) -> None:
    user.tabane.mkdir(mode=0o700)
    (user.tabane / "token").write_text("a-token-of-the-user's-own")
    (user.tabane / "token").chmod(0o644)
    assert user.run("start").status == 0
    status = user.json("status")
    assert status["http"] is None
    assert f"chmod 600 {user.tabane / 'token'}" in status["http_problem"]


def test_a_token_may_be_the_users_own_and_has_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    made = load_token(tmp_path)
    assert load_token(tmp_path) == made
    path.write_text("  0123456789abcdef-of-my-own\n")
    assert load_token(tmp_path) == "0123456789abcdef-of-my-own"
    for bad in (
        "short",
        "",
        "with spaces in the middle of it",
        "zeichen-außerhalb-von-ascii",
        "0123456789abcdef!",
    ):
        path.write_text(bad)
        with pytest.raises(ConfigurationError, match="contains no valid token"):
            load_token(tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.com", "127.0.0.1.example.com", ""])
def test_an_address_that_others_can_reach_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match="other machines"):
        load_settings({"host": host}, {"TABANE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert load_settings({"host": host, "http": False}, {"TABANE_HOME": str(tmp_path), "HOME": str(tmp_path)})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_each_address_of_this_machine_alone_will_do(tmp_path: Path, host: str) -> None:
    settings = load_settings({"host": host}, {"TABANE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert settings.host == host


def test_a_hub_within_a_clients_process_serves_http_only_when_told(user: User) -> None:
    del user.environment["TABANE_HTTP"]
    quiet = user.assistant("--standalone")
    assert "http" not in user.json("status")
    quiet.end_input()
    quiet.wait()
    user.environment["TABANE_HTTP"] = "true"
    user.assistant("--standalone")
    assert Caller(user).call("small__echo", n=1)["result"]


def test_a_call_in_flight_is_finished_and_others_are_sent_to_the_next_hub(user: User) -> None:
    assert user.run("start").status == 0
    busy, listening, late = Caller(user), Caller(user), Caller(user)
    busy.send("tools/call", {"name": "small__wait", "arguments": {}})
    wait_until(lambda: (user.folder / "waiting").exists(), "the call is with the server")
    listening.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    stream = listening.answer()
    assert stream.headers["content-type"] == "text/event-stream"
    assert b"acknowledged" in stream.readline()
    late.send("tools/list")
    assert late.answer().read()
    user.kill_hub(15)

    def refused() -> bool:
        late.send("tools/list")
        answer = late.answer()
        said = json.loads(answer.read())
        return answer.status == 503 and said["error"]["data"]["reason"] == "draining"

    wait_until(refused, "requests are refused")
    (user.folder / "go").touch()
    assert busy.result()["result"]
    rest = stream.read()
    assert b'"resultType":"complete"' in rest
    wait_until(lambda: not user.runs, "the hub has ended")


def test_clients_over_http_keep_a_hub_from_ending_as_idle(user: User, tmp_path: Path) -> None:
    """One that an assistant started ends some time after the last client, whichever way that came."""
    (tmp_path / "other").mkdir()
    other = User(tmp_path / "other")
    for each in (user, other):
        each.environment["TABANE_IDLE_END"] = "0.03"
    client = user.assistant()
    caller = Caller(user)
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    headers = {
        "authorization": f"Bearer {caller.token}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    caller.connection.request("POST", "/mcp", json.dumps(message), headers)
    answer = caller.answer()
    answer.read()
    headers |= {"mcp-session-id": answer.headers["mcp-session-id"]}
    caller.connection.request("GET", "/mcp", headers=headers | {"accept": "text/event-stream"})
    assert caller.answer().status == 200
    client.end_input()
    client.wait()
    other.assistant().close()
    wait_until(lambda: not other.runs, "the limit has passed, also for the first hub")
    assert user.runs
    caller.connection.close()
    caller.connection.request("DELETE", "/mcp", headers=headers)
    caller.answer().read()
    caller.connection.close()
    wait_until(lambda: not user.runs, "the hub has ended")


def test_two_hubs_of_two_homes_do_not_fight_for_a_port(user: User, tmp_path: Path) -> None:
    assert user.run("start").status == 0
    port = urlsplit(user.json("status")["http"]).port
    os.mkdir(tmp_path / "second")
    second = User(tmp_path / "second")
    second.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": str(port)}
    try:
        refused = second.run("start")
        assert refused.status == 1
        if sys.platform == "linux":
            assert f"the hub of {user.tabane} (process {user.holder.pid})" in refused.err
        second.assistant()
        assert second.json("status")["http"] is None
        assert user.run("stop").status == 0
        assert second.run("restart").status == 0
        assert urlsplit(second.json("status")["http"]).port == port
    finally:
        second.run("stop")
        second.close()
