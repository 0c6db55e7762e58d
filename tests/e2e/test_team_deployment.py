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

import jsonschema
import pytest
from aiohttp import ClientError, ClientSession
from ruamel.yaml import YAML

from tabane.settings import Settings
from tabane.settings.sources import load_settings
from tests.harness.hub_group import GroupOfHubs, hubs_in_group
from tests.harness.patience import run, until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import PostgresServer, postgres_server
from tests.harness.running_hub import child

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def compose(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


@pytest.mark.parametrize("path", [ROOT / "compose.yaml", DEPLOY / "compose.yaml"], ids=["single", "team"])
def test_compose_files_keep_to_the_schema(path: Path) -> None:
    schema = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(path), json.loads(schema.read_text()))


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
        assert program is not None
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


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_the_balancer_sends_a_session_to_its_hub_and_goes_on_with_the_other_one(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async def scenario() -> None:
        async with balanced(tmp_path, postgres) as (group, url), ClientSession() as client:
            token = group.hubs[0].bearer
            assert {hub.bearer for hub in group.hubs} != {""}

            async def post(
                message: dict[str, Any], session: str | None = None
            ) -> tuple[int, Any, str | None]:
                named = {} if session is None else {"mcp-session-id": session}
                headers = {"authorization": token, "accept": "application/json, text/event-stream", **named}
                async with client.post(f"{url}/mcp/full", json=message, headers=headers) as found:
                    body = await found.text()
                    return found.status, body, found.headers.get("mcp-session-id")

            begin = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            status, _, session = await post(
                {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
            )
            assert (status, bool(session)) == (200, True)
            call = {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "c__echo", "arguments": {"n": 1}},
            }
            for _ in range(6):
                status, body, _ = await post(call, session)
                assert (status, 'isError":true' in body.replace(" ", "")) == (200, False)
            owners = [len(hub.hub.sessions) for hub in group.hubs]
            assert sorted(owners) == [0, 1]
            await group.kill(owners.index(1), postgres, "balanced")
            status, body, _ = await post(call, session)
            assert status == 200, body

    run(scenario)
