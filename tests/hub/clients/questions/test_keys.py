"""Keys of the questions of legacy servers: a server's own string id, or one that the hub makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tabane.hub.clients.questions.parking import LONGEST_KEY, given_key, own_key
from tests.harness.running_hub import Json, connected_hub
from tests.hub.clients.questions.asking import FORM, answered, answers_to, asked_once, asking, call_of


def asked_as(*ids: Any) -> Json:
    """A step that asks one form under each of these ids at once."""
    return {"ask": [{"id": id, "method": "elicitation/create", "params": FORM} for id in ids]}


def named(name: str) -> Json:
    return {"action": "accept", "content": {"name": name}}


async def test_a_string_id_is_the_key_and_other_ids_get_one_of_the_hub(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": asking()}, "2026-07-28") as (_, line):
        request = call_of(asked_as("user_name", 7, "question-1", "x" * (LONGEST_KEY + 1), "名前"))
        asked = await asked_once(line, request)
        assert set(asked["inputRequests"]) == {
            "user_name", "question-2", "question-3", "question-4", "名前"
        }  # fmt: skip
        answers = {key: named(key) for key in asked["inputRequests"]}
        again = {"inputResponses": answers, "requestState": asked["requestState"]}
        done = await line.result("tools/call", request | again)
        keys = ["user_name", "question-2", "question-3", "question-4", "名前"]
        assert answered(done) == [[named(key) for key in keys]]


async def test_calls_at_the_same_time_may_have_the_same_keys(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {name: asking() for name in ("one", "two")}, "2026-07-28") as (
        _,
        line,
    ):
        requests = [call_of(asked_as("user_name"), name=f"{name}__ask") for name in ("one", "two")]
        asked = [await asked_once(line, request) for request in requests]
        for request, each, name in zip(requests, asked, ("花", "凛"), strict=True):
            assert list(each["inputRequests"]) == ["user_name"]
            done = await line.result("tools/call", request | answers_to(each, named(name)))
            assert answered(done) == [[named(name)]]


@given(st.text())
def test_a_key_is_the_id_itself_and_never_one_of_the_hub(id: str) -> None:
    for written in (json.dumps(id), json.dumps(id, ensure_ascii=False)):
        key = given_key(written.encode("utf-8", "surrogatepass"))
        usable = id.isprintable() and 0 < len(id) <= LONGEST_KEY
        assert key == (id if usable else None)
    assert given_key(json.dumps(own_key(len(id))).encode()) is None


@given(st.integers() | st.none() | st.binary())
def test_what_is_no_string_is_no_key(id: int | bytes | None) -> None:
    written = id if isinstance(id, bytes) else json.dumps(id).encode()
    if not written.startswith(b'"'):
        assert given_key(written) is None
    else:
        given_key(written)  # of any bytes: no exception
