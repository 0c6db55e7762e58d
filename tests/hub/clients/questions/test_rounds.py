"""Questions of modern servers to legacy clients: the hub asks the client, and repeats the call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, connected_hub, text
from tests.hub.clients.questions.asking import (  # fmt: skip
    ACCEPTED,
    EVERYTHING,
    FORM,
    FORM_STEP,
    ROOTED,
    ROOTS_STEP,
    SAMPLED,
    SAMPLING_STEP,
    URL,
    URL_STEP,
    answered,
    asking,
    call_of,
)

ANSWERS = {"elicitation/create": ACCEPTED, "sampling/createMessage": SAMPLED, "roots/list": ROOTED}
MODERN_URL = {key: value for key, value in URL.items() if key != "elicitationId"}


def modern() -> Json:
    return {"up": asking("modern")}


@pytest.mark.parametrize("through", ["", "call_tool", "call_readonly_tool"])
@pytest.mark.parametrize(
    ("step", "answer"),
    [(FORM_STEP, ACCEPTED), (SAMPLING_STEP, SAMPLED), (ROOTS_STEP, ROOTED)],
    ids=["form", "sampling", "roots"],
)
async def test_a_question_reaches_the_client_and_the_call_is_repeated_with_its_answer(
    tmp_path: Path, step: Json, answer: Json, through: str
) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        line.answer = lambda question: {"result": answer}
        done = await line.result("tools/call", call_of(step, name="up__look", through=through, meta={}))
        assert answered(done) == [[answer]]
        assert "resultType" not in done or done["resultType"] == "complete"
        (question,) = line.questions
        assert {key: question[key] for key in ("method", "params")} == step["ask"][0]


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "up__ask"}), ("resources/read", {"uri": "ask:steps"})],
    ids=["prompt", "resource"],
)
async def test_prompts_and_resources_ask_too(tmp_path: Path, method: str, params: Json) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        line.answer = lambda question: {"result": ACCEPTED}
        await line.result("prompts/list")
        await line.result("resources/list")
        done = await line.result(method, params)
        said = done.get("messages") or done["contents"]
        assert json.loads((said[0].get("content") or said[0])["text"]) == [[ACCEPTED]]


async def test_several_questions_and_rounds_are_one_call_for_the_client(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        answers = {"elicitation/create": ACCEPTED, "sampling/createMessage": SAMPLED, "roots/list": ROOTED}
        line.answer = lambda question: {"result": answers[question["method"]]}
        both = {"ask": [*FORM_STEP["ask"], *SAMPLING_STEP["ask"]]}
        steps = (both, {"again": True}, {"progress": 3}, ROOTS_STEP)
        request = call_of(*steps, meta={"progressToken": "mine"})
        done = await line.result("tools/call", request)
        assert answered(done) == [[ACCEPTED, SAMPLED], [ROOTED]]
        assert (await line.noticed("notifications/progress"))["params"]["progressToken"] == "mine"


@pytest.mark.parametrize(
    ("version", "step", "can"),
    [
        ("2025-11-25", FORM_STEP, True),
        ("2025-11-25", URL_STEP, True),
        ("2025-06-18", FORM_STEP, True),
        ("2025-06-18", URL_STEP, False),
        ("2025-03-26", FORM_STEP, False),
        ("2025-03-26", SAMPLING_STEP, True),
    ],
)
async def test_each_version_is_asked_what_it_has_and_the_server_knows(
    tmp_path: Path, version: Client, step: Json, can: bool
) -> None:
    async with connected_hub(tmp_path, modern(), version, capabilities=EVERYTHING) as (_, line):
        line.answer = lambda question: {"result": SAMPLED if "messages" in question["params"] else ACCEPTED}
        answer = await line.request("tools/call", call_of(step, meta={}))
        assert ("result" in answer) is can
        assert len(line.questions) == can
        if not can:
            assert "cannot be asked" in answer["error"]["message"]
        told = json.loads(text(await line.call("up__told")))
        declared = told["io.modelcontextprotocol/clientCapabilities"]
        modes = {"2025-11-25": ["form", "url"], "2025-06-18": ["form"], "2025-03-26": []}[version]
        assert sorted(declared.get("elicitation", {})) == modes
        assert "sampling" in declared


async def test_a_url_has_the_id_that_the_older_era_needs(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        line.answer = lambda question: {"result": {"action": "accept"}}
        step = {"ask": [{"method": "elicitation/create", "params": MODERN_URL}]}
        await line.result("tools/call", call_of(step, meta={}))
        (question,) = line.questions
        given = dict(question["params"])
        assert given.pop("elicitationId")
        assert given == MODERN_URL


async def test_choices_are_written_as_2025_06_18_has_them(tmp_path: Path) -> None:
    choices = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
    form = {
        "mode": "form",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {"c": choices}},
    }
    several = {"type": "array", "items": {"type": "string", "enum": ["r", "g"]}}
    newer = form | {"requestedSchema": {"type": "object", "properties": {"c": several}}}
    async with connected_hub(tmp_path, modern(), "2025-06-18", capabilities=EVERYTHING) as (_, line):
        # Some clients answer with the name that the person chose.
        line.answer = lambda question: {"result": {"action": "accept", "content": {"c": "Green"}}}
        step = {"ask": [{"method": "elicitation/create", "params": form}]}
        answered = await line.result("tools/call", call_of(step, meta={}))
        assert '"g"' in json.dumps(answered).replace("\\", "")
        assert "Green" not in json.dumps(answered)
        (question,) = line.questions
        assert "mode" not in question["params"]
        part = question["params"]["requestedSchema"]["properties"]["c"]
        assert part == {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
        step = {"ask": [{"method": "elicitation/create", "params": newer}]}
        refused = await line.request("tools/call", call_of(step, meta={}))
        assert "version of the client cannot carry" in refused["error"]["message"]


async def test_an_error_of_the_client_is_a_dismissed_form_but_no_sampling(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        line.answer = lambda question: {"error": {"code": -1, "message": "I will not"}}
        done = await line.result("tools/call", call_of(FORM_STEP, meta={}))
        assert answered(done) == [[{"action": "cancel"}]]
        refused = await line.request("tools/call", call_of(SAMPLING_STEP, meta={}))
        assert "I will not" in refused["error"]["message"]


async def test_a_cancelled_call_takes_its_questions_back(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (here, line):
        line.begin("tools/call", call_of(FORM_STEP, meta={}), request_id="c")
        question = await line.questioned()
        assert len(here.hub.tools.questions.open) == 1
        line.notify("notifications/cancelled", {"requestId": "c"})
        cancelled = await line.noticed("notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]
        line.reply(question, {"result": ACCEPTED})
        await until(lambda: here.hub.status()["in_flight"] == 0, "nothing is in flight")
        assert len(here.hub.tools.questions.open) == 0


async def test_a_server_that_asks_without_end_is_an_error(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        line.answer = lambda question: {"result": ACCEPTED}
        answer = await line.request("tools/call", call_of(*[FORM_STEP] * 40, meta={}))
        assert "it asked 32 times" in answer["error"]["message"]
        assert len(line.questions) == 32


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"method": "tools/list", "params": {}}, "not a question"),
        ({"method": "elicitation/create", "params": {"mode": "other"}}, "mode"),
        ({"method": "elicitation/create", "params": {**FORM, "message": "x" * 300_000}}, "KiB"),
    ],
    ids=["method", "mode", "size"],
)
async def test_what_is_no_question_is_an_error_of_the_call(tmp_path: Path, question: Json, why: str) -> None:
    async with connected_hub(tmp_path, modern(), "2025-11-25", capabilities=EVERYTHING) as (_, line):
        answer = await line.request("tools/call", call_of({"ask": [question]}, meta={}))
        assert why in answer["error"]["message"]
        assert line.questions == []
