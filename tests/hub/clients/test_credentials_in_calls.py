"""Credentials in calls over a real hub and a real server: recorded, or replaced in both directions."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import run
from tests.harness.running_hub import child, connected_hub
from tests.hub.clients.questions.asking import FORM_STEP, answered, answers_to, asked_once, asking, call_of

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"


def echoed(tmp_path: Path, text: str, server: dict[str, Any] | None = None, **settings: Any) -> str:
    """What a client gets when it sends a text to a server that echoes it."""

    got: list[str] = []

    async def scenario() -> None:
        async with connected_hub(tmp_path, {"c": {**child(), **(server or {})}}, **settings) as (_, client):
            answer = await client.request("tools/call", {"name": "c__echo", "arguments": {"text": text}})
            got.append(json.dumps(answer["result"]))

    run(scenario)
    return got[0]


@pytest.mark.parametrize("padding", [0, 100_000])
def test_credentials_are_replaced_in_both_directions(tmp_path: Path, padding: int) -> None:
    got = echoed(tmp_path, "a " * (padding // 2) + TOKEN, credentials_in_calls="redact")
    assert TOKEN not in got
    assert "[redacted:github-token]" in got


def test_a_warning_names_the_kind_and_never_the_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert TOKEN in echoed(tmp_path, TOKEN)
    assert "github-token" in caplog.text
    assert TOKEN not in caplog.text


def test_nothing_is_scanned_if_it_is_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert TOKEN in echoed(tmp_path, TOKEN, credentials_in_calls="off")
    assert "github-token" not in caplog.text


def test_a_server_can_have_a_setting_of_its_own(tmp_path: Path) -> None:
    assert TOKEN in echoed(tmp_path, TOKEN, {"credentials": "off"}, credentials_in_calls="redact")


async def test_the_answer_to_a_call_that_was_parked_is_screened_too(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28", credentials_in_calls="redact") as (
        _,
        client,
    ):
        request = call_of(FORM_STEP)
        asked = await asked_once(client, request)
        given = {"action": "accept", "content": {"name": TOKEN}}
        done = await client.result("tools/call", request | answers_to(asked, given))
        assert answered(done) == [[{"action": "accept", "content": {"name": "[redacted:github-token]"}}]]
