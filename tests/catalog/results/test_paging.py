"""Long results come in parts that read well, and the parts together are the result."""

from __future__ import annotations

import gc
import itertools
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.catalog.long_results import KeptDocument
from tabane.catalog.result_parts import (
    ROOM_FOR_NOTE,
    PartStart,
    ResultPart,
    TextPosition,
    first_result,
    further_result,
    is_json,
    next_break,
    omits_structure,
    part_at,
    path,
    read_long,
    start_label,
)
from tests.harness.patience import assert_in_proportion

BUDGET = 1_000
TEXT_OF_PART = BUDGET * 4 - ROOM_FOR_NOTE


def parts_of(text: str, limit: int) -> list[str]:
    """A text cut to the end."""
    data, place, parts = text.encode("utf-8", "surrogatepass"), TextPosition(), []
    of_json = is_json(data)
    while place.at < len(data):
        following = next_break(data, place, limit, of_json=of_json)
        assert place.at < following.at <= place.at + limit
        parts.append(data[place.at : following.at].decode("utf-8", "surrogatepass"))
        place = following
    return parts


def result(*content: Any, **members: Any) -> bytes:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    escaped = "😀" in "".join(block for block in content if isinstance(block, str))
    return json.dumps({"content": blocks, **members}, ensure_ascii=escaped).encode()


def every_part(given: bytes) -> list[ResultPart]:
    long = read_long(given, BUDGET)
    assert long is not None
    parts = [part_at(long, PartStart())]
    while not parts[-1].last:
        parts.append(part_at(long.to_keep(), parts[-1].end))
    return parts


def text_in(part: ResultPart) -> str:
    return "".join(json.loads(block).get("text", "") for block in part.blocks)


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


# -- where a text is cut -----------------------------------------------------------------------------


@given(st.text(), st.integers(16, 200))
def test_the_parts_of_any_text_are_the_text(text: str, limit: int) -> None:
    assert "".join(parts_of(text, limit)) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=60,
)


