"""Calls of modern clients that fail because the client cannot be asked what a legacy server wants to know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.http_hub import http_peer, request
from tests.harness.running_hub import Json, connected_hub
from tests.hub.clients.questions.asking import (  # fmt: skip
    ACCEPTED,
    FORM_STEP,
    SAMPLING,
    SAMPLING_STEP,
    URL_STEP,
    able,
    answered,
    answers_to,
    asked_once,
    asking,
    call_of,
)

FAILS: Json = {"error": {"code": -32603, "message": "no model to ask", "data": 1}}
MISSING = -32021
WITH_TOOLS: Json = {
    "ask": [
        {
            "method": "sampling/createMessage",
            "params": {**SAMPLING, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        }
    ]
}


@pytest.mark.parametrize(
    ("step", "able_to", "required"),
    [
        (SAMPLING_STEP, {"elicitation": {}}, {"sampling": {}}),
        (FORM_STEP, {"sampling": {}}, {"elicitation": {"form": {}}}),
        (URL_STEP, {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
        (WITH_TOOLS, {"sampling": {}}, {"sampling": {"tools": {}}}),
    ],
    ids=["sampling", "form", "url", "tools"],
)
async def test_the_error_of_a_call_names_the_capability_that_the_client_lacks(
    tmp_path: Path, step: Json, able_to: Json, required: Json
) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28") as (_, line):
        error = (await line.request("tools/call", call_of(step, FAILS, meta=able(**able_to))))["error"]
        assert error["code"] == MISSING
        assert error["data"] == {"requiredCapabilities": required}
        assert "no model to ask" in error["message"]


async def test_a_server_that_goes_on_without_an_answer_gives_its_result(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28") as (_, line):
        done = await line.result("tools/call", call_of(SAMPLING_STEP, meta=able(elicitation={})))
        ((refusal,),) = answered(done)
        assert "no capability for it (sampling)" in refusal["message"]


async def test_an_error_passes_unchanged_if_no_question_was_refused(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28") as (_, line):
        request = call_of(FORM_STEP, FAILS)
        asked = await asked_once(line, request)
        failed = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert failed["error"] == FAILS["error"]


async def test_only_what_the_client_declared_is_asked_also_in_later_rounds(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28") as (_, line):
        both = {"ask": [*FORM_STEP["ask"], *SAMPLING_STEP["ask"]]}
        request = call_of(both, FORM_STEP, FAILS, meta=able(elicitation={}))
        asked = await asked_once(line, request)
        (question,) = asked["inputRequests"].values()
        assert question["method"] == "elicitation/create"
        asked = await asked_once(line, request | answers_to(asked, ACCEPTED))
        failed = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
        assert failed["error"]["code"] == MISSING
        assert failed["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


async def test_over_http_its_status_is_400(tmp_path: Path) -> None:
    async with http_peer(tmp_path, {"up": asking()}) as (_, peer):
        asks = request("tools/call", call_of(SAMPLING_STEP, FAILS, meta=able(elicitation={})))
        headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "up__ask"}
        answer = await peer.post(asks, accept="application/json", **headers)  # never a stream
        assert (answer.status, answer.code) == (400, MISSING)
