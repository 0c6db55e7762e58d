"""Results of tools as values."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from tabane.code.script_values import ToolFailed, tool_value
from tabane.wire import json


def result(*texts: str, **members: Any) -> Raw:
    content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    return Raw(json.encode({"content": content, **members}))


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (result("plain"), "plain"),
        (result(' {"a": [1]}'), {"a": [1]}),
        (result("[1, 2]"), [1, 2]),
        (result("5"), "5"),
        (result("[{'name': \"it's\", 'n': None, 'ok': True}]"), [{"name": "it's", "n": None, "ok": True}]),
        (result("['a'] and more"), "['a'] and more"),
        (result("{'a': open('file')}"), "{'a': open('file')}"),
        (result("[" * 9_000 + "'"), "[" * 9_000 + "'"),
        (result("{broken"), "{broken"),
        (result("a", "[1]"), ["a", [1]]),
        (result(), None),
        (result("text", structuredContent={"result": [1]}), {"result": [1]}),
    ],
)
def test_a_result_becomes_a_value(given: Raw, value: Any) -> None:
    assert tool_value(given) == value


def test_a_wrapped_result_is_unwrapped() -> None:
    assert tool_value(result("x", structuredContent={"result": [1]}), wrapped=True) == [1]
    assert tool_value(result("x", structuredContent={"result": 1, "b": 2}), wrapped=True) == {
        "result": 1,
        "b": 2,
    }


def test_a_failure_is_an_exception_with_the_text_of_the_tool() -> None:
    with pytest.raises(ToolFailed, match=r"no such issue\nlook again"):
        tool_value(result("no such issue", "look again", isError=True))


def test_an_unreadable_result_is_a_failure() -> None:
    with pytest.raises(ToolFailed, match="not readable"):
        tool_value(Raw(b'{"content": 5'))


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    assert tool_value(Raw(b'{"content": [{"type": "text", "text": "a\\ud83d!"}]}')) == "a\ufffd!"
    assert tool_value(Raw(b'{"structuredContent": {"\\uD83D": ["\\ud83d"]}}')) == {"\ufffd": ["\ufffd"]}
