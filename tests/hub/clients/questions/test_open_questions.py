"""Open questions as operations: listed, and answered in place of the client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import BadArguments, UnknownName
from tabane.operations import Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, RunningHub, connected_hub, running_hub
from tests.hub.clients.questions.asking import (  # fmt: skip
    ACCEPTED,
    EVERYTHING,
    FORM,
    FORM_STEP,
    ROOTED,
    ROOTS_STEP,
    SAMPLING_STEP,
    URL_STEP,
    able,
    answered,
    answers_to,
    asked_once,
    asking,
    call_of,
)

MODERN: Client = "2026-07-28"
LEGACY: Client = "2025-11-25"


class KeyAccess:
    """The access of a key that may call everything but administration."""

    tier = "k"
    everything = False
    revision = 0

    def __init__(self, name: str) -> None:
        self.holder = self.label = f"key:{name}"

    def allows(self, target: Any) -> bool:
        return bool(target.source != "admin")

    def sees_server(self, server: str) -> bool:
        return True


async def operate(here: RunningHub, name: str, access: Any = None, **params: Any) -> Any:
    caller = Caller("local", Face.RPC, "program")
    if access is not None:
        caller = Caller("key", Face.RPC, "program", access=access)
    return await here.hub.door.invoke(caller, name, json.dumps(params).encode())


async def listed(here: RunningHub, count: int = 1) -> list[Json]:
    await until(lambda: len(here.hub.tools.questions.open) == count, "the questions are open")
    rows: list[Json] = (await operate(here, "list_questions"))["results"]
    return rows


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_question_at_a_legacy_client_is_listed_and_can_be_answered_elsewhere(
    tmp_path: Path, era: str
) -> None:
    async with connected_hub(tmp_path, {"up": asking(era)}, LEGACY, capabilities=EVERYTHING) as (here, line):
        waiting = line.begin("tools/call", call_of(FORM_STEP, meta={}))
        question = await line.questioned()
        (row,) = await listed(here)
        assert (row["server"], row["tool"], row["kind"]) == ("up", "up__ask", "form")
        assert (row["client"], row["message"]) == ("test", FORM["message"])
        assert json.loads(bytes(row["schema"])) == FORM["requestedSchema"]
        assert row["expires"] - row["asked"] == pytest.approx(600)
        content = {"name": "花"}
        await operate(here, "answer_question", id=row["id"], action="accept", content=content)
        assert answered((await waiting)["result"]) == [[ACCEPTED]]
        assert (await line.noticed("notifications/cancelled"))["params"]["requestId"] == question["id"]
        assert await listed(here, 0) == []


async def test_a_question_of_a_parked_call_can_be_answered_elsewhere(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (here, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        (row,) = await listed(here)
        await operate(here, "answer_question", id=row["id"], action="decline")
        done = await line.result("tools/call", request | answers_to(asked, ACCEPTED))
        assert answered(done) == [[{"action": "decline"}]]


# Between a client and a server of 2026-07-28, questions pass unchanged.
@pytest.mark.parametrize(("client", "era"), [(MODERN, "legacy"), (LEGACY, "legacy"), (LEGACY, "modern")])
async def test_what_no_client_can_be_asked_waits_for_a_person_if_that_is_set(
    tmp_path: Path, client: Client, era: str
) -> None:
    async with connected_hub(tmp_path, {"up": asking(era)}, client, questions_to_page=True) as (here, line):
        waiting = line.begin("tools/call", call_of(URL_STEP, meta={}))
        (row,) = await listed(here)
        assert (row["kind"], row["url"]) == ("url", "https://example.com/in")
        assert not waiting.done()
        await operate(here, "answer_question", id=row["id"], action="accept")
        assert answered((await waiting)["result"]) == [[{"action": "accept"}]]
        assert line.questions == []


async def test_a_person_answers_samplings_and_roots_too(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, LEGACY, capabilities=EVERYTHING) as (here, line):
        for step, content, answer in (
            (SAMPLING_STEP, "Ho", {"role": "assistant", "content": {"type": "text", "text": "Ho"}}),
            (ROOTS_STEP, ["file:///mine"], ROOTED),
        ):
            waiting = line.begin("tools/call", call_of(step, meta={}))
            (row,) = await listed(here)
            await operate(here, "answer_question", id=row["id"], action="accept", content=content)
            [[given]] = answered((await waiting)["result"])
            assert given.items() >= answer.items()
        waiting = line.begin("tools/call", call_of(SAMPLING_STEP, meta={}))
        (row,) = await listed(here)
        assert row["message"] == "Hi"
        await operate(here, "answer_question", id=row["id"], action="decline")
        [[given]] = answered((await waiting)["result"])
        assert given["code"] == -1


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, LEGACY, capabilities=EVERYTHING) as (here, line):
        line.begin("tools/call", call_of(FORM_STEP, meta={}))
        (row,) = await listed(here)
        with pytest.raises(BadArguments, match=r"content\.name"):
            await operate(here, "answer_question", id=row["id"], action="accept", content={})
        with pytest.raises(UnknownName):
            await operate(here, "answer_question", id="none", action="cancel")
        assert [each["id"] for each in await listed(here)] == [row["id"]]


async def test_a_key_reaches_the_questions_of_its_own_calls_only(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, LEGACY, capabilities=EVERYTHING) as (here, line):
        line.begin("tools/call", call_of(FORM_STEP, meta={}))
        (row,) = await listed(here)
        other = KeyAccess("x")
        assert (await operate(here, "list_questions", other))["results"] == []
        with pytest.raises(UnknownName):
            await operate(here, "answer_question", other, id=row["id"], action="cancel")


async def test_a_question_is_listed_no_longer_when_its_call_or_client_is_gone(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, LEGACY, capabilities=EVERYTHING) as (here, line):
        waiting = line.begin("tools/call", call_of(FORM_STEP, meta={}))
        await listed(here)
        await line.close()
        assert await listed(here, 0) == []
        assert not waiting.done()
        await asyncio.sleep(0)


async def test_urls_that_a_legacy_server_wants_first_are_asked_for_and_then_the_call_is_made_again(
    tmp_path: Path,
) -> None:
    url = {"mode": "url", "elicitationId": "e", "url": "https://example.com/in", "message": "Sign in"}
    async with connected_hub(tmp_path, {"up": asking()}, MODERN) as (_, line):
        request = call_of({"urls": [url]})
        asked = await asked_once(line, request)
        (question,) = asked["inputRequests"].values()
        assert question["params"] == {key: url[key] for key in ("mode", "url", "message")}
        declined = await line.request("tools/call", request | answers_to(asked, {"action": "decline"}))
        assert "was not opened" in declined["error"]["message"]
        done = await line.result("tools/call", request | answers_to(asked, {"action": "accept"}))
        assert answered(done) == []
        other = call_of({"urls": [url | {"elicitationId": "f"}]}, meta=able(sampling={}))
        refused = await line.request("tools/call", other)
        assert refused["error"]["code"] == -32021
        assert refused["error"]["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_a_legacy_client_hears_that_what_it_opened_is_complete(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": asking()}) as here:
        line, other = [await here.connect(LEGACY, capabilities=EVERYTHING) for _ in range(2)]
        line.answer = lambda question: {"result": {"action": "accept"}}
        await line.result("tools/call", call_of(URL_STEP, {"done": "e-1"}, meta={}))
        told = await line.noticed("notifications/elicitation/complete")
        assert told["params"] == {"elicitationId": "e-1"}
        assert other.notifications == [] or all("complete" not in n["method"] for n in other.notifications)
