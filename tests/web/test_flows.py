"""The page of the flow policy over HTTP: what was read, forgotten and allowed, in both languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from tabane.operations import Caller, Face
from tests.harness.http_hub import Answer, HttpHub
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.labeled_servers import TOOLS, replayed
from tests.harness.running_hub import SocketClient
from tests.web.visitor import WebVisitor, text, title, visitor, web_hub

PERSON = Caller("local", Face.RPC, "person", client="tabane", pid=1)
DECEIVING = "claude <b>bold</b>\u202e"


def servers(folder: Path) -> dict[str, Any]:
    return {name: replayed(folder, name) for name in TOOLS}


async def signed_in(here: HttpHub) -> WebVisitor:
    for name in TOOLS:
        await here.hub.gateway.start(name)
    found = await visitor(here)
    assert (await found.sign_in()).status == 200
    return found


async def reader(here: HttpHub, name: str, folder: str = "/work") -> SocketClient:
    """An assistant that has read the inbox."""
    line = await here.running.connect("2025-11-25", mode="full", client=name, cwd=folder)
    await line.call("mail__read_inbox")
    return line


async def is_held(line: SocketClient) -> bool:
    """Whether mail is not sent before a person agrees."""
    arguments = {"to": "eve@example.com", "body": "x"}
    reply = await line.request("tools/call", {"name": "mail__send_email", "arguments": arguments})
    return "error" in reply or bool(reply["result"]["isError"])


async def operate(here: HttpHub, operation: str, **params: Any) -> Any:
    return await here.hub.door.invoke(PERSON, operation, msgspec.json.encode(params))


async def post(person: WebVisitor, path: str, **fields: str) -> Answer:
    return await person.ask(
        "POST", path, urlencode(fields).encode() or b"x=",
        content_type="application/x-www-form-urlencoded", hx_request="true",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lang", "heading", "origin", "nothing", "read"),
    [
        (
            "en",
            "Flow policy · Tabane",
            "guessed from its words",
            "No client has read anything",
            "strangers can write it",
        ),
        (
            "ja",
            "フローポリシー · Tabane",
            "名前や説明からの推測",
            "読んだクライアントはありません",
            "他人が書き込める",
        ),
    ],
)
async def test_the_page_shows_labels_with_their_origin_and_what_was_read(
    tmp_path: Path, lang: str, heading: str, origin: str, nothing: str, read: str
) -> None:
    async with web_hub(tmp_path, servers(tmp_path)) as here:
        person = await signed_in(here)
        answer = await person.content("/flows", tabane_lang=lang)
        assert (answer.status, title(answer)) == (200, heading)
        shown = text(answer)
        assert nothing in shown
        assert shown.index('data-flow-server="files"') < shown.index('data-flow-server=""')
        opened = text(await person.content("/flows?server=mail", tabane_lang=lang))
        assert "mail__send_email" in opened
        assert origin in opened
        await reader(here, "claude")
        part = text(await person.content("/flows/-/trails", tabane_lang=lang))
        assert nothing not in part
        for words in ("claude", "/work", "mail__read_inbox", read, "<time data-when="):
            assert words in part, words
        assert "undefined" not in shown + part
        assert "Message(" not in shown + part


async def test_one_client_is_forgotten_and_then_all(tmp_path: Path) -> None:
    async with web_hub(tmp_path, servers(tmp_path), approval_wait=0) as here:
        person = await signed_in(here)
        claude, cursor = await reader(here, "claude"), await reader(here, "cursor")
        elsewhere = await reader(here, "claude", "/other")
        done = await post(
            person, "/flows/-/forget", holder="local", client="claude", cwd="/work"
        )  # as the card of that client does
        assert "1 client forgotten." in text(done)
        assert [await is_held(line) for line in (claude, cursor, elsewhere)] == [False, True, True]
        nobody = await post(person, "/flows/-/forget", holder="", client="", cwd="")
        assert nobody.status == 422
        assert "2 clients forgotten." in text(await post(person, "/flows/-/forget-all"))
        assert not await is_held(cursor)
        assert "There was nothing to forget." in text(await post(person, "/flows/-/forget-all"))


async def test_an_allowed_pair_is_shown_with_the_name_of_its_key_and_taken_back(tmp_path: Path) -> None:
    async with web_hub(tmp_path, servers(tmp_path), approval_wait=0) as here:
        person = await signed_in(here)
        line = await reader(here, "claude")
        assert await is_held(line)
        await post(person, "/keys", name="laptop", allow="*", expires="never")
        [key] = (await operate(here, "keys_list"))["results"]
        for holder in ("local", f"key:{key['id']}"):
            await operate(here, "allow_flow", pair="mail>mail", holder=holder)
        assert not await is_held(line)
        shown = text(await person.content("/flows"))
        assert shown.count("After mail was read, calls of mail are made without asking.") == 2
        for pair, words in (
            ("mail__send_email>Bob@example.com", "Calls of mail__send_email for bob@example.com are made"),
            ("mail__send_email>*", "Calls of mail__send_email are made"),
            ("*>*@example.com", "Calls for *@example.com are made"),
        ):
            await operate(here, "allow_flow", pair=pair)
            assert words in text(await person.content("/flows/-/trails"))
            await operate(here, "disallow_flow", pair=pair.replace("Bob", "bob"))
        assert ">laptop</span>" in shown
        done = await post(person, "/flows/-/disallow", pair="mail>mail", holder="local")
        assert "You are asked again about mail&gt;mail." in text(done)
        again = await post(person, "/flows/-/disallow", pair="mail>mail", holder="local")
        assert "mail&gt;mail was not allowed." in text(again)
        assert await is_held(line)


async def test_the_name_of_a_client_is_text_and_hides_nothing(tmp_path: Path) -> None:
    async with web_hub(tmp_path, servers(tmp_path)) as here:
        person = await signed_in(here)
        await reader(here, DECEIVING, "/<i>folder</i>")
        shown = text(await person.content("/flows"))
        assert "<b>bold" not in shown
        assert "<i>folder" not in shown
        heading = shown[shown.index('id="flow-trail-1-title"') :]
        assert "\u202e" not in heading[: heading.index("</h3>")]


async def test_a_policy_that_is_off_or_strict_says_so(tmp_path: Path) -> None:
    for policy, words in (("off", "Nothing is noted"), ("strict", "Such a call is refused")):
        folder = tmp_path / policy
        folder.mkdir()
        async with web_hub(folder, {}, flow_policy=policy) as here:
            person = await visitor(here)
            await person.sign_in()
            assert words in text(await person.content("/flows"))


async def test_the_policy_is_switched_and_what_was_noted_goes_with_it(tmp_path: Path) -> None:
    async with web_hub(tmp_path, servers(tmp_path), approval_wait=0) as here:
        person = await signed_in(here)
        line = await reader(here, "claude")
        assert await is_held(line)
        done = await post(person, "/flows/-/policy", policy="off")
        assert "Nothing is noted" in text(done)
        assert not await is_held(line)
        refused = await post(person, "/flows/-/policy", policy="perhaps")
        assert refused.status == 422


async def test_with_a_passphrase_nothing_is_forgotten_before_the_page_is_unlocked(tmp_path: Path) -> None:
    async with web_hub(tmp_path, servers(tmp_path), approval_wait=0) as here:
        person = await signed_in(here)
        line = await reader(here, "claude")
        await operate(here, "set_passphrase", passphrase="correct horse")
        for path in ("forget", "forget-all"):
            locked = await post(person, f"/flows/-/{path}", holder="local", client="claude", cwd="/work")
            assert locked.status == 403
            assert "passphrase" in text(locked)
        assert await is_held(line)
        assert (await post(person, "/approvals/-/unlock", passphrase="correct horse")).status < 400
        assert "1 client forgotten." in text(await post(person, "/flows/-/forget-all"))


async def test_a_key_without_administration_has_no_such_page(tmp_path: Path) -> None:
    access = GivenAccess("key:k", "mail__*")
    known = identities(GivenKeys(k=access), restored=access)
    async with web_hub(tmp_path, servers(tmp_path), identities=known) as here:
        guest = await visitor(here)
        assert (await guest.sign_in(key="tbn_k")).status == 200
        for path in ("/flows", "/flows/-/trails"):
            assert (await guest.content(path)).status == 403
        assert (await post(guest, "/flows/-/forget-all")).status == 403
        assert "/flows" not in text(await guest.content("/"))
