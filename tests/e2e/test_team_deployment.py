"""The files for a team in `deploy`: their schema, their settings, and the balancer before real hubs."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from aiohttp import ClientError, ClientSession, WSMsgType

from tabane.settings import Settings
from tabane.settings.sources import load_settings
from tests.conftest import absent
from tests.harness.home import Home
from tests.harness.http_hub import BOTH, LEGACY, MODERN, call, http_hub, modern, request
from tests.harness.hub_group import GroupOfHubs, hubs_in_group
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.patience import until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import PostgresServer, postgres_server
from tests.harness.running_hub import child

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def compose(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", [ROOT / "compose.yaml", DEPLOY / "compose.yaml"], ids=["single", "team"])
def test_compose_files_keep_to_the_schema(path: Path) -> None:
    schema = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema_rs.validate(json.loads(schema.read_text()), compose(path))


def test_the_hubs_of_the_compose_file_get_settings_that_exist_and_fit(tmp_path: Path) -> None:
    services = compose(DEPLOY / "compose.yaml")["services"]
    known = {f"TABANE_{field.name.upper()}" for field in fields(Settings)}
    hubs = [service for name, service in services.items() if name.startswith("hub-")]
    assert len({hub["environment"]["TABANE_ADVERTISE"] for hub in hubs}) == len(hubs) == 2
    for hub in hubs:
        given = {name: value for name, value in hub["environment"].items() if name.startswith("TABANE_")}
        assert given.keys() <= known
        files = {"TABANE_HOME": str(tmp_path), "TABANE_CONFIG": str(DEPLOY / "config" / "tabane.toml")}
        settings = load_settings({}, given | files)
        assert services["balancer"]["networks"]["inside"]["ipv4_address"] in settings.trusted_proxies
        assert settings.advertise == given["TABANE_ADVERTISE"]
        assert settings.engine.startswith("postgresql://")
        assert not settings.vector_index
    assert services["milvus"]["profiles"] == ["milvus"]


def own_address() -> str:
    """Return an address of this machine that is not a loopback address: to a hub, it is elsewhere."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect(("198.51.100.1", 9))  # which sends nothing
            return str(any_socket.getsockname()[0])
        except OSError:
            absent("an address besides loopback")


@pytest.fixture(scope="module")
def postgres() -> Any:
    with postgres_server() as server:
        yield server


