"""Sessions of older clients in a group of hubs: any hub answers, and takes over from one that has gone."""

from __future__ import annotations

from pathlib import Path

from tests.harness.http_hub import call, request
from tests.harness.hub_group import hubs_in_group
from tests.harness.patience import run, until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import child

SERVERS = {"one": child()}


def test_a_session_goes_on_at_any_hub_and_outlives_its_own(tmp_path: Path, postgres: PostgresServer) -> None:
    async def scenario() -> None:
        async with hubs_in_group(tmp_path, postgres, "sessions", SERVERS) as group:
            first, second = group.hubs
            here, there = await first.peer(), await second.peer()
            session = await first.session(here)
            listed = await there.post(request("tools/list"), **session)
            assert [tool["name"] for tool in listed.json["result"]["tools"]]
            print([tool["name"] for tool in listed.json["result"]["tools"]])
            echoed = await there.post(call("one__echo", 2, text="hello"), **session)
            print(echoed)
            foreign = {"mcp_session_id": session["mcp_session_id"][:-2] + "AA"}
            assert (await there.post(request("ping"), **{**session, **foreign})).status == 404
            await group.kill(0, postgres, "sessions")
            await until(lambda: len(group.group(1).report()["hubs"]) == 1)
            assert (await there.post(request("ping", number=5), **session)).json["result"] == {}

    run(scenario)
