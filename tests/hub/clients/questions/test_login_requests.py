"""Calls to a server that requires a login: the client is asked to open its page, in the way of its era."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_hub import call, http_hub, modern
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.login_site import LoginSite, changed, login_site
from tests.harness.patience import until
from tests.harness.running_hub import SOON, Json, RunningHub, SocketClient, running_hub, text
from tests.hub.clients.questions.asking import able, answers_to

URLS: Json = {"elicitation": {"url": {}}}
COMMAND = "Run: tabane servers login up"
ACCEPTED: Json = {"action": "accept"}
WAYS = [
    pytest.param({"name": "up__echo", "arguments": {"text": "hi"}}, id="direct"),
    pytest.param(
        {"name": "call_tool", "arguments": {"name": "up__echo", "arguments": {"text": "hi"}}}, id="call_tool"
    ),
]


@asynccontextmanager
async def guarded(folder: Path, **flavor: Any) -> AsyncIterator[tuple[LoginSite, RunningHub]]:
    """A site, and a hub whose only server is there. Nobody is logged in."""
    async with login_site(**flavor) as site, running_hub(folder, {"up": {"url": site.url}}) as here:
        yield site, here


async def legacy(here: RunningHub, **capabilities: Any) -> SocketClient:
    return await here.connect("2025-11-25", mode="full", capabilities=capabilities or URLS)


async def latest(here: RunningHub) -> SocketClient:
    return await here.connect("2026-07-28", mode="full")


def asking(params: Json) -> Json:
    return {**params, "_meta": able(**URLS)}


def url_in(asked: Json) -> str:
    """The address in a result that asks for a login, which is all that it asks."""
    [entry] = asked["inputRequests"].values()
    assert entry["method"] == "elicitation/create"
    params = entry["params"]
    assert params["mode"] == "url"
    assert "elicitationId" not in params
    assert "up requires a login" in params["message"]
    url: str = params["url"]
    return url


def refusal(result: Json) -> str:
    assert result["isError"] is True, result
    return text(result)


async def logged_in(site: LoginSite, here: RunningHub) -> None:
    """Log in by a call of another client, and wait until the tools are listed."""
    line = await latest(here)
    asked = await line.result("tools/call", asking(ECHO))
    await site.browse(url_in(asked))
    assert text(await line.result("tools/call", asking(ECHO))) == "hi"


ECHO: Json = {"name": "up__echo", "arguments": {"text": "hi"}}
PUBLISH: Json = {"name": "up__publish", "arguments": {"text": "hi"}}


# -- a modern client -----------------------------------------------------------------------------


@pytest.mark.parametrize("params", WAYS)
async def test_a_modern_client_opens_the_page_and_its_repeated_call_waits_for_the_login(
    tmp_path: Path, params: Json
) -> None:
    async with guarded(tmp_path) as (site, here):
        line = await latest(here)
        asked = await line.result("tools/call", asking(params))
        url = url_in(asked)
        assert url.startswith(f"{site.issuer}/authorize?")

        again = {**asking(params), **answers_to(asked, ACCEPTED)}
        again["_meta"] = {**again["_meta"], "progressToken": "p"}
        waiting = line.begin("tools/call", again)
        note = await line.noticed("notifications/progress")
        assert note["params"]["progressToken"] == "p"
        assert "up" in note["params"]["message"]
        assert not waiting.done()

        await site.browse(url)
        answer = await asyncio.wait_for(waiting, SOON)
        assert text(answer["result"]) == "hi"


async def test_a_login_that_is_done_before_the_call_is_repeated_is_not_awaited(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (site, here):
        line = await latest(here)
        asked = await line.result("tools/call", asking(ECHO))
        await site.browse(url_in(asked))
        result = await line.result("tools/call", {**asking(ECHO), **answers_to(asked, ACCEPTED)})
        assert text(result) == "hi"


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize("params", WAYS)
async def test_a_modern_client_that_declines_gets_the_command(
    tmp_path: Path, params: Json, action: str
) -> None:
    async with guarded(tmp_path) as (_site, here):
        line = await latest(here)
        asked = await line.result("tools/call", asking(params))
        url = url_in(asked)
        answer = answers_to(asked, {"action": action})
        said = refusal(await line.result("tools/call", {**asking(params), **answer}))
        assert COMMAND in said
        assert url not in said


async def test_an_answer_is_good_for_its_own_call_only(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_site, here):
        line = await latest(here)
        asked = await line.result("tools/call", asking(ECHO))
        other = {**asking({"name": "up__echo", "arguments": {"text": "other"}})}
        url_in(await line.result("tools/call", {**other, **answers_to(asked, ACCEPTED)}))  # asked again

        without = {**asking(ECHO), "requestState": asked["requestState"]}
        answer = await line.request("tools/call", without)
        assert answer["error"]["code"] == -32602
        assert "inputResponses" in answer["error"]["message"]


async def test_two_clients_share_one_login(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (site, here):
        new, old = await latest(here), await legacy(here)
        first = new.begin("tools/call", asking(ECHO))
        second = old.begin("tools/call", {"name": "up__echo", "arguments": {"text": "old"}})
        question = await old.questioned()
        asked = (await asyncio.wait_for(first, SOON))["result"]
        url = url_in(asked)
        assert question["params"]["url"] == url
        assert len(site.forms("/as/register")) == 1

        old.reply(question, {"result": ACCEPTED})
        third = new.begin("tools/call", {**asking(ECHO), **answers_to(asked, ACCEPTED)})
        await site.browse(url)
        assert text((await asyncio.wait_for(second, SOON))["result"]) == "old"
        assert text((await asyncio.wait_for(third, SOON))["result"]) == "hi"
        assert len(site.forms("/as/token", "authorization_code")) == 1


async def test_a_login_that_is_declined_in_the_browser_ends_the_call_with_the_reason(tmp_path: Path) -> None:
    async with guarded(tmp_path, declines=True) as (site, here):
        line = await latest(here)
        asked = await line.result("tools/call", asking(ECHO))
        waiting = line.begin("tools/call", {**asking(ECHO), **answers_to(asked, ACCEPTED)})
        await site.browse(url_in(asked))
        said = refusal((await asyncio.wait_for(waiting, SOON))["result"])
        assert "declined in the browser" in said
        assert COMMAND in said

        changed(site, declines=False)
        asked = await line.result("tools/call", asking(ECHO))
        await site.browse(url_in(asked))
        result = await line.result("tools/call", {**asking(ECHO), **answers_to(asked, ACCEPTED)})
        assert text(result) == "hi"


async def test_a_call_that_needs_more_permissions_asks_for_them(tmp_path: Path) -> None:
    async with guarded(tmp_path, scope_of=(("publish", "write"),)) as (site, here):
        await logged_in(site, here)
        line = await latest(here)
        asked = await line.result("tools/call", asking(PUBLISH))
        [entry] = asked["inputRequests"].values()
        assert "more permissions (write)" in entry["params"]["message"]
        await site.browse(entry["params"]["url"])
        result = await line.result("tools/call", {**asking(PUBLISH), **answers_to(asked, ACCEPTED)})
        assert text(result) == "published hi"


# -- a client of the handshake era ---------------------------------------------------------------


@pytest.mark.parametrize("params", WAYS)
async def test_a_legacy_client_is_asked_during_its_call_which_then_goes_on(
    tmp_path: Path, params: Json
) -> None:
    async with guarded(tmp_path) as (site, here):
        line = await legacy(here)
        waiting = line.begin("tools/call", params)
        question = await line.questioned()
        assert question["method"] == "elicitation/create"
        assert question["params"]["mode"] == "url"
        assert "up requires a login" in question["params"]["message"]
        line.reply(question, {"result": ACCEPTED})
        await site.browse(question["params"]["url"])
        assert text((await asyncio.wait_for(waiting, SOON))["result"]) == "hi"
        note = await line.noticed("notifications/elicitation/complete")
        assert note["params"] == {"elicitationId": question["params"]["elicitationId"]}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"result": {"action": "decline"}}, id="decline"),
        pytest.param({"error": {"code": -32603, "message": "no"}}, id="error"),
    ],
)
async def test_a_legacy_client_that_does_not_accept_gets_the_command(tmp_path: Path, answer: Json) -> None:
    async with guarded(tmp_path) as (_site, here):
        line = await legacy(here)
        line.answer = lambda question: answer
        assert COMMAND in refusal(await line.call("up__echo", text="hi"))
        assert len(line.questions) == 1


async def test_a_login_elsewhere_takes_the_question_back_and_the_call_goes_on(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (site, here):
        line = await legacy(here)
        waiting = line.begin("tools/call", ECHO)
        question = await line.questioned()
        await site.browse(question["params"]["url"])  # the client has not answered
        assert text((await asyncio.wait_for(waiting, SOON))["result"]) == "hi"
        note = await line.noticed("notifications/cancelled")
        assert note["params"]["requestId"] == question["id"]


async def test_a_call_that_waits_for_a_login_can_be_cancelled(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (site, here):
        line = await legacy(here)
        waiting = line.begin("tools/call", ECHO)
        question = await line.questioned()
        line.reply(question, {"result": ACCEPTED})
        line.notify("notifications/cancelled", {"requestId": line.last})
        questions = here.hub.sessions.questions
        await until(lambda: questions.login_waits == 0, "the call waits no more")
        await site.browse(question["params"]["url"])
        assert text(await line.call("up__echo", text="later")) == "later"
        assert not waiting.done()


# -- others --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_client_that_cannot_be_asked_gets_the_command_and_the_page(
    tmp_path: Path, version: Any
) -> None:
    async with guarded(tmp_path) as (site, here):
        line = await here.connect(version, mode="full", capabilities={"elicitation": {}})
        said = refusal(await line.call("up__echo", text="hi"))
        assert COMMAND in said
        await site.browse(page_in(site, said))
        assert text(await line.call("up__echo", text="hi")) == "hi"


async def test_prompts_and_resources_ask_too(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (site, here):
        await logged_in(site, here)
        for method, params in (
            ("resources/read", {"uri": "guarded://text"}),
            ("prompts/get", {"name": "up__greeting"}),
        ):
            site.revoke()
            line = await latest(here)
            asked = await line.result(method, {**params, "_meta": able(**URLS)})
            await site.browse(url_in_any(asked))
            again = {**params, "_meta": able(**URLS), **answers_to(asked, ACCEPTED)}
            assert "guarded words" in json.dumps(await line.result(method, again))
            site.revoke()
            old = await here.connect("2025-06-18", mode="full")
            answer = await old.request(method, params)
            assert answer["error"]["data"]["reason"] == "login"
            await site.browse(page_in(site, answer["error"]["message"]))


def page_in(site: LoginSite, said: str) -> str:
    """The address of the login's page in a text."""
    return next(word for word in said.split() if word.startswith(f"{site.issuer}/authorize?"))


