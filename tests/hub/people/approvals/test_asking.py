"""Calls that a person has to confirm: how each kind of client is asked, and what becomes of the call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.errors import ApprovalRequired, Forbidden
from tabane.guard.approvals.approvals import Approval, ApprovalBinding, ApprovalReason, approval_required
from tabane.messages import Lang, say
from tabane.operations import Caller, Face
from tabane.operations.door import CallVerdict
from tabane.settings.table import APPROVAL_WAIT
from tests.harness.patience import until
from tests.harness.running_hub import SOON, Json, running_hub, text
from tests.hub.clients.questions.asking import FORM_STEP, able, answers_to
from tests.hub.clients.questions.asking import asking as server
from tests.hub.people.approvals.confirmed import (
    COUNT,
    FORMS,
    confirming,
    counted,
    open_page,
    person,
    refusal,
    waiting,
)

ACCEPTED: Json = {"action": "accept", "content": {}}
THROUGH: Json = {"name": "call_tool", "arguments": COUNT}
WAYS = [pytest.param(COUNT, id="direct"), pytest.param(THROUGH, id="call_tool")]


def asking(params: Json) -> Json:
    return {**params, "_meta": able(**FORMS)}


# -- a client of the handshake era ---------------------------------------------------------------


@pytest.mark.parametrize("params", WAYS)
async def test_a_legacy_client_is_asked_during_its_call(tmp_path: Path, params: Json) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
        call = line.begin("tools/call", params)
        question = await line.questioned()
        assert question["method"] == "elicitation/create"
        said = question["params"]["message"]
        assert "up__count" in said
        assert "\n    n: 1\n" in said
        assert "- Refuse: it is not made" in said
        assert question["params"]["requestedSchema"] == {"type": "object", "properties": {}}
        line.reply(question, {"result": ACCEPTED})
        assert text((await asyncio.wait_for(call, SOON))["result"]) == "1"
        assert await counted(here) == 1


async def test_no_argument_looks_like_a_part_of_the_question(tmp_path: Path) -> None:
    hostile = "a\n\nWhat was read before\n- nothing\n\u202e# safe <b>" + " " * 80 + "! safe\x1b[2J"
    async with confirming(tmp_path) as here:
        line = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
        line.begin(
            "tools/call", {"name": "up__count", "arguments": {"body": hostile, "to": "bob@example.com"}}
        )
        said = (await line.questioned())["params"]["message"]
        assert said.index("to: bob@example.com") < said.index("body:") < 400
        assert "\u202e" not in said
        assert "\x1b" not in said
        assert "      | What was read before" in said.split("\n")
        begins = ("What was read", "- nothing", "! safe", "#")
        assert not any(each.startswith(begins) for each in said.split("\n"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param({"result": {"action": "decline"}}, "A person refused this call", id="decline"),
        pytest.param({"result": {"action": "cancel"}}, "tabane approve", id="cancel"),
        pytest.param({"error": {"code": -32603, "message": "no"}}, "tabane approve", id="error"),
    ],
)
async def test_a_legacy_client_that_does_not_accept_sends_nothing(
    tmp_path: Path, answer: Json, words: str
) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
        line.answer = lambda question: answer
        assert words in refusal(await line.result("tools/call", COUNT))
        assert len(line.questions) == 1
        assert await counted(here) == 0


async def test_the_question_is_taken_back_if_the_call_is_approved_elsewhere(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
        call = line.begin("tools/call", COUNT)
        question = await line.questioned()
        [row] = await waiting(here)
        assert (await person(here, "approve_call", id=row["id"]))["state"] == "approved"
        assert text((await asyncio.wait_for(call, SOON))["result"]) == "1"
        note = await line.noticed("notifications/cancelled")
        assert note["params"]["requestId"] == question["id"]


async def test_a_client_that_cancels_its_call_leaves_nothing_to_approve(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
        line.begin("tools/call", COUNT)
        await line.questioned()
        line.notify("notifications/cancelled", {"requestId": line.last})
        assert await waiting(here, 0) == []


# -- a modern client -----------------------------------------------------------------------------


@pytest.mark.parametrize("params", WAYS)
async def test_a_modern_client_repeats_its_call_with_the_answer(tmp_path: Path, params: Json) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(params))
        [entry] = asked["inputRequests"].values()
        assert "Approve this call of up__count?" in entry["params"]["message"]
        again = {**asking(params), **answers_to(asked, ACCEPTED)}
        assert text(await line.result("tools/call", again)) == "1"

        replayed = await line.result("tools/call", again)
        assert replayed["resultType"] == "input_required"  # it is asked anew, and nothing was sent
        assert await counted(here) == 1


async def test_an_answer_approves_no_other_call(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(COUNT))
        other = asking({"name": "up__count", "arguments": {"n": 2}})
        answer = await line.request("tools/call", {**other, **answers_to(asked, ACCEPTED)})
        assert answer.get("result", {}).get("resultType") != "complete", answer
        assert await counted(here) == 0


async def test_a_modern_client_that_declines_sends_nothing(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(COUNT))
        again = {**asking(COUNT), **answers_to(asked, {"action": "decline"})}
        assert "A person refused this call" in refusal(await line.result("tools/call", again))
        assert "A person refused this call" in refusal(await line.result("tools/call", asking(COUNT)))
        assert await counted(here) == 0


async def test_a_server_may_ask_during_a_call_that_was_approved(tmp_path: Path) -> None:
    """The request that answers the server goes on with the same call, so nobody has to approve it again."""
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    given: Json = {
        "name": "up__ask", "arguments": {"method": "elicitation/create", "params": form, "seconds": SOON},
    }  # fmt: skip
    async with confirming(tmp_path) as here:
        servers = here.hub.settings.servers
        servers.write_text(servers.read_text().replace("cou*", "ask"))
        here.hub.follower.now()
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(given))
        again = {**asking(given), **answers_to(asked, ACCEPTED)}
        own = await line.result("tools/call", again)
        [entry] = own["inputRequests"].values()
        assert entry["params"]["message"] == "Who?"
        last = await line.result("tools/call", {**asking(given), **answers_to(own, ACCEPTED)})
        assert last.get("isError") is not True, last
        assert last["resultType"] == "complete"


async def test_a_modern_server_may_ask_during_a_call_that_was_approved(tmp_path: Path) -> None:
    given: Json = {"name": "up__ask", "arguments": {"steps": [FORM_STEP]}}
    async with running_hub(tmp_path, {"up": server(era="modern", confirm="ask")}, approval_wait=0) as here:
        await person(here, "list_tools", server="up")
        line = await here.connect("2026-07-28", mode="full")
        asked = await line.result("tools/call", asking(given))
        own = await line.result("tools/call", {**asking(given), **answers_to(asked, ACCEPTED)})
        [entry] = own["inputRequests"].values()
        assert entry["params"]["message"] == "Who?"
        again = {**asking(given), **answers_to(own, {"action": "accept", "content": {"name": "花"}})}
        last = await line.result("tools/call", again)
        assert last["resultType"] == "complete", last

        replayed = await line.result("tools/call", again)
        [entry] = replayed["inputRequests"].values()
        assert "Approve this call" in entry["params"]["message"]


# -- who cannot be asked -------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("params", WAYS)
async def test_a_client_that_cannot_be_asked_is_told_what_to_do_and_calls_again(
    tmp_path: Path, version: Any, params: Json
) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect(version, mode="full")
        said = refusal(await line.result("tools/call", params))
        [row] = await waiting(here)
        assert f"tabane approve {row['id']}" in said
        assert "tabane open /approvals" in said
        assert "10 minutes" in said
        assert f"tabane approve {row['id']}" in refusal(await line.result("tools/call", params))
        assert len(await waiting(here)) == 1  # the same one
        await person(here, "approve_call", id=row["id"])
        assert text(await line.result("tools/call", params)) == "1"
        refusal(await line.result("tools/call", params))  # it was used
        assert await counted(here) == 1


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_what_to_do_names_each_reason_and_its_pair(lang: Lang) -> None:
    pair = say("Runs: tabane policy allow {pair!c}.", pair="web>mail")
    verdicts = (
        CallVerdict("ask", "confirm", say("It is said so.")),
        CallVerdict("ask", "flow", pair, ("web>mail",)),
    )
    reasons = tuple(map(ApprovalReason.of, verdicts))
    approval = Approval("a1", ApprovalBinding("local", "mail__send"), 0.0, 600.0, reasons)
    said = approval_required(approval).message.render(lang)
    for part in (
        "mail__send", "It is said so. Runs: tabane policy allow 'web>mail'.", "tabane approve a1",
        "tabane open /approvals",
    ):  # fmt: skip
        assert part in said


async def test_a_call_waits_as_long_as_the_setting_says(tmp_path: Path) -> None:
    async with confirming(tmp_path, approval_wait=SOON) as here:
        line = await here.connect("2025-06-18", mode="full")
        call = line.begin("tools/call", COUNT)
        [row] = await waiting(here)
        await person(here, "approve_call", id=row["id"])
        assert text((await asyncio.wait_for(call, SOON))["result"]) == "1"


async def test_by_default_a_call_waits_only_while_somebody_can_answer(tmp_path: Path) -> None:
    async with confirming(tmp_path, approval_wait=APPROVAL_WAIT) as here:
        line = await here.connect("2025-06-18", mode="full")
        assert "tabane approve" in refusal(await line.call("up__count", n=2))
        async with open_page(here):
            call = line.begin("tools/call", COUNT)
            row = next(each for each in await waiting(here, 2) if "1" in each["arguments"])
            await person(here, "approve_call", id=row["id"])
            assert text((await asyncio.wait_for(call, SOON))["result"]) == "1"


async def test_a_call_of_a_program_waits_and_is_made_once_it_was_approved(tmp_path: Path) -> None:
    async with confirming(tmp_path, approval_wait=SOON) as here:
        call = asyncio.ensure_future(person(here, "call_tool", name="up__count", arguments={"n": 1}))
        [row] = await waiting(here)
        assert row["arguments"] == '{"n":1}'
        await person(here, "approve_call", id=row["id"])
        assert '"1"' in bytes(await call).decode()


async def test_a_program_that_gives_up_leaves_nothing_to_approve(tmp_path: Path) -> None:
    async with confirming(tmp_path, approval_wait=SOON) as here:
        call = asyncio.ensure_future(person(here, "call_tool", name="up__count", arguments={"n": 1}))
        await waiting(here)
        call.cancel()
        assert await waiting(here, 0) == []


async def test_each_call_of_several_at_once_is_approved_on_its_own(tmp_path: Path) -> None:
    async with confirming(tmp_path, approval_wait=SOON) as here:
        requests = [{"name": "up__count", "arguments": {"n": n}} for n in (1, 2)]
        calls = asyncio.ensure_future(person(here, "execute_parallel", requests=requests))
        rows = await waiting(here, 2)
        first = next(row for row in rows if row["arguments"] == '{"n":1}')
        other = next(row for row in rows if row["arguments"] == '{"n":2}')
        await person(here, "approve_call", id=first["id"])
        await person(here, "refuse_call", id=other["id"])
        found = await calls
        assert b"A person refused this call" in msgspec.json.encode(found)
        assert await counted(here) == 1


# -- what an approval is for ---------------------------------------------------------------------


async def test_an_approval_is_used_once_even_if_calls_come_together(tmp_path: Path) -> None:
    async with confirming(tmp_path, approval_wait=SOON) as here:
        calls = [
            asyncio.ensure_future(person(here, "call_tool", name="up__count", arguments={"n": 1}))
            for _ in range(8)
        ]
        [row] = await waiting(here)
        await until(lambda: len(here.hub.guards.desk().waiting(row["id"])) == 8, "all wait")
        await person(here, "approve_call", id=row["id"])
        ended = await asyncio.gather(*calls, return_exceptions=True)
        refused = [one for one in ended if isinstance(one, Forbidden)]
        assert len(refused) == 7
        assert all("used by another call" in str(one) for one in refused)
        assert await counted(here) == 1


async def test_other_arguments_need_another_approval(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", name="up__count", arguments={"n": 1})
        [row] = await waiting(here)
        await person(here, "approve_call", id=row["id"])
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", name="up__count", arguments={"n": 2})
        assert await counted(here) == 0


async def test_an_approval_is_useless_after_the_definition_has_changed(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", name="up__count", arguments={"n": 1})
        [row] = await waiting(here)
        await person(here, "approve_call", id=row["id"])
        servers = here.hub.settings.servers
        override = '"confirm": ["cou*"], "overrides": {"count": {"description": "Deletes."}}'
        servers.write_text(servers.read_text().replace('"confirm": ["cou*"]', override))
        here.hub.follower.now()
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", name="up__count", arguments={"n": 1})


async def test_somebody_else_cannot_use_an_approval(tmp_path: Path) -> None:
    class Other:
        holder, label, tier, everything, revision = "key:ab12cd34", "laptop", "local", True, 0

        def allows(self, target: object) -> bool:
            return True

        def sees_server(self, server: str) -> bool:
            return True

    async with confirming(tmp_path) as here:
        with pytest.raises(ApprovalRequired):
            await person(here, "call_tool", name="up__count", arguments={"n": 1})
        [row] = await waiting(here)
        await person(here, "approve_call", id=row["id"])
        other = Caller("other", Face.RPC, "2", access=Other())
        with pytest.raises(ApprovalRequired):
            await here.hub.door.invoke(other, "call_tool", b'{"name":"up__count","arguments":{"n":1}}')


async def test_tools_that_no_pattern_names_are_called_at_once(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        line = await here.connect("2025-06-18", mode="full")
        assert text(await line.call("up__echo", text="hi")) == '{"text": "hi"}'
        assert await waiting(here, 0) == []


async def test_a_renamed_tool_does_not_get_past_its_pattern(tmp_path: Path) -> None:
    async with confirming(tmp_path) as here:
        servers = here.hub.settings.servers
        override = '"confirm": ["cou*"], "overrides": {"count": {"name": "harmless"}}'
        servers.write_text(servers.read_text().replace('"confirm": ["cou*"]', override))
        here.hub.follower.now()
        line = await here.connect("2025-06-18", mode="full")
        assert "tabane approve" in refusal(await line.call("up__harmless", n=1))
