"""Each key of the servers file applies to every way of listing and calling a server's tools."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.protocol.ways_to_call import CALLS, MATCHES, SIGHTS, Outcome, found_names, query, user
from tests.harness.home import Home, hub
from tests.harness.patience import LONG
from tests.harness.running_hub import SOON, child, running_hub, text

by_every_call = pytest.mark.parametrize("way", CALLS)
by_every_sight = pytest.mark.parametrize("way", SIGHTS)

listed = partial(running_hub, list_wait=60)
"""A hub that leaves no server out of a list or search because it started slowly."""

HIDING: dict[str, dict[str, Any]] = {
    "deny": {"deny": ["pi*", "environment"]},
    "allow": {"allow": ["echo", "session"]},
    "deny wins over allow": {"allow": ["echo", "pid"], "deny": ["p*"]},
    "deny wins over pin": {"deny": ["pid"], "pin": ["*"]},
}
"""Keys that hide ``pid`` and show ``echo``."""


@pytest.mark.parametrize("keys", HIDING.values(), ids=HIDING)
@by_every_call
async def test_a_hidden_tool_is_not_called(tmp_path: Path, way: str, keys: dict[str, Any]) -> None:
    async with listed(tmp_path, {"up": child(**keys)}) as here:
        me = await user(here)
        assert (await CALLS[way](me, "up__echo", n=1)).ok
        for name in ("up__pid", "up.pid"):
            refused = await CALLS[way](me, name)
            assert not refused.ok
            assert "Unknown tool" in refused.words
            assert "up__pid" not in refused.words.partition("Did you mean")[2]


@pytest.mark.parametrize("keys", HIDING.values(), ids=HIDING)
@by_every_sight
async def test_a_hidden_tool_is_not_seen(tmp_path: Path, way: str, keys: dict[str, Any]) -> None:
    async with listed(tmp_path, {"up": child(**keys)}) as here:
        me = await user(here)
        assert await SIGHTS[way](me, "up__echo")
        assert not await SIGHTS[way](me, "up__pid")


PREFIXES = {None: "up__echo", "p": "p__echo", "": "echo", "束": "_echo"}


@pytest.mark.parametrize("prefix", [None, "p", ""])
@by_every_call
async def test_a_tool_is_called_under_its_prefix_and_by_its_server(
    tmp_path: Path, way: str, prefix: str | None
) -> None:
    keys = {} if prefix is None else {"prefix": prefix}
    async with listed(tmp_path, {"up": child(**keys)}) as here:
        me = await user(here)
        await me.operate("list_tools")
        for name in (PREFIXES[prefix], "up.echo", "up__echo"):
            outcome = await CALLS[way](me, name, n=1)
            assert outcome.result is not None, outcome.words
            assert outcome.result["structuredContent"] == {"n": 1}


@pytest.mark.parametrize("prefix", [None, "p", ""])
@by_every_sight
async def test_a_tool_is_seen_under_its_prefix(tmp_path: Path, way: str, prefix: str | None) -> None:
    keys = {} if prefix is None else {"prefix": prefix}
    async with listed(tmp_path, {"up": child(**keys)}) as here:
        me = await user(here)
        await me.operate("list_tools")
        for other, name in PREFIXES.items():
            if other == prefix or way.startswith(("list", "rpc list")):
                assert await SIGHTS[way](me, name) is (other == prefix)


@by_every_call
async def test_a_call_may_take_as_long_as_its_server_says(tmp_path: Path, way: str) -> None:
    async with listed(tmp_path, {"up": child(timeout=0.3), "slow": child(timeout=LONG)}) as here:
        me = await user(here)
        late = await CALLS[way](me, "up__hang")
        assert not late.ok
        assert "0.3 s" in late.words
        assert (await CALLS[way](me, "slow__wait", seconds=0.5)).text == "waited"
        (instance,) = here.hub.gateway.instances("up")
        assert instance.in_flight == 0


@by_every_call
async def test_no_more_calls_run_at_once_than_a_server_bears(tmp_path: Path, way: str) -> None:
    async with listed(tmp_path, {"up": child(maxConcurrency=2)}) as here:
        me = await user(here)
        assert (await CALLS[way](me, "up__echo")).ok
        (instance,) = here.hub.gateway.instances("up")
        calls = [asyncio.ensure_future(CALLS[way](me, "up__wait", seconds=0.1)) for _ in range(6)]
        most = 0
        while not all(call.done() for call in calls):
            assert instance.connection is not None
            most = max(most, instance.connection.conversation.in_flight)
            await asyncio.sleep(0.005)
        assert [call.result().text for call in calls] == ["waited"] * 6
        assert most == 2


@pytest.mark.parametrize(("share", "distinct"), [("hub", 1), ("roots", 2), ("client", 3)])
@by_every_call
async def test_callers_share_an_instance_as_configured(
    tmp_path: Path, way: str, share: str, distinct: int
) -> None:
    async with listed(tmp_path, {"up": child(share=share)}) as here:
        folders = ("file:///one", "file:///one", "file:///two")
        users = [await user(here, roots=(folder,)) for folder in folders]
        pids = {(await CALLS[way](each, "up__pid")).text for each in users}
        assert len(pids) == distinct
        assert pids == {(await CALLS[way](each, "up__pid")).text for each in users}


@by_every_call
async def test_only_calls_through_call_tool_give_long_results_in_parts(tmp_path: Path, way: str) -> None:
    async with listed(tmp_path, {"up": child(maxResultTokens=1_000)}) as here:
        me = await user(here)
        outcome = await CALLS[way](me, "up__huge", bytes=10_000)
        cut = way in ("call_tool", "call_readonly_tool")
        assert (outcome.text == "x" * 10_000) is not cut
        assert ("read_more" in outcome.text) is cut


WORDS: dict[str, Any] = {"tags": ["盆栽", "work"], "category": "庭", "description": "覚え書きの帳面"}
FILTERS: dict[str, dict[str, Any]] = {
    "server": {"server": "up"},
    "tags": {"tags": ["盆栽"]},
    "both tags": {"tags": ["work", "盆栽"]},
    "category": {"category": "庭"},
}


@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("match", MATCHES)
async def test_tags_category_and_server_narrow_every_search(
    tmp_path: Path, match: str, filters: dict[str, Any]
) -> None:
    async with listed(tmp_path, {"up": child(**WORDS), "uq": child(tags=["other"])}) as here:
        me = await user(here)
        for name, found in (("up__echo", True), ("uq__echo", False)):
            asked = {"query": query(name, match), "match": match, "limit": 50}
            wide = await me.operate("search_tools", **asked)
            assert name in [row["name"] for row in wide["results"]]
            narrow = await me.operate("search_tools", **asked, **filters)
            assert (name in [row["name"] for row in narrow["results"]]) is found
            said = text(await me.line.call("search_tools", **asked, **filters))
            assert (name in found_names(said)) is found
        nothing = await me.operate("search_tools", **asked, tags=["盆栽", "absent"], server="uq")
        assert nothing["results"] == []


@pytest.mark.parametrize("word", ["盆栽", "庭", "帳面"])
async def test_the_users_words_about_a_server_find_its_tools(tmp_path: Path, word: str) -> None:
    async with listed(tmp_path, {"up": child(**WORDS), "other": child()}) as here:
        me = await user(here)
        found = await me.operate("search_tools", query=word, limit=50)
        assert {row["server"] for row in found["results"]} == {"up"}
        said = text(await me.line.call("search_tools", query=word, limit=50))
        assert "up__echo" in said
        assert "other__echo" not in said


async def test_a_pin_adds_to_the_list_of_search_mode_and_takes_nothing_away(tmp_path: Path) -> None:
    async with listed(tmp_path, {"up": child(pin=["ech?", "session"])}) as here:
        lists = {}
        for mode in ("search", "light", "full"):
            line = await here.connect(mode=mode)
            lists[mode] = (await line.result("tools/list"))["tools"]
        names = {mode: [tool["name"] for tool in tools] for mode, tools in lists.items()}
        assert names["search"][8:] == ["up__echo", "up__session"]
        assert lists["search"][8:] == [
            tool for tool in lists["full"] if tool["name"] in ("up__echo", "up__session")
        ]
        for mode in ("light", "full"):
            assert names[mode].count("up__echo") == 1
            assert "up__pid" in names[mode]
        me = await user(here)
        for name in ("up__echo", "up__pid"):
            assert all([await sight(me, name) for sight in SIGHTS.values()])


# -- the command line --------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.environment["TABANE_LIST_WAIT"] = "60"
    return home


def call(home: Home, name: str, *pairs: str) -> Outcome:
    done = home.run("tools", "call", name, *pairs, "--json")
    return Outcome(json.loads(done.out)) if done.status == 0 else Outcome(None, done.err + done.out)


@pytest.mark.heavy("hubs and servers as processes")
def test_every_key_holds_on_the_command_line(home: Home) -> None:
    hidden = {"deny": ["pid"], "maxResultTokens": 1_000, "timeout": 0.5}
    home.write_servers(
        {
            "up": home.child() | hidden,
            "words": home.child() | WORDS | {"prefix": "p"},
            "own": home.child() | {"share": "client"},
            "shared": home.child() | {"pin": ["echo"]},
        }
    )
    with hub(home):
        assert "up__pid" not in home.run("tools", "list").out
        assert "up__pid(" not in home.run("tools", "search", "up__pid", "--match", "partial").out
        assert home.run("tools", "show", "up__pid").status != 0
        assert "Unknown tool" in call(home, "up__pid").words
        assert "0.5 s" in call(home, "up__hang").words
        assert call(home, "up__huge", "bytes=10000").text == "x" * 10_000
        for name in ("p__echo", "words.echo"):
            assert call(home, name, "text=a").text == '{"text": "a"}'
        for filters in (["--tag", "盆栽"], ["--category", "庭"], ["--server", "words"]):
            found = home.run("tools", "search", "echo", "--limit", "50", *filters).out
            assert "p__echo" in found
            assert "shared__echo" not in found
        assert "p__echo" in home.run("tools", "search", "帳面", "--limit", "50").out
        assert call(home, "shared__count").text == "1"
        assert call(home, "shared__count").text == "2"
        # Each command is a client of its own, and its instance ends with it.
        assert call(home, "own__count").text == "1"
        assert call(home, "own__count").text == "1"
        requests = json.dumps({"requests": [{"name": "up__pid"}, {"name": "p__echo"}]})
        rows = home.run("rpc", "execute_parallel", "--params", requests).json["results"]
        assert [row["ok"] for row in rows] == [False, True]


def test_no_instance_outlives_the_command_it_was_for(home: Home) -> None:
    home.write_servers({"own": home.child() | {"share": "client"}})
    with hub(home):
        for _ in range(3):
            assert call(home, "own__count").text == "1"
        end = time.monotonic() + SOON
        while (
            running := home.run("rpc", "list_servers").json["results"][0]["pids"]
        ) and time.monotonic() < end:
            pass
        assert running == []
