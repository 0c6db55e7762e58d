"""Skills of several servers (SEP-2640): one list, addresses that do not mix, and digests that fit."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tabane.access.permissions import rules_of
from tabane.catalog.offers.skills import Skill
from tabane.operations import Access, Caller, CallTarget, Face
from tests.harness.http_hub import http_hub, modern, request
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.running_hub import Client, Json, SocketClient, child, running_hub

EACH = list(itertools.product(("2025-11-25", "2026-07-28"), ("legacy", "modern")))
each = pytest.mark.parametrize(("version", "era"), EACH)
REFUNDS = "skill://tabane/{}/team/refunds/SKILL.md"


def skilled(era: str, name: str, *skills: str, folders: bool = True) -> Json:
    more = ["--folders"] if folders else []
    return child("--era", era, "--name", name, "--skills", ",".join(skills), *more)


def servers(era: str) -> dict[str, Json]:
    return {
        "one": skilled(era, "One", "refunds", "daily", "generated", "unlisted"),
        "two": skilled(era, "Two", "refunds", folders=False),
        "plain": child("--era", era, "--offers"),
    }


async def listed(line: SocketClient) -> dict[str, Json]:
    """All skills by their URIs, from every page."""
    found: dict[str, Json] = {}
    cursor: str | None = None
    while True:
        result = await line.result("skills/list", {"cursor": cursor} if cursor else {})
        if line.modern:
            assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
            assert result["ttlMs"] >= 0
        found |= {skill["uri"]: skill for skill in result["skills"]}
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


async def read(line: SocketClient, uri: str) -> bytes:
    (content,) = (await line.result("resources/read", {"uri": uri}))["contents"]
    assert content["uri"] == uri
    text: str = content["text"]
    return text.encode()


@each
async def test_the_skills_of_all_servers_are_one_list(tmp_path: Path, version: Client, era: str) -> None:
    async with running_hub(tmp_path, servers(era), list_wait=60) as here:
        line = await here.connect(version)
        skills = await listed(line)
        names = ["one/team/refunds", "one/team/daily", "one/team/generated", "two/team/refunds"]
        assert list(skills) == [f"skill://tabane/{name}/SKILL.md" for name in names]
        refunds = skills[REFUNDS.format("two")]
        assert refunds["frontmatter"] == {
            "name": "refunds",
            "description": "refunds of Two",
            "license": "MIT",
            "x-own": [1, None],
        }
        # The last part of the path is the name of the skill, as the specification demands.
        assert all(uri.split("/")[-2] == skill["frontmatter"]["name"] for uri, skill in skills.items())
        assert skills["skill://tabane/one/team/generated/SKILL.md"]["resources"] == "dynamic"


@each
async def test_every_file_of_a_list_fits_its_digest_and_comes_from_its_own_server(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, servers(era), list_wait=60) as here:
        line = await here.connect(version)
        checked = 0
        for uri, skill in (await listed(line)).items():
            owner = "One" if uri.startswith("skill://tabane/one/") else "Two"
            for file in skill["resources"] if skill["resources"] != "dynamic" else ():
                content = await read(line, file["uri"])
                assert file["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
                assert file["size"] == len(content)
                assert owner in content.decode()
                assert file["uri"].startswith(uri.removesuffix("SKILL.md"))
                checked += 1
        assert checked == 6


@each
async def test_a_skill_is_got_by_its_address_and_by_its_own_uri_if_only_one_server_has_it(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, servers(era), list_wait=60) as here:
        line = await here.connect(version)
        skills = await listed(line)
        for uri in skills:
            assert (await line.result("skills/get", {"uri": uri}))["skill"] == skills[uri]
        daily = await line.result("skills/get", {"uri": "skill://team/daily/SKILL.md"})
        assert daily["skill"]["uri"] == "skill://tabane/one/team/daily/SKILL.md"
        hidden = "skill://tabane/one/team/unlisted/SKILL.md"
        assert (await line.result("skills/get", {"uri": hidden}))["skill"]["uri"] == hidden
        # Two servers have it: neither of them is meant more than the other.
        refused = (await line.request("skills/get", {"uri": "skill://team/refunds/SKILL.md"}))["error"]
        assert refused["code"] == -32602
        assert REFUNDS.format("one") in refused["message"]
        assert REFUNDS.format("two") in refused["message"]
        for uri in ("skill://tabane/two/team/daily/SKILL.md", "skill://tabane/none/x/SKILL.md"):
            assert (await line.request("skills/get", {"uri": uri}))["error"]["code"] == -32602


@each
async def test_folders_are_read_also_of_a_server_that_only_lists_files(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, servers(era), list_wait=60) as here:
        line = await here.connect(version)
        await listed(line)

        async def folder(uri: str) -> list[Json]:
            found: list[Json] = (await line.result("resources/directory/read", {"uri": uri}))["resources"]
            return found

        for server in ("one", "two"):
            root = f"skill://tabane/{server}/team/refunds"
            found = {child["uri"]: child.get("mimeType") for child in await folder(root)}
            assert found == {f"{root}/SKILL.md": None, f"{root}/templates": "inode/directory"}
        (template,) = await folder("skill://tabane/two/team/refunds/templates")
        assert template == {"uri": "skill://tabane/two/team/refunds/templates/a.md", "name": "a.md"}
        for uri in (REFUNDS.format("two"), "skill://tabane/two/team/none"):
            refused = await line.request("resources/directory/read", {"uri": uri})
            assert refused["error"]["code"] == -32602


async def test_a_key_sees_only_the_skills_that_it_may_read(tmp_path: Path) -> None:
    keys = identities(GivenKeys(two=GivenAccess("key:two", "two__*")))
    async with http_hub(tmp_path, servers("modern"), identities=keys) as hub:
        peer = await hub.peer()

        async def ask(method: str, **params: Any) -> Any:
            message, headers = modern(request(method, params))
            return (await peer.post(message, authorization="Bearer tbn_two", **headers)).json

        skills = (await ask("skills/list"))["result"]["skills"]
        assert [skill["uri"] for skill in skills] == [REFUNDS.format("two")]
        assert "result" in await ask("skills/get", uri=REFUNDS.format("two"))
        assert (await ask("skills/get", uri=REFUNDS.format("one")))["error"]["code"] == -32602
        # The only one of these that the key may read.
        own = await ask("skills/get", uri="skill://team/refunds/SKILL.md")
        assert own["result"]["skill"]["uri"] == REFUNDS.format("two")
        folder = await ask("resources/directory/read", uri="skill://tabane/one/team/refunds")
        assert folder["error"]["code"] == -32602


async def test_the_list_is_known_before_any_server_has_started_again(tmp_path: Path) -> None:
    async with running_hub(tmp_path, servers("legacy"), list_wait=60) as here:
        before = await listed(await here.connect("2026-07-28"))
    async with running_hub(tmp_path, servers("legacy"), list_wait=60) as here:
        assert await listed(await here.connect("2026-07-28")) == before
        assert not any(here.hub.gateway.instances(name) for name in ("one", "two"))


async def test_the_gateway_lists_skills_for_a_search(tmp_path: Path) -> None:
    class Only:
        """The access to the skills of one server."""

        holder = label = tier = "only"
        everything, revision = False, 0

        def allows(self, target: CallTarget) -> bool:
            return rules_of(["two__*"]).allows(target)

        def sees_server(self, server: str) -> bool:
            return True

    async with running_hub(tmp_path, servers("legacy"), list_wait=60) as here:
        line = await here.connect("2026-07-28")
        await listed(line)
        (session,) = here.hub.sessions
        access: Access = Only()
        found: list[Skill] = await here.hub.gateway.skills_of(session.caller)
        assert [skill.name for skill in found] == ["refunds", "daily", "generated", "refunds"]
        assert found[0].description == "refunds of One"
        (only,) = await here.hub.gateway.skills_of(structs.replace(session.caller, access=access))
        assert only.shown == REFUNDS.format("two")


async def test_skills_are_found_by_what_they_are_for(tmp_path: Path) -> None:
    async with running_hub(tmp_path, servers("legacy"), list_wait=60) as here:
        line = await here.connect()
        known = await listed(line)
        asked = b'{"query": "refunds", "kind": "skills", "limit": 50}'
        caller = Caller("local", Face.RPC, "program")
        answer = await here.hub.door.respond(caller, "search_tools", asked, msgspec.json.encode)
        found = {row["uri"]: row for row in json.loads(answer)["results"]}
        both = {REFUNDS.format(server) for server in ("one", "two")}
        assert both <= found.keys() <= known.keys()
        for uri in both:
            assert found[uri]["kind"] == "skills"
            assert found[uri]["description"] == known[uri]["frontmatter"]["description"]
