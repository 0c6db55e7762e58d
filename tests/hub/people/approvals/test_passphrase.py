"""Who may approve: not the holder of a key, and with a passphrase nobody who does not know it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tabane.errors import Forbidden, PassphraseRequired, RateLimited
from tabane.hub.people.approvals.passphrase import MOST_WAITING
from tabane.operations import Caller, Face
from tests.harness.http_hub import call, http_hub, modern, request
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.running_hub import SOON, Client, Json, RunningHub, child, text
from tests.hub.clients.questions.asking import ACCEPTED, able, answers_to
from tests.hub.people.approvals.confirmed import COUNT, FORMS, confirming, person, refusal, waiting

WORDS = "correct horse"
TERMINAL = Caller("local", Face.RPC, "rpc-7", connected=True, pid=1)


async def terminal(here: RunningHub, operation: str, **params: object) -> object:
    """What somebody gets at a terminal, on one connection."""
    return await here.hub.door.invoke(TERMINAL, operation, msgspec.json.encode(params))


async def test_the_holder_of_a_key_is_not_asked_about_its_own_call(tmp_path: Path) -> None:
    keys = GivenKeys(secret=GivenAccess("key:ab12cd34", "*"))
    servers = {"up": child(confirm="count")}
    async with http_hub(tmp_path, servers, identities=identities(keys=keys), approval_wait=0) as here:
        await here.hub.door.invoke(TERMINAL, "list_tools", b'{"server": "up"}')
        peer = await here.peer()
        message, headers = modern(call("up__count", n=1), **able(**FORMS))
        answer = await peer.post(message, authorization="Bearer tbn_secret", **headers)
        said = refusal(answer.json["result"])
        [row] = await waiting(here.running)
        assert f"tabane approve {row['id']}" in said
        assert row["holder"] == "key:ab12cd34"
        tried = await peer.post(
            request("approve_call", {"id": row["id"]}), "/rpc", authorization="Bearer tbn_secret"
        )
        assert tried.code == -31403


async def test_with_a_passphrase_a_call_is_approved_only_by_who_has_shown_it(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        await person(here, "set_passphrase", passphrase=WORDS)
        line = await here.connect("2026-07-28", mode="full")
        refusal(await line.result("tools/call", COUNT))
        [row] = await waiting(here)
        with pytest.raises(PassphraseRequired, match="needs the passphrase"):
            await terminal(here, "approve_call", id=row["id"])
        with pytest.raises(Forbidden, match="This is not the passphrase"):
            await terminal(here, "unlock", passphrase="wrong")
        with pytest.raises(PassphraseRequired):
            await terminal(here, "approve_call", id=row["id"])
        await terminal(here, "unlock", passphrase=WORDS)
        await terminal(here, "approve_call", id=row["id"])
        with pytest.raises(PassphraseRequired):  # another connection
            await person(here, "remove_passphrase")
        assert text(await line.result("tools/call", COUNT)) == "1"


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_with_a_passphrase_no_dialog_of_a_client_approves(tmp_path: Path, version: Client) -> None:
    async with confirming(tmp_path) as here:
        await person(here, "set_passphrase", passphrase=WORDS)
        line = await here.connect(version, mode="full", capabilities=FORMS)
        params: Json = {**COUNT, "_meta": able(**FORMS)} if line.modern else COUNT
        assert "tabane approve" in refusal(await line.result("tools/call", params))
        assert line.questions == []


async def test_an_answer_to_a_question_from_before_the_passphrase_approves_nothing(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        legacy = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
        modern_line = await here.connect("2026-07-28", mode="full")
        call = legacy.begin("tools/call", COUNT)
        question = await legacy.questioned()
        repeated = {"name": "up__count", "arguments": {"n": 2}, "_meta": able(**FORMS)}
        asked = await modern_line.result("tools/call", repeated)
        await person(here, "set_passphrase", passphrase=WORDS)
        legacy.reply(question, {"result": ACCEPTED})
        assert "tabane approve" in refusal((await asyncio.wait_for(call, SOON))["result"])
        again = {**repeated, **answers_to(asked, ACCEPTED)}
        assert "tabane approve" in refusal(await modern_line.result("tools/call", again))


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("keys_create", {"name": "mine", "allow": ["*"]}),
        ("remove_server", {"name": "up"}),
        ("set_passphrase", {"passphrase": "another one"}),
        ("remove_passphrase", {}),
        ("set_up_assistants", {"assistants": ["cursor"]}),
        ("undo_setup", {}),
    ],
)
async def test_what_is_allowed_is_not_changed_without_the_passphrase(
    tmp_path: Path, operation: str, params: Json
) -> None:
    async with confirming(tmp_path) as here:
        await person(here, "set_passphrase", passphrase=WORDS)
        before = here.hub.settings.servers.read_bytes()
        with pytest.raises(PassphraseRequired):
            await terminal(here, operation, **params)
        assert here.hub.settings.servers.read_bytes() == before
        await terminal(here, "unlock", passphrase=WORDS)
        await terminal(here, "remove_passphrase")
        assert (await person(here, "passphrase_state")) == {"set": False, "unlocked": True}


async def test_only_a_few_attempts_wait_at_the_same_time(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        await person(here, "set_passphrase", passphrase=WORDS)
        tries = [terminal(here, "unlock", passphrase=f"wrong {n}") for n in range(MOST_WAITING + 2)]
        ended = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(one, RateLimited) for one in ended) == 2
        assert sum(isinstance(one, Forbidden) for one in ended) == MOST_WAITING


async def test_the_passphrase_is_in_no_file(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        await person(here, "set_passphrase", passphrase=WORDS)
        await terminal(here, "unlock", passphrase=WORDS)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (tmp_path / "passphrase.json").stat().st_mode & 0o777 == 0o600
    assert not [path for path in kept if WORDS.encode() in path.read_bytes()]
