"""Prompts, resources and their subscriptions through the gateway, on real servers of both eras."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import Raw, structs

from tabane.catalog.gateway import Gateway
from tabane.catalog.offers.resources import MOST_OF_SESSION, ResourceSource
from tabane.errors import TabaneError, UnknownName, UpstreamError, UpstreamUnavailable
from tabane.operations import Caller, Face
from tabane.upstreams.call import Call, UpstreamReply
from tabane.upstreams.subscriptions import ModernSubscriber
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, child, configured, running_hub

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
CALLER = Caller("local", Face.MCP, "test")


def keys(gateway: Gateway, kind: str) -> list[str]:
    found: dict[str, Callable[[], Sequence[tuple[Any, ...]]]] = {
        "prompts": gateway.prompts.items,
        "resources": gateway.resources.items,
        "templates": gateway.resources.template_items,
    }
    return [key for key, *_ in found[kind]()]


async def tell(here: RunningHub, server: str, tool: str, **arguments: Any) -> Json:
    """The result of a tool of a server, called as its instance is."""
    instance = here.hub.gateway.instance_for(CALLER, server)
    replies: list[UpstreamReply] = []
    params = {"name": Raw(json.dumps(tool).encode()), "arguments": Raw(json.dumps(arguments).encode())}
    instance.submit(Call(b"tools/call", params, {}, replies.append))
    await until(lambda: bool(replies), f"{tool} of {server}")
    assert replies[0].result is not None, replies[0]
    result: Json = json.loads(bytes(replies[0].result))
    return result


async def state(here: RunningHub, server: str = "one") -> Json:
    """Which resources a server was asked to tell of, and what it was asked for."""
    result = await tell(here, server, "subscriptions")
    found: Json = result["structuredContent"]
    return found


def watched(state: Json) -> set[str]:
    """The URIs of which a server tells somebody."""
    listens = [set(listen.get("resourceSubscriptions", ())) for listen in state["listens"]]
    assert len(listens) <= 1
    return set(state["subscribed"]).union(*listens)


async def known(here: RunningHub, caller: Caller = CALLER) -> Gateway:
    """The gateway, everything of its servers listed."""
    for kind in ("tools", "prompts", "resources"):
        await here.hub.gateway.lookup.refresh(kind, caller)
    return here.hub.gateway


Updates = list[tuple[str, Json]]

MEMO, OTHER_MEMO = (ResourceSource("one", uri, uri) for uri in ("memo://one", "memo://x"))


def noting(updates: Updates) -> Callable[[str, Raw], None]:
    return lambda uri, params: updates.append((uri, json.loads(bytes(params))))


# Lists


@ERAS
async def test_prompts_and_resources_are_listed_and_found(tmp_path: Path, era: str) -> None:
    servers = {"one": child("--era", era, "--offers", "--junk"), "bare": child("--era", era)}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        assert keys(gateway, "prompts") == ["one__greet"]
        assert keys(gateway, "resources") == ["memo://one"]
        assert keys(gateway, "templates") == ["memo://{n}"]
        assert json.loads(gateway.prompts.items()[0][1])["x-own"] == 1
        prompt = await gateway.lookup.find_prompt(CALLER, "one.greet")
        assert (prompt.server, prompt.name) == ("one", "greet")
        assert await gateway.lookup.sources(CALLER, "memo://7") == (
            ResourceSource("one", "memo://7", "memo://7"),
        )
        # A server without resources is not asked for one that nobody lists.
        assert [s.server for s in await gateway.lookup.sources(CALLER, "new:thing")] == ["one"]
        assert gateway.instance_for(CALLER, "one").server.name == "one"
        with pytest.raises(UnknownName) as refused:
            await gateway.lookup.find_prompt(CALLER, "one__gret")
        assert refused.value.near == ("one__greet",)
        with pytest.raises(UnknownName):
            gateway.instance_for(CALLER, "nobody")


async def test_one_list_that_cannot_be_had_leaves_the_others(tmp_path: Path) -> None:
    servers = {
        "one": child("--offers", "--broken", "prompts/list", "--unknown", "resources/templates/list"),
        "two": child("--offers", "--broken", "tools/list", "--uris", "two://a", "--templates", ""),
    }
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        assert gateway.catalog.find("one__echo")
        assert keys(gateway, "prompts") == ["two__greet"]
        assert keys(gateway, "resources") == ["memo://one", "two://a"]
        assert keys(gateway, "templates") == []
        error = gateway.instance("one").vitals.error
        assert error is not None
        assert "prompts/list is broken" in str(error)


async def test_what_two_servers_list_is_read_from_each_under_its_address(tmp_path: Path) -> None:
    servers = {"one": child("--offers"), "two": child("--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        shown = keys(gateway, "resources")
        assert shown == [f"tabane://upstream/{name}/memo%3A%2F%2Fone" for name in servers]
        for uri, name in zip(shown, servers, strict=True):
            assert await gateway.lookup.sources(CALLER, uri) == (ResourceSource(name, "memo://one", uri),)


@ERAS
async def test_lists_are_answered_from_disk_before_any_server_runs(tmp_path: Path, era: str) -> None:
    servers = {"one": child("--era", era, "--offers")}
    async with running_hub(tmp_path, servers) as here:
        await known(here)
    async with running_hub(tmp_path, servers, start_servers="on_demand") as here:
        gateway = await known(here)
        assert keys(gateway, "prompts") == ["one__greet"]
        assert keys(gateway, "resources") == ["memo://one"]
        assert keys(gateway, "templates") == ["memo://{n}"]
        await gateway.lookup.find_prompt(CALLER, "one__greet")
        await gateway.lookup.sources(CALLER, "memo://one")
        await gateway.lookup.sources(CALLER, "new:thing")
        assert not gateway.instances("one")


async def test_an_address_says_whose_it_is_before_anything_was_listed(tmp_path: Path) -> None:
    servers = {"one": child("--offers"), "off": child("--offers", enabled=False)}
    async with running_hub(tmp_path, servers, start_servers="on_demand") as here:
        gateway = here.hub.gateway
        for name in servers:
            uri = f"tabane://upstream/{name}/memo%3A%2F%2Fone"
            assert await gateway.lookup.sources(CALLER, uri) == (ResourceSource(name, "memo://one", uri),)
        assert not gateway.instances("one")
        with pytest.raises(UpstreamUnavailable):
            gateway.instance_for(CALLER, "off")
        # Where only a list can tell, the server is started for it.
        assert await gateway.lookup.sources(CALLER, "memo://one") == (MEMO,)


@ERAS
async def test_an_announced_change_of_one_kind_is_taken_and_told_and_nothing_else_asked(
    tmp_path: Path, era: str
) -> None:
    servers = {"one": child("--era", era, "--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        await until(lambda: bool(gateway.instances("one")[0].connection), "start")
        if era == "modern":
            await until(lambda: _listens(here), "subscription")
            await until(lambda: _caught_up(gateway), "the lists are read again after it")
        kinds: list[str] = []
        gateway._on_changed = lambda kind, project: kinds.append(kind)
        before = (await state(here))["asked"]
        await tell(here, "one", "offer", kind="prompts", names=["greet", "bow"])
        await until(lambda: "one__bow" in keys(gateway, "prompts"), "another prompt")
        after = (await state(here))["asked"]
        assert after["prompts/list"] == before["prompts/list"] + 1
        assert after["resources/list"] == before["resources/list"]
        assert kinds == ["prompts"]
        await tell(here, "one", "offer", kind="templates", names=["new://{x}"])
        await until(lambda: keys(gateway, "templates") == ["new://{x}"], "another template")
        assert kinds == ["prompts", "resources"]


async def _listens(here: RunningHub) -> bool:
    return len((await state(here))["listens"]) == 1


def _caught_up(gateway: Gateway) -> bool:
    offers = gateway.instances("one")[0].offers
    subscriber = offers._subscriptions._asking
    lists = offers._states.values()
    return (
        isinstance(subscriber, ModernSubscriber)
        and not subscriber._gap
        and all(each.waiting is None and each.started == each.taken for each in lists)
    )


async def test_a_list_whose_changes_are_not_announced_is_asked_for_again(tmp_path: Path) -> None:
    servers = {"one": child("--era", "modern", "--offers", "--quiet-lists", "--ttl", "0")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        for kind, names in (("prompts", ["bow"]), ("resources", ["memo://two"]), ("templates", ["x:{y}"])):
            await tell(here, "one", "offer", kind=kind, names=names)
        await gateway.lookup.refresh("prompts", CALLER)
        assert keys(gateway, "prompts") == ["one__bow"]
        assert keys(gateway, "resources") == ["memo://one"]
        await gateway.lookup.refresh("resources", CALLER)
        assert keys(gateway, "resources") == ["memo://two"]
        assert keys(gateway, "templates") == ["x:{y}"]


async def test_a_list_that_its_server_says_still_holds_is_not_asked_for_again(tmp_path: Path) -> None:
    servers = {"one": child("--era", "modern", "--offers", "--quiet-lists", "--ttl", "60000")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        before = (await state(here))["asked"]["prompts/list"]
        await gateway.lookup.refresh("prompts", CALLER)
        assert (await state(here))["asked"]["prompts/list"] == before


async def test_a_server_that_is_gone_from_the_file_offers_nothing_any_more(tmp_path: Path) -> None:
    servers = {"one": child("--offers"), "two": child("--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        kinds: list[str] = []
        gateway._on_changed = lambda kind, project: kinds.append(kind)
        gateway.apply([server for server in gateway.servers.values() if server.name == "two"])
        assert keys(gateway, "prompts") == ["two__greet"]
        assert keys(gateway, "resources") == ["memo://one"]
        assert sorted(kinds) == ["prompts", "resources", "tools"]


# Watching


@ERAS
async def test_a_watched_resource_is_asked_for_once_and_told_to_all_who_watch_it(
    tmp_path: Path, era: str
) -> None:
    servers = {"one": child("--era", era, "--offers"), "two": child("--era", era, "--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        (shown, *_) = keys(gateway, "resources")
        (source,) = await gateway.lookup.sources(CALLER, shown)
        first: Updates = []
        second: Updates = []
        await gateway.watches.watch("a", CALLER, source, noting(first))
        await gateway.watches.watch("b", CALLER, MEMO, noting(second))
        found = await state(here)
        assert watched(found) == {"memo://one"}
        assert len(found["subscribed"]) <= 1
        await tell(here, "one", "touch", uri="memo://one")
        await until(lambda: bool(first and second), "word of the change")
        assert first == [(shown, {"uri": shown})]
        assert second == [("memo://one", {"uri": "memo://one"})]
        await tell(here, "one", "touch", uri="memo://one/below")
        await until(lambda: len(second) == 2, "word of a change below")
        assert second[1] == ("memo://one", {"uri": "memo://one/below"})
        gateway.watches.unwatch("a", shown)
        await tell(here, "one", "touch", uri="memo://one")
        await until(lambda: len(second) == 3, "word for who is left")
        assert len(first) == 2
        gateway.leave("b")
        await until(lambda: _watches(here, set()), "nothing watched")


async def _watches(here: RunningHub, uris: set[str]) -> bool:
    found = await state(here)
    return len(found["listens"]) <= 1 and watched(found) == uris


@ERAS
async def test_what_is_watched_is_asked_for_again_after_a_restart(tmp_path: Path, era: str) -> None:
    servers = {"one": child("--era", era, "--offers")}
    async with running_hub(tmp_path, servers, restart_first=0.05) as here:
        gateway = await known(here)
        updates: Updates = []
        for uri in ("memo://one", "memo://two"):
            await gateway.watches.watch("a", CALLER, ResourceSource("one", uri, uri), noting(updates))
        instance = gateway.instances("one")[0]
        assert instance.connection
        os.kill(instance.connection.pid, signal.SIGKILL)
        await until(lambda: instance.vitals.deaths == 1, "death")
        await until(lambda: bool(instance.connection), "restart")
        await until(lambda: _watches(here, {"memo://one", "memo://two"}), "watched again")
        await tell(here, "one", "touch", uri="memo://two")
        await until(lambda: bool(updates), "word of the change")


async def test_what_is_watched_goes_on_with_the_instance_of_another_configuration(tmp_path: Path) -> None:
    servers = {"one": child("--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        updates: Updates = []
        await gateway.watches.watch("a", CALLER, MEMO, noting(updates))
        configured(tmp_path, {"one": child("--offers", "--name", "other")})
        here.hub._reload()
        await until(lambda: _watches(here, {"memo://one"}), "watched at the new instance")
        await tell(here, "one", "touch", uri="memo://one")
        await until(lambda: bool(updates), "word of the change")


@ERAS
async def test_a_refusal_to_tell_of_a_resource_reaches_who_asked(tmp_path: Path, era: str) -> None:
    servers = {"one": child("--era", era, "--offers", "--secret", "memo://secret")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        updates: Updates = []
        await gateway.watches.watch("a", CALLER, MEMO, noting(updates))
        for _ in range(2):
            with pytest.raises(UpstreamError):
                await gateway.watches.watch(
                    "a", CALLER, ResourceSource("one", "memo://secret", "s"), noting(updates)
                )
        await until(lambda: _watches(here, {"memo://one"}), "the other is watched still")


async def test_a_modern_subscription_is_opened_before_the_one_it_replaces_is_given_up(tmp_path: Path) -> None:
    servers = {"one": child("--era", "modern", "--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        updates: Updates = []
        for number in range(5):
            uri = f"memo://{number}"
            await gateway.watches.watch("a", CALLER, ResourceSource("one", uri, uri), noting(updates))
            await tell(here, "one", "touch", uri="memo://0")
        await until(lambda: _watches(here, {f"memo://{n}" for n in range(5)}), "one subscription")
        await until(lambda: len(updates) >= 5, "no change was missed")
        (listen,) = (await state(here))["listens"]
        assert listen["toolsListChanged"]
        assert listen["promptsListChanged"]
        assert listen["resourcesListChanged"]


async def test_a_subscription_that_ended_is_opened_again_and_what_was_missed_is_taken(tmp_path: Path) -> None:
    servers = {"one": child("--era", "modern", "--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        updates: Updates = []
        await gateway.watches.watch("a", CALLER, MEMO, noting(updates))
        await tell(here, "one", "end_listens")
        await tell(here, "one", "offer", kind="prompts", names=["bow"])
        await until(lambda: _watches(here, {"memo://one"}), "subscribed again")
        await until(lambda: keys(gateway, "prompts") == ["one__bow"], "the list that changed meanwhile")


async def test_watched_resources_are_bounded(tmp_path: Path) -> None:
    servers = {"one": child("--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        updates: Updates = []
        for number in range(MOST_OF_SESSION):
            uri = f"memo://{number}"
            await gateway.watches.watch("a", CALLER, ResourceSource("one", uri, uri), noting(updates))
        with pytest.raises(TabaneError, match="1024"):
            await gateway.watches.watch("a", CALLER, OTHER_MEMO, noting(updates))
        await gateway.watches.watch("b", CALLER, OTHER_MEMO, noting(updates))
        gateway.leave("a")
        await until(lambda: _watches(here, {"memo://x"}), "one is left")


@ERAS
async def test_whoever_comes_and_goes_at_the_same_time_what_is_watched_in_the_end_is_what_is_wanted(
    tmp_path: Path, era: str
) -> None:
    servers = {"one": child("--era", era, "--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway, random = await known(here), Random(7)
        wanted: set[tuple[str, str]] = set()

        async def come_or_go(session: str, uri: str) -> None:
            await asyncio.sleep(random.random() * 0.05)
            if random.random() < 0.5:
                wanted.add((session, uri))
                await gateway.watches.watch(session, CALLER, ResourceSource("one", uri, uri), noting([]))
            else:
                wanted.discard((session, uri))
                gateway.watches.unwatch(session, uri)

        await asyncio.gather(
            *(come_or_go(random.choice("abc"), f"memo://{random.randrange(6)}") for _ in range(200))
        )
        await until(lambda: _watches(here, {uri for _, uri in wanted}), "what is wanted")
        for session in "abc":
            gateway.leave(session)
        await until(lambda: _watches(here, set()), "nothing watched")


async def test_an_instance_of_which_something_is_watched_is_not_idle(tmp_path: Path) -> None:
    servers = {name: child("--offers", share="roots") for name in ("one", "two")}
    async with running_hub(tmp_path, servers, health_interval=0.1) as here:
        gateway = await known(here)
        await gateway.watches.watch("a", CALLER, MEMO, noting([]))
        gateway.use_limits(structs.replace(gateway.limits, instance_idle=0.1))
        await until(lambda: not gateway.instances("two"), "one that nobody uses is ended")
        assert gateway.instances("one")
        gateway.leave("a")
        await until(lambda: not gateway.instances("one"), "nobody watches it any more")


# Log messages


async def test_a_log_message_that_belongs_to_no_call_is_handed_on(tmp_path: Path) -> None:
    servers = {"one": child("--offers")}
    async with running_hub(tmp_path, servers) as here:
        gateway = await known(here)
        heard: list[tuple[str, bytes]] = []
        gateway.on_log = lambda server, params: heard.append((server, bytes(params)))
        params = {"level": "info", "data": "well"}
        await tell(here, "one", "notify", method="notifications/message", params=params)
        await until(lambda: bool(heard), "the message")
        assert heard[0][0] == "one"
        assert json.loads(heard[0][1]) == params
