"""API keys in a group of hubs: one that is created or revoked at a hub is so at every other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.http_hub import HttpHub, call, request, text_of
from tests.harness.hub_group import hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import child

SERVERS = {"c": child()}


async def admin(hub: HttpHub, method: str, **params: Any) -> Any:
    """The result of an operation of the local user."""
    answer = await (await hub.peer()).post(request(method, params), "/rpc")
    assert "result" in answer.json, answer.json
    return answer.json["result"]


async def test_a_key_works_at_every_hub_until_it_is_revoked_at_one(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with hubs_in_group(tmp_path, postgres, "keys", SERVERS) as group:
        first, second = group.hubs
        made = await admin(first, "keys_create", name="team", allow=["c__*"], person="Alice")
        other = second.hub.access.keys
        await until(lambda: other.find(made["secret"]) is not None, "the other hub knows the key")
        bearer = f"Bearer {made['secret']}"
        here, there = await first.peer(), await second.peer()
        client = {"name": "t", "version": "1"}
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        begun = await here.post(request("initialize", begin), authorization=bearer)
        session = {"mcp_session_id": begun.headers["mcp-session-id"], "authorization": bearer}
        answer = await there.post(call("c__echo", 2, n=1), **session)
        assert text_of(answer.json) == {"n": 1}
        # Its session belongs to the key alone, also at the hub that passes requests on.
        stranger = {"mcp_session_id": session["mcp_session_id"]}
        assert (await there.post(request("ping"), **stranger)).status == 404
        listed = await admin(second, "keys_list")
        assert [(row["name"], row["person"]) for row in listed["results"]] == [("team", "Alice")]
        await admin(second, "keys_revoke", key="team")
        assert (await there.post(request("ping", number=3), **session)).status == 401
        await until(lambda: first.hub.access.keys.find(made["secret"]) is None)
        await until(lambda: len(first.hub.sessions) == 0, "the session of the key has ended")
