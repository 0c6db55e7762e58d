"""A hub that a team shares: real processes, keys made with the command, and clients as people have them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets
from mcp.shared.exceptions import MCPError

from tests.harness.certificates import HubCertificate
from tests.harness.home import Home, hub
from tests.harness.official_client import Era, over_http, run, text
from tests.harness.patience import LONG, until, wait_until
from tests.harness.user import assistant

Json = dict[str, Any]

TOML = """
[profiles.echo]
allow = ["github__echo"]

[tiers.tiny]
burst = 2
rate = "30/minute"

[tiers.small]
result_size = "4 KiB"
"""

FORBIDDEN, LIMITED, UNKNOWN_TOOL, UNKNOWN_METHOD = -31403, -31429, -32602, -32601


SEARCH = {"jsonrpc": "2.0", "id": 1, "method": "search_tools", "params": {"query": "x"}}


class Member:
    """Somebody of the team, with a key, who sends JSON-RPC over HTTP."""

    def __init__(self, base: str, key: str, verify: Any = True) -> None:
        self.base, self.key = base, key
        self.http = httpx2.AsyncClient(verify=verify, timeout=LONG, trust_env=False)

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    async def post(self, method: str, at: str = "/rpc", /, **params: Any) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(f"{self.base}{at}", json=message, headers=self.headers)

    async def ask(self, method: str, /, **params: Any) -> Json:
        answer: Json = (await self.post(method, **params)).json()
        return answer

    async def result(self, method: str, /, **params: Any) -> Any:
        answer = await self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    async def code(self, method: str, /, **params: Any) -> int:
        answer = await self.ask(method, **params)
        assert "error" in answer, answer
        return int(answer["error"]["code"])

    async def call(self, name: str, **arguments: Any) -> Json:
        return await self.ask("call_tool", name=name, arguments=arguments)


class Team:
    """A hub process that serves HTTP at a free port, and its keys."""

    def __init__(self, home: Home) -> None:
        self.home = home

    @property
    def status(self) -> Json:
        status: Json = self.home.json("status")
        return status

    @property
    def base(self) -> str:
        return str(self.status["http"]).removesuffix("/mcp")

    def key(self, name: str, *options: str) -> str:
        return self.home.run("keys", "create", name, *options).succeeded.out.strip()

    @asynccontextmanager
    async def member(self, key: str, base: str = "", verify: Any = True) -> AsyncIterator[Member]:
        member = Member(base or self.base, key, verify)
        async with member.http:
            yield member

    def entries(self) -> list[Json]:
        """All entries of the audit log, the oldest first; without one that is being written."""
        files = sorted((self.home.tabane / "audit").glob("*.jsonl"))
        lines = (line for file in files for line in file.read_text().splitlines(keepends=True))
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def calls(self, **wanted: Any) -> list[Json]:
        return [e for e in self.entries() if all(e.get(name) == value for name, value in wanted.items())]

    def verify(self) -> None:
        assert "intact" in self.home.run("audit", "verify").succeeded.out


def prepared(folder: Path, settings: str = "") -> Home:
    """A home with two servers, and settings."""
    os.chmod(folder, 0o700)
    home = Home(folder, made=not (folder / "tabane").exists())
    home.write_servers({"github": home.child(), "gitlab": home.child()})
    config = home.servers.parent / "tabane.toml"
    config.write_text("list_wait = 60\n" + settings + TOML)
    config.chmod(0o600)
    return home


@contextmanager
def team(folder: Path, settings: str = "", *flags: str) -> Iterator[Team]:
    home = prepared(folder, settings)
    with hub(home, "--http", "--port=0", *flags):
        home.run("tools", "list").succeeded  # every server has listed its tools  # noqa: B018
        yield Team(home)


@contextmanager
def stopping(home: Home) -> Iterator[None]:
    try:
        yield
    finally:
        home.run("stop")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with team(tmp_path_factory.mktemp("team")) as here:
        yield here


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_assistant_with_a_key_has_what_the_key_allows(shared: Team, era: Era) -> None:
    name = f"alice-{era}"
    options = ("--allow", "github__*", "--read-only", "--expires", "90d", "--tier", "premium")
    key = shared.key(name, *options)
    async with over_http(f"{shared.base}/mcp/full", era, key) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert "github__echo" in tools
        assert not {name for name in tools if name.startswith("gitlab")} | {"github__count"} & tools
        assert text(await client.call_tool("github__echo", {"text": "hi"})) == '{"text": "hi"}'
        for hidden in ("github__count", "gitlab__echo", "gitlab__nothing"):
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(hidden, {})
    async with over_http(f"{shared.base}/mcp", era, key) as client:
        found = text(await client.call_tool("search_tools", {"query": "echo arguments"}))
        assert "github__echo" in found
        assert "gitlab" not in found
        inner = {"name": "github__echo", "arguments": {"text": "x", "password": "hunter2"}}
        assert not (await client.call_tool("call_tool", inner)).is_error
        for hidden in ("github__count", "gitlab__echo"):
            refused = await client.call_tool("call_tool", {"name": hidden, "arguments": {}})
            assert refused.is_error
            assert "Unknown tool" in text(refused)
    assert shared.calls(label=name, name="github__echo", outcome="ok")[-1]["arguments"]["password"] == "***"
    # Both that exist leave a trace, whichever way they were called; the third one names nothing.
    entries = shared.calls(label=name, outcome="refused")
    assert [entry["name"] for entry in entries] == ["github__count", "gitlab__echo"] * 2
    assert all(entry["client"] for entry in shared.calls(label=name, type="call"))
    shared.verify()


async def test_a_program_with_a_key_has_what_the_key_allows(shared: Team) -> None:
    key = shared.key("program", "--allow", "github__*", "--read-only")
    async with shared.member(key) as me:
        assert "result" in await me.call("github__echo", text="x")
        assert await me.code("call_tool", name="gitlab__echo") == UNKNOWN_TOOL
        requests: list[Json] = [{"name": name, "arguments": {}} for name in ("github__echo", "gitlab__echo")]
        done = await me.result("execute_parallel", requests=requests)
        assert [each["ok"] for each in done["results"]] == [True, False]
        url = me.base.replace("http", "ws", 1) + "/rpc"
        async with websockets.connect(url, additional_headers=me.headers) as socket:
            for name, member in (("github__echo", "result"), ("github__count", "error")):
                params = {"name": name, "arguments": {}}
                request = {"jsonrpc": "2.0", "id": 1, "method": "call_tool", "params": params}
                await socket.send(json.dumps(request))
                assert member in json.loads(await socket.recv())


async def test_a_key_without_administration_administers_nothing(shared: Team) -> None:
    key = shared.key("worker", "--allow", "*")
    other = shared.key("other", "--allow", "*")
    forbidden: list[tuple[str, Json]] = [
        ("query_audit_logs", {}), ("get_audit_stats", {}), ("list_jobs", {}), ("get_job_status", {"id": "1"}),
        ("put_file", {"path": "/etc/hosts"}), ("stop_server", {}), ("list_servers", {}),
        ("restart_mcp_server", {"name": "github"}),
    ]  # fmt: skip
    async with shared.member(key) as me, shared.member(other) as they:
        assert "result" in await they.call("github__echo")
        await me.call("gitlab__echo")
        for method, params in forbidden:
            assert await me.code(method, **params) in (FORBIDDEN, UNKNOWN_METHOD), method
        mine = await me.result("get_usage_stats", by="key")
        assert [row["label"] for row in mine["results"]] == ["worker"]
        tools = {row["tool"] for row in (await me.result("get_usage_stats"))["results"]}
        assert "gitlab__echo" in tools
        assert "github__echo" not in tools
        assert not (await me.result("get_usage_stats", key="other"))["results"]


async def test_metrics_name_servers_only_for_whom_may_see_them(shared: Team) -> None:
    keys = shared.key("prometheus", "--allow", "metrics"), shared.key("curious", "--allow", "github__*")
    shown = []
    for key in keys:
        async with shared.member(key) as me:
            answer = await me.http.get(f"{me.base}/metrics", headers=me.headers)
            assert answer.status_code == 200
            shown.append(answer.text)
    assert 'server="gitlab"' in shown[0]
    assert "gitlab" not in shown[1]


async def test_a_profile_narrows_every_way_in(shared: Team) -> None:
    whole = shared.key("whole", "--allow", "*")
    bound = shared.key("bound", "--profile", "echo")

    async def listed(url: str, key: str) -> set[str]:
        async with over_http(url, "legacy", key) as client:
            return {tool.name for tool in (await client.list_tools()).tools if "__" in tool.name}

    assert "gitlab__echo" in await listed(f"{shared.base}/mcp/full", whole)
    assert await listed(f"{shared.base}/mcp/full", bound) == {"github__echo"}
    for path in ("/mcp/p/echo/full", "/mcp/p/echo"):
        async with over_http(f"{shared.base}{path}", "modern", whole) as client:
            assert not (await client.call_tool("github__echo", {})).is_error
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("github__pid", {})
    async with shared.member(whole) as me:
        assert (await me.post("tools/list", "/mcp/p/nothing")).status_code == 404
    with assistant(shared.home, "--mode=full", "--profile=echo") as narrowed:
        assert {name for name in narrowed.tools() if "__" in name} == {"github__echo"}
        assert "Unknown tool" in narrowed.ask("tools/call", name="gitlab__echo")["error"]["message"]


async def test_revoking_a_key_ends_what_is_open(shared: Team) -> None:
    key = shared.key("leaver", "--allow", "github__*")
    async with shared.member(key) as me:
        url = me.base.replace("http", "ws", 1) + "/rpc"
        initialize = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "leaver", "version": "1"},
        }
        begun = await me.http.post(
            f"{me.base}/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
            headers={**me.headers, "accept": "application/json, text/event-stream"},
        )
        session = {**me.headers, "mcp-session-id": begun.headers["mcp-session-id"]}
        listening = {**session, "accept": "text/event-stream"}
        async with (
            websockets.connect(url, additional_headers=me.headers) as socket,
            me.http.stream("GET", f"{me.base}/mcp", headers=listening) as stream,
        ):
            assert stream.status_code == 200
            await asyncio.to_thread(lambda: shared.home.run("keys", "revoke", "leaver").succeeded)
            with contextlib.suppress(httpx2.HTTPError):
                async for _ in stream.aiter_bytes():
                    pass
            await asyncio.wait_for(socket.wait_closed(), LONG)
        assert (await me.post("search_tools", query="x")).status_code == 401
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        again = await me.http.post(f"{me.base}/mcp", json=ping, headers=session)
        assert again.status_code == 401
        assert "key" in again.json()["error"]["message"]


def brief_key(team: Team) -> str:
    """Create a key that ends soon: as soon as the command that creates it is quick enough for."""
    for seconds in (3, 15, 60):
        soon = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        made = team.home.run("keys", "create", "brief", "--allow", "*", "--expires", soon)
        if made.status == 0:
            return made.out.strip()
    raise AssertionError(made.err)


async def test_an_expired_key_is_refused(shared: Team) -> None:
    key = brief_key(shared)
    async with shared.member(key) as me:

        async def refused() -> bool:
            return (await me.post("search_tools", query="x")).status_code == 401

        await until(refused)


async def test_wrong_keys_are_slowed_down_and_recorded(shared: Team) -> None:
    key = shared.key("honest", "--allow", "*")
    async with shared.member(key[:-1] + "~") as thief, shared.member(key) as me:
        answers = await asyncio.gather(*(thief.post("search_tools", query="x") for _ in range(12)))
        statuses = {answer.status_code for answer in answers}
        assert statuses == {401, 429}
        late = next(answer for answer in answers if answer.status_code == 429)
        assert int(late.headers["retry-after"]) >= 1
        # The thief is at the same address, and nobody else waits for that.
        assert "result" in await me.ask("search_tools", query="x")
    wait_until(lambda: shared.calls(type="access", name="sign_in", outcome="refused", reason="key"))


async def test_a_caller_waits_as_long_as_it_is_told(shared: Team) -> None:
    key = shared.key("hasty", "--allow", "*", "--tier", "tiny")
    async with shared.member(key) as me:
        for _ in range(4):
            while "error" not in (answer := await me.call("github__echo")):
                pass  # a machine with much to do may take as long as a call is worth
            assert answer["error"]["code"] == LIMITED
            assert 0 < answer["error"]["data"]["retryAfterSeconds"] <= 2
        while (over := await me.post("call_tool", name="github__echo", arguments={})).status_code != 429:
            assert "result" in over.json()
        wait = float(over.headers["retry-after"])
        begun = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() - begun >= wait)
        assert "result" in await me.call("github__echo")
    row = next(row for row in shared.home.json("limits")["results"] if row["tier"] == "tiny")
    assert row["refused"] >= 5
    assert row["in_flight"] == 0
    assert shared.calls(label="hasty", outcome="limited")
    assert shared.home.json("usage", "--by", "key", "--key", "hasty")["results"][0]["limited"] >= 5


async def test_a_result_has_the_size_that_the_tier_allows(shared: Team) -> None:
    key = shared.key("narrow", "--allow", "*", "--tier", "small")
    async with shared.member(key) as me:
        assert "result" in await me.call("github__huge", bytes=1000)
        refused = (await me.call("github__huge", bytes=100_000))["error"]["message"]
        assert "4 KiB" in refused or "4096" in refused
    async with over_http(f"{shared.base}/mcp/full", "modern", key) as client:
        with contextlib.suppress(MCPError):
            assert (await client.call_tool("github__huge", {"bytes": 100_000})).is_error


def test_a_person_is_told_why(shared: Team) -> None:
    shared.key("explained", "--allow", "github__*", "--read-only")
    explain = shared.home.run("policy", "explain", "explained", "github__count")
    assert explain.status == 1
    assert "read-only" in explain.out
    assert shared.home.run("policy", "explain", "explained", "github__echo").succeeded


# -- other addresses -----------------------------------------------------------------------------


def test_other_machines_need_tls_and_a_key(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    tls = f'tls_certificate = "{certificate.certificate}"\ntls_key = "{certificate.key}"\n'
    home = prepared(tmp_path, 'host = "0.0.0.0"\n')
    refused = home.run("start", "--http", "--port=0")
    assert refused.status != 0
    assert "tls_certificate" in refused.err
    home = prepared(tmp_path, 'host = "0.0.0.0"\n' + tls)
    assert "tabane keys create" in home.run("start", "--http", "--port=0").err
    key = home.run("keys", "create", "alice", "--allow", "github__*").succeeded.out.strip()
    home.run("restart").succeeded  # noqa: B018
    with stopping(home):
        here = Team(home)
        home.run("tools", "list").succeeded  # noqa: B018
        port = here.base.rpartition(":")[2]

        async def scenario() -> None:
            base = f"https://127.0.0.1:{port}"
            async with here.member(key, base, certificate.trusted()) as alice:
                assert "result" in await alice.call("github__echo")
            async with here.member("", base, certificate.trusted()) as nobody:
                answer = await nobody.http.post(f"{base}/mcp", json={})
                assert answer.status_code == 401

        run(scenario)


@asynccontextmanager
async def forwarding(port: int, client: str) -> AsyncIterator[int]:
    """A proxy that adds what proxies add, and forwards one request of each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n")
        added = f"X-Forwarded-For: {client}\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: hub.example\r\n"
        there, hub_writer = await asyncio.open_connection("127.0.0.1", port)
        hub_writer.write(head + added.encode())

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while data := await source.read(1 << 16):
                to.write(data)
                await to.drain()
            to.close()

        with contextlib.suppress(OSError):
            await asyncio.gather(copy(reader, hub_writer), copy(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def test_a_hub_behind_a_proxy_needs_its_token(tmp_path: Path) -> None:
    home = prepared(tmp_path, 'trusted_proxies = ["127.0.0.1"]\nhttp_token = false\n')
    refused = home.run("start", "--http", "--port=0")
    assert refused.status != 0
    assert "http_token" in refused.err


def test_clients_behind_a_trusted_proxy_need_a_key(tmp_path: Path) -> None:
    settings = 'trusted_proxies = ["127.0.0.1"]\nhosts = ["hub.example"]\n'
    with team(tmp_path, settings) as here:
        key = here.key("alice", "--allow", "github__*")
        port = int(here.base.rpartition(":")[2])

        async def scenario() -> None:
            async with forwarding(port, "203.0.113.7") as proxy:
                base = f"http://127.0.0.1:{proxy}"
                host = {"host": "hub.example", "connection": "close"}
                for shown, status in ((key, 200), (None, 401), (key[:-1] + "~", 401)):
                    async with here.member(shown or "", base) as me:
                        headers = {**host, **({"authorization": f"Bearer {shown}"} if shown else {})}
                        answer = await me.http.post(f"{base}/rpc", json=SEARCH, headers=headers)
                        assert answer.status_code == status, answer.text
                        assert str(here.home.tabane) not in answer.text

        run(scenario)
        wait_until(lambda: here.calls(type="access", outcome="refused", source="203.0.113.7"))


# -- audit ---------------------------------------------------------------------------------------


@pytest.mark.heavy("hubs and servers as processes")
def test_no_acknowledged_entry_is_lost_when_the_hub_is_killed(tmp_path: Path) -> None:
    with team(tmp_path) as here:
        key = here.key("alice", "--allow", "github__*", "--tier", "premium")
        status, answered = here.status, []
        base = here.base
        with assistant(here.home, "--mode=full") as bridged:
            assert "again" in bridged.text("github__echo", text="before, and again")

            async def work(number: int) -> None:
                async with here.member(key, base) as me:
                    for count in range(10_000):
                        mark = f"call-{number}-{count}"
                        try:
                            if "result" in await me.call("github__echo", text=mark):
                                answered.append(mark)
                        except (httpx2.HTTPError, ValueError):
                            return

            async def scenario() -> None:
                works = [asyncio.ensure_future(work(number)) for number in range(8)]
                await until(lambda: len(answered) > 200)
                os.kill(status["pid"], signal.SIGKILL)
                await asyncio.gather(*works)

            run(scenario)
            # The bridge starts another hub, and its assistant notices nothing.
            wait_until(lambda: "result" in bridged.ask("tools/call", name="github__echo", arguments={}))
        recorded = {entry["arguments"]["text"] for entry in here.calls(label="alice", outcome="ok")}
        assert set(answered) <= recorded
        here.verify()


@pytest.mark.parametrize("mode", ["off", "metadata"])
def test_the_log_contains_what_the_setting_says(tmp_path: Path, mode: str) -> None:
    with team(tmp_path, f'audit = "{mode}"\n') as here:
        assert here.home.run("tools", "call", "github__echo", "text=words").status == 0
        calls = here.calls(name="github__echo")
        assert len(calls) == (mode == "metadata")
        assert not any("arguments" in call for call in calls)
        for command in ("audit", "usage"):
            asked = here.home.run(command)
            assert asked.status == (mode == "off")
            assert ("There is no audit log" in asked.err) == (mode == "off")


def test_a_strict_log_answers_every_kind_of_call(tmp_path: Path) -> None:
    with team(tmp_path, 'audit_sync = "strict"\n') as here:
        key = here.key("alice", "--allow", "*")

        async def scenario() -> None:
            async with shared_clients(here, key) as (me, client):
                assert not (await client.call_tool("github__echo", {})).is_error
                assert not (await client.call_tool("github__huge", {"bytes": 1_000_000})).is_error
                assert (await client.call_tool("github__fail", {})).is_error
                with pytest.raises(MCPError):
                    await client.call_tool("github__refuse", {})
                assert "result" in await me.call("github__echo")
                assert "error" in await me.call("github__nothing")
                assert await me.code("list_jobs") == FORBIDDEN
                requests = [{"name": "github__echo", "arguments": {}}] * 20
                done = await me.result("execute_parallel", requests=requests)
                assert all(each["ok"] for each in done["results"])

        run(scenario)
        here.verify()


@asynccontextmanager
async def shared_clients(here: Team, key: str) -> AsyncIterator[tuple[Member, Any]]:
    async with here.member(key) as me, over_http(f"{here.base}/mcp/full", "legacy", key) as client:
        yield me, client


@contextmanager
def full_disk(here: Team) -> Iterator[None]:
    """The hub cannot make any file longer."""
    pid = here.status["pid"]
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.heavy("hubs and servers as processes")
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
@pytest.mark.parametrize("sync", ["1s", "strict"])
def test_nothing_is_done_that_cannot_be_recorded(tmp_path: Path, sync: str) -> None:
    with team(tmp_path, f'audit_full = "stop"\naudit_sync = "{sync}"\n') as here:
        key = here.key("alice", "--allow", "*", "--tier", "default")

        async def scenario() -> None:
            async with shared_clients(here, key) as (me, client):
                begun = (await me.call("github__count"))["result"]["content"][0]["text"]
                with full_disk(here):
                    for _ in range(40):  # more than may be in flight at once
                        refused = (await me.call("github__count"))["error"]
                        assert "audit log cannot be written" in refused["message"]
                    with pytest.raises(MCPError, match="audit log cannot be written"):
                        await client.call_tool("github__echo", {})

                async def works() -> bool:
                    return "result" in await me.call("github__echo")

                await until(works)
                ended = (await me.call("github__count"))["result"]["content"][0]["text"]
                # The first call that could not be recorded had been made already.
                assert int(ended) - int(begun) <= 2

        run(scenario)
        assert all(row["in_flight"] == 0 for row in here.home.json("limits")["results"])
        assert here.calls(type="audit", name="lost")
        here.verify()


def test_status_shows_a_log_that_cannot_be_opened(tmp_path: Path) -> None:
    home = prepared(tmp_path, 'audit_full = "drop"\n')
    (home.tabane / "audit").write_text("")
    with hub(home):
        assert "cannot be opened" in home.json("status")["audit_problem"]
    prepared(tmp_path, 'audit_full = "stop"\n')
    refused = home.run("start")
    assert refused.status != 0
    assert "cannot be opened" in refused.err
    bridged = home.run("mcp", stdin='{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert "cannot be opened" in json.loads(bridged.out)["error"]["message"]


def test_without_a_token_a_key_is_still_looked_at(tmp_path: Path) -> None:
    with team(tmp_path, "http_token = false\n") as here:
        key = here.key("alice", "--allow", "github__echo")

        async def scenario() -> None:
            async with here.member(key) as me, here.member(key[:-1] + "~") as thief:
                assert await me.code("call_tool", name="gitlab__echo") == UNKNOWN_TOOL
                assert (await thief.post("search_tools", query="x")).status_code == 401
                call = {**SEARCH, "method": "call_tool", "params": {"name": "gitlab__echo", "arguments": {}}}
                mine = await me.http.post(f"{me.base}/rpc", json=call)
                assert "result" in mine.json()

        run(scenario)


def test_a_changed_setting_of_the_log_is_said_to_need_a_restart(tmp_path: Path) -> None:
    with team(tmp_path) as here:
        config = here.home.servers.parent / "tabane.toml"
        config.write_text('audit = "off"\n' + TOML)
        log = here.home.tabane / "logs" / "hub.log"
        wait_until(lambda: "audit takes effect with the next start" in log.read_text())
        here.home.run("tools", "list").succeeded  # noqa: B018
        assert here.calls(name="list_tools")
        assert here.calls(type="admin", name="settings_reload")
        here.home.run("restart").succeeded  # noqa: B018
        before = len(here.entries())
        here.home.run("tools", "list").succeeded  # noqa: B018
        assert len(here.entries()) == before


# -- the user of this machine --------------------------------------------------------------------


def test_a_user_without_a_team_notices_only_the_log(tmp_path: Path) -> None:
    home = prepared(tmp_path)
    with assistant(home, "--mode=full") as mine:
        assert "gitlab__echo" in mine.tools()
        assert "x" in mine.text("github__count") + "x"
        names = {path.name for path in home.tabane.iterdir()}
        assert {"audit", "audit.key", "audit.head"} <= names
        assert not {name for name in names if name.startswith(("access", "usage"))}
    assert home.run("audit", "--tool", "github__count").succeeded.rows[0][3] == "github__count"
    home.run("stop")
    Team(home).verify()


def test_a_hub_of_one_client_records_too(tmp_path: Path) -> None:
    home = prepared(tmp_path)
    with assistant(home, "--standalone", "--mode=full") as mine:
        assert mine.text("github__echo", text="alone")
        assert Team(home).calls(name="github__echo", outcome="ok", key="local")
    Team(home).verify()


@pytest.mark.heavy("hubs and servers as processes")
def test_hubs_of_two_homes_share_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir(mode=0o700)
    with team(folders[0]) as one, team(folders[1]) as two:
        key = one.key("alice", "--allow", "*")

        async def scenario() -> None:
            async with one.member(key) as me, two.member(key) as stranger:
                assert "result" in await me.call("github__echo")
                assert (await stranger.post("search_tools", query="x")).status_code == 401

        run(scenario)
        assert one.calls(name="github__echo")
        assert not two.calls(name="github__echo")
        for each in (one, two):
            each.verify()
