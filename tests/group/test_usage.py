"""Usage in a group of hubs: the calls of all hubs are added up, and none is lost or counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabane.catalog.catalogs import ToolUse
from tabane.errors import StoreError
from tabane.group.tables.group_tables import GroupTables
from tabane.group.tables.shared_usage import PostgresToolUse
from tabane.hub.group.group_jobs import EVERY, ToolUseSharing
from tabane.messages import say
from tests.group.asking import ask, call_tool
from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.hub_group import hubs_in_group
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import child

NOW = 1_800_000_000.0
SERVERS = {"c": child()}


class SharedWeights(PostgresToolUse):
    """The weights of hubs, in this process. It may be ``away``."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[tuple[str, str], float]] = {}
        self.away, self.asked = False, 0

    async def mine(self, mark: str) -> list[tuple[str, str, float]]:
        return [(*key, weight) for key, weight in self.kept.get(mark, {}).items()]

    async def exchange(self, mark: str, weights: Any, least: float) -> list[tuple[str, str, float]]:
        self.asked += 1
        if self.away:
            raise StoreError(say("the database is away"))
        mine = self.kept.setdefault(mark, {})
        for holder, tool, weight in weights:
            mine[holder, tool] = max(weight, mine.get((holder, tool), 0.0))
        return [(*key, weight) for hub, of in self.kept.items() if hub != mark for key, weight in of.items()]


async def test_weights_are_added_up_and_survive_what_is_away_or_restored() -> None:
    shared, clock = SharedWeights(), [0.0]
    uses = [ToolUse([("local", "c__echo", 5.0)]), ToolUse()]
    hubs = [
        ToolUseSharing(use, shared, mark, lambda: clock[0])
        for use, mark in zip(uses, ("aa", "bb"), strict=True)
    ]
    for hub in hubs:
        await hub.exchange()
    # What a home had counted before is brought in once.
    assert uses[1].of("local") == {"c__echo": 5.0}
    uses[1].note("local", "c__add", NOW)
    uses[1].note("local", "c__secret", NOW, shared=False)
    await hubs[1].exchange()
    assert shared.asked == 2, "it is not time for an exchange"
    shared.away, clock[0] = True, EVERY
    try:
        await hubs[1].exchange()
    except StoreError:
        shared.away = False
    await hubs[1].exchange()
    await hubs[0].exchange()
    weights = uses[0].of("local")
    assert weights["c__add"] == uses[1].of("local")["c__add"]
    assert "c__secret" not in weights
    # The home of a hub was restored: it takes back what the group has of it, and counts on.
    again = ToolUse()
    restored = ToolUseSharing(again, shared, "bb", lambda: clock[0])
    await restored.exchange()
    again.note("local", "c__add", NOW)
    await restored.exchange(now=True)
    await hubs[0].exchange(now=True)
    assert uses[0].of("local")["c__add"] == 2 * weights["c__add"]


async def counted(hub: HttpHub) -> int:
    found = await ask(hub, "get_usage_stats", server="c")
    assert "problem" not in found, found
    return int(found["sum"]["calls"])


async def test_what_a_home_had_counted_before_is_brought_in_once(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    home = tmp_path / "hub-0"
    home.mkdir(mode=0o700)
    async with http_hub(home, SERVERS) as alone:
        for number in range(2):
            await call_tool(alone, "c__echo", n=number)
    async with hubs_in_group(tmp_path, postgres, "counted", SERVERS) as group:
        first, second = group.hubs
        assert await counted(first) == 2
        assert await counted(second) == 2
        await call_tool(first, "c__echo", n=3)
        assert await counted(first) == 3
        assert await counted(second) == 3
        tables = GroupTables(await second.hub.stores.database())
        weights = await PostgresToolUse(tables).exchange(group.group(1).me.mark, [], 0.0)
        await tables.close()
        assert [(holder, tool) for holder, tool, _ in weights] == [("local", "c__echo")]
        for hub in (first, second):  # the first one then gives what it has
            found = await ask(hub, "query_audit_logs", tool="c__echo")
            assert [row["hub"] for row in found["results"]] == [group.group(0).me.address] * 3


async def test_each_hub_shows_the_calls_of_all(tmp_path: Path, postgres: PostgresServer) -> None:
    async with hubs_in_group(tmp_path, postgres, "usage", SERVERS) as group:
        first, second = group.hubs
        for hub, count in ((first, 3), (second, 2)):
            for number in range(count):
                await call_tool(hub, "c__echo", n=number)
        # Those of the hub that is asked are there at once, those of others within a minute.
        assert await counted(second) >= 2
        assert await counted(first) == 5
        assert await counted(second) == 5
        found = await ask(first, "get_usage_stats", server="c")
        assert [(row["tool"], row["server"], row["calls"]) for row in found["results"]] == [
            ("c__echo", "c", 5)
        ]
        assert found["results"][0]["p50_ms"] is not None
        days = await ask(second, "get_usage_stats", by="day", server="*", tool="c__ech*")
        assert [row["calls"] for row in days["results"]] == [5]
        assert (await ask(first, "analyze_usage"))["unused_servers"] == []
        # A hub that leaves tells what it counted for the ranking, and the next one reads it.
        mine = first.hub.gateway.catalogs.use.of("local")["c__echo"]
        await group.group(0).close()
        tables = GroupTables(await second.hub.stores.database())
        (of_first,) = await PostgresToolUse(tables).exchange(group.group(1).me.mark, [], 0.0)
        assert of_first == ("local", "c__echo", mine)
        await tables.close()