@asynccontextmanager
async def balancer(environment: dict[str, str]) -> AsyncIterator[None]:
    """The balancer of the compose file."""
    program = shutil.which("haproxy")
    if program is None:
        absent("haproxy")
    process = await asyncio.create_subprocess_exec(
        program, "-db", "-q", "-f", str(DEPLOY / "haproxy.cfg"), env=environment
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def balanced(folder: Path, postgres: PostgresServer) -> AsyncIterator[tuple[GroupOfHubs, str]]:
    """Two hubs, and the balancer of the compose file in front of them, with its address."""
    async with AsyncExitStack() as stack:
        port = reserved_port(stack)
        hubs = hubs_in_group(
            folder,
            postgres,
            "balanced",
            {"c": child()},
            trusted_proxies=("127.0.0.1",),
            hosts=(f"127.0.0.1:{port}",),
        )
        group = await stack.enter_async_context(hubs)
        environment = {"LISTEN": f"127.0.0.1:{port}"} | {
            f"HUB_{number}": f"127.0.0.1:{hub.door.port}" for number, hub in enumerate(group.hubs, 1)
        }
        await stack.enter_async_context(balancer(environment))
        url = f"http://127.0.0.1:{port}"
        async with ClientSession() as client:
            await until(lambda: _ready(client, url), "the balancer finds a hub")
        yield group, url


async def _ready(client: ClientSession, url: str) -> bool:
    try:
        async with client.get(f"{url}/readyz") as found:
            return found.status == 200
    except ClientError:
        return False


@pytest.mark.heavy("a real PostgreSQL")
async def test_the_balancer_sends_a_session_to_its_hub_and_goes_on_with_the_other_one(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with balanced(tmp_path, postgres) as (group, url), ClientSession() as client:
        first, second = group.hubs
        made = await (await first.peer()).post(
            request("keys_create", {"name": "team", "allow": ["c__*"]}), "/rpc"
        )
        secret = made.json["result"]["secret"]
        await until(lambda: second.hub.access.keys.find(secret) is not None, "both hubs know the key")

        async def post(message: dict[str, Any], session: str | None = None) -> tuple[int, Any, str | None]:
            named = {} if session is None else {"mcp-session-id": session}
            headers = {"authorization": f"Bearer {secret}", "accept": BOTH, **named}
            async with client.post(f"{url}/mcp/full", json=message, headers=headers) as found:
                body = await found.text()
                return found.status, body, found.headers.get("mcp-session-id")

        client_info = {"name": "t", "version": "1"}
        begin = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client_info}
        status, body, session = await post(request("initialize", begin))
        assert (status, bool(session)) == (200, True), body
        for number in range(2, 8):
            status, body, _ = await post(call("c__echo", number, n=1), session)
            assert (status, '"isError":true' in body) == (200, False), body
        owners = [len(hub.hub.sessions) for hub in group.hubs]
        assert sorted(owners) == [0, 1]
        await group.kill(owners.index(1), postgres, "balanced")
        status, body, _ = await post(call("c__echo", 9, n=1), session)
        assert status == 200, body


class DeployedHub(Home):
    """A hub that is a process, with the settings file of `deploy` and what its compose file says."""

    def __init__(
        self, folder: Path, postgres: PostgresServer, port: int, address: str, balanced: str
    ) -> None:
        folder.mkdir()
        super().__init__(folder)
        services = compose(DEPLOY / "compose.yaml")["services"]
        assert "TABANE_ADVERTISE" in services["hub-1"]["environment"]
        self.environment |= {
            "TABANE_CONFIG": str(DEPLOY / "config" / "tabane.toml"),
            "TABANE_SERVERS": str(self.write_servers({"c": child()})),
            "TABANE_HTTP": "true",
            "PGPASSWORD": "unused",
            # Names and addresses of the network of the compose file, which is not here.
            "TABANE_ENGINE": postgres.url("deployed"),
            "TABANE_VECTOR_INDEX": "",
            "TABANE_PORT": str(port),
            "TABANE_ADVERTISE": f"http://{address}:{port}",
            "TABANE_TRUSTED_PROXIES": address,
            "TABANE_HOSTS": balanced,
        }


@pytest.mark.heavy("a real PostgreSQL, and two hubs that are processes")
async def test_every_face_of_the_team_works_with_a_key_through_a_balancer_elsewhere(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    address = own_address()
    async with AsyncExitStack() as stack:
        ports = [reserved_port(stack) for _ in range(3)]
        balanced_at = f"{address}:{ports[0]}"
        hubs = [
            DeployedHub(tmp_path / f"hub-{number}", postgres, port, address, balanced_at)
            for number, port in enumerate(ports[1:], 1)
        ]
        for hub in hubs:
            stack.callback(hub.run, "stop")
            started = await asyncio.to_thread(hub.run, "start")
            assert started.status == 0, started.err
        made = hubs[0].json("keys", "create", "alice", "--allow", "*")
        environment = {
            "LISTEN": balanced_at,
            "HUB_1": f"{address}:{ports[1]}",
            "HUB_2": f"{address}:{ports[2]}",
        }
        await stack.enter_async_context(balancer(environment))
        client = await stack.enter_async_context(ClientSession())
        url = f"http://{balanced_at}"
        await until(lambda: _ready(client, url), "the balancer finds a hub")
        key = {"authorization": f"Bearer {made['secret']}"}
        for port in ports[1:]:
            at = f"http://127.0.0.1:{port}"
            await until(partial(_knows, client, at, key), "the hub knows the key")
        await _calls_at_every_face(client, url, key)
        async with client.post(f"{url}/mcp", json=request("tools/list"), headers={"accept": BOTH}) as found:
            assert found.status == 401
        findings = {json.dumps(finding) for hub in hubs for finding in _findings(hub)}
        assert any("proxy_tls is off" in finding for finding in findings)
        assert not any("The hub refuses what" in finding for finding in findings)


async def _knows(client: ClientSession, url: str, key: dict[str, str]) -> bool:
    async with client.post(f"{url}/rpc", json=request("get_status"), headers=key) as found:
        return found.status == 200


def _findings(hub: Home) -> Any:
    return json.loads(hub.run("doctor", "--json").out)["findings"]


async def _calls_at_every_face(client: ClientSession, url: str, key: dict[str, str]) -> None:
    """Call in both eras of MCP, and over RPC by POST and WebSocket; get the web page. Several times each."""
    # What a client says of its way is not believed, and does no harm.
    legacy = {**key, "accept": BOTH, "forwarded": "for=127.0.0.1;proto=https", "x-forwarded-for": "127.0.0.1"}
    begin = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

    async def post(path: str, message: Any, headers: dict[str, str]) -> tuple[str, str | None]:
        async with client.post(f"{url}{path}", json=message, headers=headers) as found:
            body = await found.text()
            assert found.status == 200, (path, found.status, body)
            return body, found.headers.get("mcp-session-id")

    _, session = await post("/mcp", request("initialize", begin), legacy)
    legacy |= {"mcp-session-id": str(session)}
    for number in range(2, 8):
        body, _ = await post("/mcp", request("tools/list", {}, number), legacy)
        assert '"search_tools"' in body
        body, _ = await post("/mcp", call("c__echo", number + 100, n=number), legacy)
        assert '"isError":true' not in body
        assert '"n' in body
        message, named = modern(call("c__echo", number, n=number))
        headers = {**key, "accept": BOTH} | {name.replace("_", "-"): value for name, value in named.items()}
        body, _ = await post("/mcp", message, headers)
        assert MODERN in headers.values()
        assert '"isError":true' not in body
        body, _ = await post("/rpc", request("get_status", {}, number), key)
        assert '"result"' in body
        async with client.ws_connect(f"{url}/rpc", headers=key) as socket:
            await socket.send_json(request("get_status", {}, number))
            answer = await socket.receive()
            assert answer.type is WSMsgType.TEXT
            assert "result" in answer.json()
        async with client.get(f"{url}/") as page:
            assert page.status == 200, page.status
            assert page.content_type == "text/html"


@pytest.mark.heavy("a real PostgreSQL, and a hub that is a process")
async def test_the_doctor_names_a_balancer_whose_requests_are_refused(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    address = own_address()
    async with AsyncExitStack() as stack:
        port = reserved_port(stack)
        hub = DeployedHub(tmp_path / "hub", postgres, port, address, f"{address}:{port}")
        hub.environment["TABANE_TRUSTED_PROXIES"] = "203.0.113.1"
        stack.callback(hub.run, "stop")
        started = await asyncio.to_thread(hub.run, "start")
        assert started.status == 0, started.err
        hub.json("keys", "create", "bob", "--allow", "*")
        client = await stack.enter_async_context(ClientSession())
        forwarded = {"x-forwarded-proto": "https", "x-forwarded-for": "198.51.100.7"}
        async with client.get(f"http://{address}:{port}/readyz", headers=forwarded) as found:
            assert found.status == 403
        findings = [json.dumps(finding) for finding in await asyncio.to_thread(_findings, hub)]
        (refused,) = (finding for finding in findings if "The hub refuses what" in finding)
        assert f"If {address} is your proxy, add it to trusted_proxies" in refused
        assert f"{address}: 1 request" in hub.run("status").out


async def test_a_balancer_that_is_not_trusted_learns_that_the_hub_refuses_it(tmp_path: Path) -> None:
    """Also one that is trusted, if its clients have no TLS. The doctor says what to change."""
    address = own_address()
    strange, plain = {"trusted_proxies": ["203.0.113.1"]}, {"trusted_proxies": [address]}
    private = {**plain, "proxy_tls": False}
    forwarded = {"X-Forwarded-Proto": "http", "X-Forwarded-For": "198.51.100.7"}
    for settings, status in ((strange, 403), (plain, 403), (private, 200)):
        async with (
            http_hub(
                tmp_path,
                host="0.0.0.0",
                identities=identities(GivenKeys(a=GivenAccess("key:a"))),
                hosts=[address],
                **settings,
            ) as here,
            ClientSession() as client,
        ):
            url = f"http://{address}:{here.door.port}"

            async def got(path: str, headers: dict[str, str], url: str = url, client: Any = client) -> int:
                async with client.get(f"{url}{path}", headers=headers) as found:
                    return int(found.status)

            key = {"authorization": "Bearer tbn_a"}
            assert await got("/readyz", {}) == 200  # no proxy: it asks for itself
            assert await got("/healthz", forwarded) == 200
            assert await got("/readyz", forwarded) == status
            assert await got("/metrics", forwarded | key) == status
            exposed = here.door.report("en").get("http_exposed", [])
            expected = {"address": address, "proxied": settings is plain, "requests": 2}
            assert exposed == ([] if status == 200 else [expected])
