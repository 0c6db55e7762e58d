"""Servers that ask far more than anybody can answer: they are refused, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, connected_hub, running_hub
from tests.hub.clients.questions.asking import (
    ACCEPTED,
    FORM,
    FORM_STEP,
    answered,
    answers_to,
    asked_once,
    asking,
    call_of,
)

COUNT = 1000
QUESTION: Json = {"method": "elicitation/create", "params": FORM}


def listed(here: RunningHub) -> int:
    return len(here.hub.tools.questions.open)


@pytest.mark.parametrize("same", [False, True], ids=["each with an id", "all with one id"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("to_page", [False, True], ids=["client", "page"])
async def test_a_thousand_questions_end_with_their_call(
    tmp_path: Path, version: Any, same: bool, to_page: bool
) -> None:
    question = {**QUESTION, "id": "same"} if same else QUESTION
    flood: Json = {"flood": COUNT, "question": question}
    async with running_hub(tmp_path, {"up": asking()}, questions_to_page=to_page) as here:
        capabilities: Json = {} if to_page else {"elicitation": {"form": {}}}
        line = await here.connect(version, mode="full", capabilities=capabilities)
        meta = {"io.modelcontextprotocol/clientCapabilities": capabilities} if line.modern else {}
        # The call goes on until its server ends: nobody answers what it asks last.
        line.begin("tools/call", call_of(flood, FORM_STEP, meta=meta))
        await until(lambda: listed(here), "the questions came")
        await here.hub.gateway.stop("up")
        await until(lambda: not listed(here), "the questions are gone")


async def test_answers_with_a_million_members_are_refused_before_they_are_read(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28") as (_, line):
        request = call_of(FORM_STEP)
        asked = await asked_once(line, request)
        given = {f"k{number}": 0 for number in range(100_000)}
        state = {"requestState": asked["requestState"]}
        refused = await line.request("tools/call", {**request, **state, "inputResponses": given})
        assert refused["error"]["code"] == -32602
        assert "too many members" in refused["error"]["message"]
        done = await line.result("tools/call", request | answers_to(asked, ACCEPTED))
        assert answered(done) == [[ACCEPTED]]
