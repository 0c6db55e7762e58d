"""Calls that need an approval and a login, in either order: each is asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ApprovalRequired, LoginRequired
from tests.harness.login_site import LoginSite, login_site
from tests.harness.running_hub import SOON, Json, RunningHub, SocketClient, running_hub, text
from tests.hub.clients.questions.asking import able, answers_to
from tests.hub.people.approvals.confirmed import person, waiting

BOTH: Json = {"elicitation": {"form": {}, "url": {}}}
ACCEPTED: Json = {"action": "accept", "content": {}}
LOGIN, APPROVAL = "requires a login", "Approve this call of"
PUBLISH: Json = {"name": "up__publish", "arguments": {"text": "hi"}}
ECHO: Json = {"name": "up__echo", "arguments": {"text": "hi"}}


@asynccontextmanager
async def guarded(folder: Path, confirm: str, **flavor: Any) -> AsyncIterator[tuple[LoginSite, RunningHub]]:
    """A site that requires a login, and a hub that wants calls of one of its tools to be confirmed."""
    async with login_site(**flavor) as site:
        servers = {"up": {"url": site.url, "confirm": [confirm]}}
        async with running_hub(folder, servers, approval_wait=0) as here:
            yield site, here


def through(params: Json) -> Json:
    return {"name": "call_tool", "arguments": params}


def asking(params: Json) -> Json:
    return {**params, "_meta": able(**BOTH)}


class User:
    """The user of a client, who agrees to everything, and logs in."""

    def __init__(self, site: LoginSite) -> None:
        self.site, self.asked = site, list[str]()
        self.browsing: list[asyncio.Task[Any]] = []

    async def modern(self, line: SocketClient, params: Json) -> Json:
        """Make a request until it is answered."""
        given = asking(params)
        while (result := await line.result("tools/call", given)).get("resultType") == "input_required":
            [entry] = result["inputRequests"].values()
            self.agree(entry["params"])
            given = {**asking(params), **answers_to(result, ACCEPTED)}
        return result

    def legacy(self, question: Json) -> Json:
        self.agree(question["params"])
        return {"result": ACCEPTED}

    def agree(self, params: Json) -> None:
        self.asked.append(LOGIN if "url" in params else APPROVAL)
        if "url" in params:
            self.browsing.append(asyncio.ensure_future(self.site.browse(params["url"])))


async def answered(here: RunningHub, user: User, era: str, params: Json) -> Json:
    if era == "modern":
        return await user.modern(await here.connect("2026-07-28", mode="full"), params)
    line = await here.connect("2025-11-25", mode="full", capabilities=BOTH)
    line.answer = user.legacy
    return await asyncio.wait_for(line.result("tools/call", params), SOON)


async def logged_in(site: LoginSite, here: RunningHub) -> None:
    """Log in for reading, by a call that needs no approval."""
    assert text(await answered(here, User(site), "modern", ECHO)) == "hi"


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("params", [PUBLISH, through(PUBLISH)], ids=["direct", "call_tool"])
async def test_a_call_that_was_approved_is_not_asked_about_again_after_a_login(
    tmp_path: Path, era: str, params: Json
) -> None:
    async with guarded(tmp_path, "publish", scope_of=(("publish", "write"),)) as (site, here):
        await logged_in(site, here)
        user = User(site)
        assert text(await answered(here, user, era, params)) == "published hi"
        assert user.asked == [APPROVAL, LOGIN]
        assert await waiting(here, 0) == []  # and it is used by now
        assert text(await answered(here, user, era, params)) == "published hi"
        assert user.asked == [APPROVAL, LOGIN, APPROVAL]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_after_whose_login_an_approval_is_needed_asks_for_each_once(
    tmp_path: Path, era: str
) -> None:
    async with guarded(tmp_path, "echo") as (site, here):
        user = User(site)
        assert text(await answered(here, user, era, ECHO)) == "hi"
        assert user.asked == [LOGIN, APPROVAL]
        assert await waiting(here, 0) == []


async def test_an_approval_that_waits_for_a_login_is_for_its_own_call_alone(tmp_path: Path) -> None:
    async with guarded(tmp_path, "publish", scope_of=(("publish", "write"),)) as (site, here):
        await logged_in(site, here)
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(PUBLISH))
        login = await line.result("tools/call", {**asking(PUBLISH), **answers_to(asked, ACCEPTED)})
        [entry] = login["inputRequests"].values()
        assert "more permissions" in entry["params"]["message"]

        other = {"name": "up__publish", "arguments": {"text": "other"}}
        again = await line.result("tools/call", asking(other))
        [entry] = again["inputRequests"].values()
        assert APPROVAL in entry["params"]["message"]


async def test_an_approval_is_useless_after_a_login_that_has_changed_the_definition(tmp_path: Path) -> None:
    async with guarded(tmp_path, "publish", scope_of=(("publish", "write"),)) as (site, here):
        await logged_in(site, here)
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(PUBLISH))
        login = await line.result("tools/call", {**asking(PUBLISH), **answers_to(asked, ACCEPTED)})
        [entry] = login["inputRequests"].values()
        servers = here.hub.settings.servers
        override = '"confirm": ["publish"], "overrides": {"publish": {"description": "Deletes."}}'
        servers.write_text(servers.read_text().replace('"confirm": ["publish"]', override))
        here.hub.follower.now()
        await site.browse(entry["params"]["url"])
        last = await line.result("tools/call", {**asking(PUBLISH), **answers_to(login, ACCEPTED)})
        [entry] = last["inputRequests"].values()
        assert APPROVAL in entry["params"]["message"]


async def test_a_program_calls_again_after_the_login_with_the_same_approval(tmp_path: Path) -> None:
    async with guarded(tmp_path, "publish", scope_of=(("publish", "write"),)) as (site, here):
        await logged_in(site, here)
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", **PUBLISH)
        [row] = await waiting(here)
        await person(here, "approve_call", id=row["id"])
        with pytest.raises(LoginRequired):
            await person(here, "call_tool", **PUBLISH)
        begun = await person(here, "start_login", server="up", redirect="local")
        await site.browse(begun["url"])
        assert b"published hi" in bytes(await person(here, "call_tool", **PUBLISH))
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", **PUBLISH)
