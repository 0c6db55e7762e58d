"""Members of call_tool that do not belong there: nothing is called, and the error shows the right form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.running_hub import Json, child, running_hub, text

STRAYS: list[tuple[Json, Json]] = [
    ({"args": {"n": 7}}, {"n": 7}),
    ({"parameters": {"n": 7}}, {"n": 7}),
    ({"input": '{"n": 7}'}, {"n": 7}),
    ({"Arguments": {"n": 7}}, {"n": 7}),
    ({"n": 7, "text": "a"}, {"n": 7, "text": "a"}),
    ({"arguments": {"a": 1}, "n": 7}, {"a": 1, "n": 7}),
    ({"arguments": {}, "params": {"n": 7}}, {"n": 7}),
    ({"arguments": [1], "n": 7}, {"n": 7}),
    ({"args": None}, {"args": None}),
    ({"max_tokens": 5}, {"max_tokens": 5}),
]


@pytest.mark.parametrize("by", ["call_tool", "call_readonly_tool"])
async def test_stray_members_are_shown_where_they_belong(tmp_path: Path, by: str) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        await line.call("search_tools", query="echo")
        for given, meant in STRAYS:
            answer = await line.call(by, name="up__echo", **given)
            assert answer["isError"], given
            said = text(answer)
            assert "nothing was called" in said
            form = said.partition("again with: ")[2]
            assert json.loads(form) == {"name": "up__echo", "arguments": meant}
        assert sum(instance.vitals.calls for instance in here.hub.gateway.instances("up")) == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ('{"n": 7}', {"n": 7}),
        ("{}", {}),
        (None, {}),
        ({"name": "x", "arguments": {}}, {"name": "x", "arguments": {}}),
    ],
)
async def test_arguments_may_be_the_text_of_an_object(tmp_path: Path, given: Any, meant: Json) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        answer = await line.call("call_tool", name="up__echo", arguments=given)
        assert json.loads(text(answer)) == meant


@pytest.mark.parametrize("given", ["n=7", "[1]", "7", 7, [1], True])
async def test_other_arguments_are_an_error(tmp_path: Path, given: Any) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        answer = await line.call("call_tool", name="up__echo", arguments=given)
        assert answer["isError"]
        assert "object" in text(answer)


OWN: list[tuple[str, Json]] = [
    ("search_tools", {"query": "echo"}),
    ("describe_tools", {"names": ["up__echo"]}),
    ("read_more", {"handle": "x"}),
    ("search_everything", {"query": "echo"}),
    ("read_url_content", {"url": "http://127.0.0.1:9/"}),
    ("put_document", {"filepath": "a", "text": "b"}),
    ("list_documents", {}),
]


async def test_other_own_tools_refuse_unknown_members_too(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        for name, arguments in OWN:
            answer = await line.request("tools/call", {"name": name, "arguments": {**arguments, "zzz": 1}})
            assert "zzz" in json.dumps(answer), name
            assert "error" in answer or answer["result"].get("isError"), name
