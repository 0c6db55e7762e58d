"""The files for a team in `deploy`: their schema, their settings, and the balancer before real hubs."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from aiohttp import ClientError, ClientSession

from tabane.settings import Settings
from tabane.settings.sources import load_settings
from tests.conftest import absent
from tests.harness.http_hub import BOTH, LEGACY, call, request
from tests.harness.hub_group import GroupOfHubs, hubs_in_group
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
        assert settings.vector_index.startswith("milvus://")


@pytest.fixture(scope="module")
def postgres() -> Any:
    with postgres_server() as server:
        yield server


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
        program = shutil.which("haproxy")
        if program is None:
            absent("haproxy")
        process = await asyncio.create_subprocess_exec(
            program, "-db", "-q", "-f", str(DEPLOY / "haproxy.cfg"), env=environment
        )
        stack.push_async_callback(process.wait)
        stack.callback(process.terminate)
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
