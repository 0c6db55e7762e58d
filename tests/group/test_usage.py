"""Usage in a group of hubs: the calls of all hubs are added up, and none is lost or counted twice."""

from __future__ import annotations

from typing import Any

from tabane.errors import StoreError
from tabane.gateway.tools.tool_use import ToolUse
from tabane.hub.tool_use_sharing import EVERY, ToolUseSharing
from tabane.messages import say
from tests.harness.patience import run

NOW = 1_800_000_000.0


class SharedWeights:
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


def test_weights_are_added_up_and_survive_what_is_away_or_restored() -> None:
    async def scenario() -> None:
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
        uses[1].note("local", "c__secret", NOW, told=False)
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

    run(scenario)
