"""Results of a model, in both file formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabane.errors import BadArguments
from tabane.posts.importing.import_report import RejectedRow
from tabane.posts.importing.model_results import ModelResult, ModelResults
from tests.posts.importing.archives import write_results

OWN = {"key": 12, "reasoning": "why", "summary": "what", "tags": ["a", " b ", ""]}
WANTED = ModelResult("why", "what", ("a", "b"))


def gemini(text: str, **more: object) -> dict[str, object]:
    parts = [{"text": "thinking", "thought": True}, {"text": text}]
    return {
        "key": "12",
        "response": {"candidates": [{"content": {"parts": parts}}], "usageMetadata": {}},
        **more,
    }


@pytest.mark.parametrize(
    "line",
    [
        OWN,
        OWN | {"key": "12"},
        gemini(json.dumps(OWN)),
        gemini("```json\n" + json.dumps(OWN, indent=1) + "\n```\n"),
        gemini(json.dumps({name: OWN[name] for name in ("reasoning", "summary", "tags")})),
    ],
)
def test_a_result_is_found_by_its_id(tmp_path: Path, line: dict[str, object]) -> None:
    results = ModelResults((write_results(tmp_path / "r.jsonl", [OWN | {"key": 3}, line, OWN | {"key": 4}]),))
    assert list(results.index(0)) == [3, 12, 4]
    assert results.of(12) == WANTED
    assert results.of(13) is None


def test_the_last_line_about_a_post_counts_whichever_file_it_is_in(tmp_path: Path) -> None:
    first = write_results(tmp_path / "1.jsonl", [OWN, OWN | {"summary": "second"}])
    second = write_results(
        tmp_path / "2.jsonl", [OWN | {"summary": "third", "key": 5}, OWN | {"summary": "fourth"}]
    )
    results = ModelResults((first, second))
    assert [list(results.index(number)) for number in range(2)] == [[12, 12], [5, 12]]
    found = results.of(12)
    assert found is not None
    assert found.summary == "fourth"
    assert results.number(12) == 1


def test_bad_lines_are_told_and_passed_over(tmp_path: Path) -> None:
    lines = [
        json.dumps(OWN),
        "{",
        "[]",
        json.dumps(OWN | {"key": "abc"}),
        json.dumps(OWN | {"tags": "a, b"}),
        json.dumps({"key": 1}),
        json.dumps({"key": "2", "response": {"promptFeedback": {"blockReason": "SAFETY"}}}),
        json.dumps({"key": "3", "error": {"code": 500}}),
        json.dumps(gemini("no json")),
        json.dumps(gemini("")),
        json.dumps({"key": "4", "response": {"candidates": []}}),
        '{"key":5,"summary":"' + "x" * 2_000_000 + '"}',
        "",
        json.dumps(OWN | {"key": 6}),
    ]
    (path := tmp_path / "r.jsonl").write_text("\n".join(lines))
    results = ModelResults((str(path),))
    found = list(results.index(0))
    assert [each for each in found if isinstance(each, int)] == [12, 6]
    bad = {each.line: str(each.reason) for each in found if isinstance(each, RejectedRow)}
    assert sorted(bad) == list(range(2, 13))
    assert bad[7] == "the model refused it: SAFETY"
    assert bad[5] == "tags is not a list of texts"
    assert results.of(6) == WANTED
    assert results.done == path.stat().st_size


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\0\0", b'{"key":1,"request":{"contents":[]}}\n', b'{"a":1}\n']
)
def test_another_file_is_one_error_at_once(tmp_path: Path, content: bytes) -> None:
    (path := tmp_path / "r.jsonl").write_bytes(content)
    with pytest.raises(BadArguments, match="has no results"):
        ModelResults((str(path),))