@pytest.mark.heavy("real servers as processes")
@given(
    st.lists(json_values, min_size=1) | st.dictionaries(st.text(max_size=8), json_values, min_size=1),
    st.integers(16, 200),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_the_parts_of_any_json_are_the_text_and_cut_no_escape(
    value: Any, limit: int, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    parts = parts_of(text, limit)
    assert "".join(parts) == text
    for end in (len("".join(parts[:count])) for count in range(1, len(parts))):
        # An escape that was cut leaves its backslash odd at the end of the part.
        before = text[:end]
        assert (len(before) - len(before.rstrip("\\"))) % 2 == 0


def test_a_text_is_cut_after_lines() -> None:
    text = "".join(f"{number} some line of text\n" for number in range(500))
    assert all(part.endswith("\n") for part in parts_of(text, 1_000))


def test_a_long_line_is_cut_after_words_and_sentences() -> None:
    english = parts_of("word " * 1_000, 500)
    assert all(part.endswith(" ") for part in english)
    japanese = parts_of("吾輩は猫である。名前はまだ無い。" * 100, 500)
    assert all(part.endswith("。") for part in japanese)


def test_what_has_no_border_is_cut_anywhere_and_fills_its_parts() -> None:
    assert [len(part) for part in parts_of("x" * 2_500, 1_000)] == [1_000, 1_000, 500]
    assert [len(part) for part in parts_of("束" * 1_000, 1_000)] == [333, 333, 333, 1]


def test_json_is_cut_between_the_elements_of_its_outermost_array() -> None:
    rows = [{"id": number, "name": "名前", "tags": [1, 2, 3]} for number in range(300)]
    for indent in (None, 2):
        parts = parts_of(json.dumps(rows, indent=indent, ensure_ascii=False), 2_000)
        given: list[Any] = []
        for part in parts:
            given += json.loads("[" + part.strip().removeprefix("[").removesuffix("]").rstrip(",") + "]")
        assert given == rows


def test_json_is_cut_between_grandchildren_where_a_child_is_too_long() -> None:
    text = json.dumps({"total": 300, "results": [{"id": number, "x": "y" * 20} for number in range(300)]})
    data, place, seen = text.encode(), TextPosition(), []
    while (place := next_break(data, place, 1_000, of_json=True)).at < len(data):
        seen.append(path(data, place))
        assert data[: place.at].rstrip().endswith(b"},")
        assert data[place.at :].lstrip().startswith(b'{"id": %d,' % int(seen[-1][8:-1]))
    assert len(seen) > 5
    assert all(name.startswith("results[") for name in seen)


def test_the_keys_of_an_object_are_places() -> None:
    value = {f"k{number}": {"deep": [0] * 30} for number in range(40)}
    data = json.dumps(value).encode()
    place = next_break(data, TextPosition(), 1_000, of_json=True)
    assert data[place.at :].startswith(b'"%s"' % path(data, place).encode())


def test_a_string_in_json_is_cut_at_its_own_lines() -> None:
    text = json.dumps({"file": "a line of a file\n" * 400, "after": 1})
    parts = parts_of(text, 1_000)
    assert all(part.endswith("\\n") for part in parts[:-1])
    assert path(text.encode(), next_break(text.encode(), TextPosition(), 1_000, of_json=True)) == "file"


@pytest.mark.parametrize("offset", range(14))
def test_escaped_surrogate_pairs_stay_together(offset: int) -> None:
    text = json.dumps(["x" * offset + "🎋" * 200])
    for part in parts_of(text, 100):
        assert json.loads('"' + part.strip('[]"') + '"').encode()


def test_what_only_looks_like_json_is_cut_by_lines() -> None:
    log = "".join(f"[{number}] started, done\n" for number in range(500))
    assert all(part.endswith("\n") for part in parts_of(log, 1_000))


def test_nesting_without_end_is_cut_in_reasonable_time() -> None:
    assert_in_proportion(lambda size: parts_of("[" * 400 + "1," * size + "1" + "]" * 400, 4_000), 5_000)
    assert_in_proportion(lambda size: parts_of("[" * size, 4_000), 12_000)


# -- results -----------------------------------------------------------------------------------------


def test_what_fits_is_no_long_result() -> None:
    assert read_long(result("x" * 4_000), BUDGET) is None
    assert read_long(result({"type": "image", "data": "x" * 9_000, "mimeType": "image/png"}), BUDGET) is None
    assert read_long(result("short", structuredContent={"x": "y" * 9_000}), BUDGET) is None
    assert read_long(b'{"contents": "' + b"x" * 9_000 + b'"}', BUDGET) is None
    assert read_long(b'{"content": ["' + b"x" * 9_000 + b'"]}', BUDGET) is None
    # Escapes make the JSON longer than the text.
    assert (
        read_long(json.dumps({"content": [{"type": "text", "text": "束" * 1_000}]}).encode(), BUDGET) is None
    )


@given(
    st.lists(st.integers(0, 9_000), min_size=1, max_size=6),
    st.sampled_from(["x", "a line\n", "束。", "😀"]),
)
def test_the_text_of_all_parts_is_the_text_of_the_result(lengths: list[int], unit: str) -> None:
    texts = [unit * (length // len(unit)) for length in lengths]
    given = result(*texts)
    if read_long(given, BUDGET) is None:
        assert sum(map(size, texts)) <= BUDGET * 4 or len(given) <= BUDGET * 4
        return
    parts = every_part(given)
    assert "".join(map(text_in, parts)) == "".join(texts)
    assert all(size(text_in(part)) <= TEXT_OF_PART for part in parts)
    ends = [part.end.given for part in parts]
    assert ends == sorted(ends)
    assert ends[-1] == size("".join(texts))


def test_parts_are_well_filled() -> None:
    parts = every_part(result("a line of text\n" * 10_000))
    assert all(size(text_in(part)) > 0.9 * TEXT_OF_PART for part in parts[:-1])


def test_everything_but_text_comes_with_the_first_part_in_its_place() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png", "x-unknown": [1]}
    link = {"type": "resource_link", "uri": "memo://1", "name": "n"}
    long = read_long(result(image, "a\n" * 5_000, link, "b\n" * 100), BUDGET)
    assert long is not None
    first = part_at(long, PartStart())
    assert [json.loads(block)["type"] for block in first.blocks] == ["image", "text", "resource_link"]
    assert json.loads(first.blocks[0]) == image
    for part in every_part(result(image, "a\n" * 5_000, link, "b\n" * 100))[1:]:
        assert {json.loads(block)["type"] for block in part.blocks} == {"text"}


def test_members_of_the_result_and_of_its_blocks_are_kept() -> None:
    block = {"type": "text", "text": "a line\n" * 1_000, "annotations": {"priority": 1}, "x": None}
    given = result(
        block, isError=True, _meta={"a.b/c": 1}, structuredContent={"n": 12345678901234567890}, y=[1]
    )
    long = read_long(given, BUDGET)
    assert long is not None
    part = part_at(long, PartStart())
    first = json.loads(first_result(long, part, "note", {"part": 1}))
    assert first["isError"] is True
    assert first["y"] == [1]
    assert first["structuredContent"] == {"n": 12345678901234567890}
    assert first["_meta"] == {"a.b/c": 1, "io.github.tabane/part": {"part": 1}}
    assert {key: first["content"][0][key] for key in ("annotations", "x")} == {
        "annotations": {"priority": 1},
        "x": None,
    }
    assert first["content"][-1] == {"type": "text", "text": "note"}
    kept = long.to_keep()
    second = json.loads(further_result(kept, part_at(kept, part.end), "note", {"part": 2}))
    assert set(second) == {"content", "isError", "_meta"}
    assert second["isError"] is True


def test_structured_content_that_passes_the_budget_alone_is_left_out() -> None:
    long = read_long(result("a\n" * 5_000, structuredContent={"x": "y" * 4_000}), BUDGET)
    assert long is not None
    assert omits_structure(long)
    assert "structuredContent" not in json.loads(first_result(long, part_at(long, PartStart()), "", {}))


def test_a_part_says_what_it_goes_on_with() -> None:
    long = read_long(result(json.dumps([{"n": number} for number in range(2_000)])), BUDGET)
    assert long is not None
    points = [part_at(long, PartStart()).end]
    points.append(part_at(long, points[0]).end)
    names = [start_label(long, point) for point in points]
    assert all(first < second for first, second in pairwise(int(name.strip("[]")) for name in names))
    plain = read_long(result("x" * 5_000), BUDGET)
    assert plain is not None
    assert start_label(plain, part_at(plain, PartStart()).end) == ""


def test_what_is_kept_of_a_result_does_not_hold_on_to_it() -> None:
    long = read_long(result("a\n" * 5_000, {"type": "image", "data": "x" * 100_000}), BUDGET)
    assert long is not None
    kept = long.to_keep()
    assert kept.size == 10_000
    assert all(not isinstance(block, Raw) or bytes(block) == b"" for block in kept.content)


def test_a_hundred_thousand_blocks_are_kept_in_short_steps_and_little_memory(tmp_path: Path) -> None:
    steps = itertools.count()

    def step() -> None:
        next(steps)

    given = result(*["x" * 16] * 100_000)
    long = read_long(given, BUDGET, step)
    assert long is not None
    assert not any(map(gc.is_tracked, long.content))  # a collection would look at all of them at once
    document = KeptDocument(long, tmp_path, None, step)
    again = document.long(step)
    part_at(again, part_at(again, PartStart()).end, step)
    assert again.content == long.content
    assert next(steps) >= 4 * 100_000
    assert len({id(block) for block in document.long().to_keep().without_texts().content}) == 1