def url_in_any(asked: Json) -> str:
    [entry] = asked["inputRequests"].values()
    url: str = entry["params"]["url"]
    return url


@pytest.mark.parametrize("admin", [False, True], ids=["without-administration", "with-administration"])
async def test_a_key_gets_a_page_only_with_administration(tmp_path: Path, admin: bool) -> None:
    access = GivenAccess("ann", "*", admin=admin)
    known = identities(GivenKeys(ann=access))
    async with login_site() as site, http_hub(tmp_path, {"up": {"url": site.url}}, identities=known) as hub:
        peer = await hub.peer()
        message, headers = modern(call("up__echo", 1, text="hi"))
        message["params"]["_meta"] = able(**URLS)
        answer = await peer.post(message, authorization="Bearer tbn_ann", **headers)
        result = answer.json["result"]
        if not admin:
            assert COMMAND in refusal(result)
            assert site.issuer not in json.dumps(result)
            assert not site.forms("/as/register")
            return
        url = url_in(result)
        assert "127.0.0.1" in site.forms("/as/register")[0]["redirect_uris"][0]
        await site.browse(url)
        message, headers = modern(call("up__echo", 2, text="hi"))
        message["params"] |= {"_meta": able(**URLS), **answers_to(result, ACCEPTED)}
        answer = await peer.post(message, authorization="Bearer tbn_ann", **headers)
        assert text(answer.json["result"]) == "hi"


async def test_a_server_whose_login_cannot_begin_leaves_the_command(tmp_path: Path) -> None:
    async with guarded(tmp_path, registration=False, device=False) as (_site, here):
        line = await latest(here)
        assert COMMAND in refusal(await line.result("tools/call", asking(ECHO)))
