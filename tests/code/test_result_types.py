"""Types that are learned from results: what they accept, and what of the results they keep."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.code.result_types import (
    ALL,
    MOST_BYTES,
    MOST_NODES,
    MOST_TOOLS,
    RAREST,
    LearnedType,
    LearnedTypes,
    ResultShape,
    ToolKey,
    bounded,
    may_be_data,
    node_count,
    read_types,
    schema_of,
    settled,
    shape_of,
    union,
)

KEY = ToolKey("local", "up__list", "up", "digest")

NAMES = st.sampled_from(["id", "name", "items", "count", "2024-05-06", "a@b.example", "naïve"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


def learned(*values: Any, key: ToolKey = KEY) -> LearnedType:
    """What is known after these results; those that are equal have the same content."""
    found = LearnedType(key)
    for value in values:
        content = hash(json.dumps(value))
        found.learn(found.observed(value, content), content)
    return found


def accepts(schema: dict[str, Any] | None, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema or {}).is_valid(value)


@given(st.lists(VALUES, min_size=2, max_size=6))
def test_a_learned_type_accepts_every_result_that_was_seen(values: list[Any]) -> None:
    schema = learned(*values).schema
    assert all(accepts(schema, value) for value in values)


@given(VALUES, VALUES, VALUES, st.lists(VALUES, min_size=3, max_size=3))
def test_the_order_of_results_does_not_matter(one: Any, two: Any, three: Any, others: list[Any]) -> None:
    a, b, c = (shape_of(value, number) for number, value in enumerate((one, two, three)))
    found = [schema_of(settled(each)) for each in (union(union(a, b), c), union(a, union(b, c)))]
    found += [schema_of(settled(each)) for each in (union(union(c, b), a), union(b, union(c, a)))]
    for value in (one, two, three, *others):
        assert len({accepts(schema, value) for schema in found}) == 1


@pytest.mark.heavy("real sandboxes")
@given(st.lists(st.dictionaries(st.from_regex(r"k[a-z]{5}", fullmatch=True), VALUES), max_size=4))
@example([{"konceonly": "vvvvvv"}, {"ktwice": 1, "x": "vvvvvv"}, {"ktwice": 2}])
def test_names_of_one_result_and_values_are_not_stored(values: list[dict[str, Any]]) -> None:
    # Values are marked, so that they can be told from what the line has itself.
    marked = [{**value, "secret": f"value-{number}-qqq"} for number, value in enumerate(values)]
    line = learned(*marked).line() or b""
    assert b"qqq" not in line
    for name in {name for value in values for name in value}:
        if sum(name in value for value in values) < 2:
            assert f'"{name}"'.encode() not in line


@given(st.lists(VALUES, min_size=2, max_size=5))
def test_what_was_stored_says_the_same(values: list[Any]) -> None:
    found = learned(*values)
    line = found.line()
    assert line is not None
    (again,), faults = read_types([line])
    assert (again.key, again.results, faults) == (KEY, len(values), 0)
    assert again.schema == found.schema


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"holder":1}', b"[" * 5_000, b"x" * (3 * MOST_BYTES)])
def test_a_line_that_is_none_is_left_out(line: bytes) -> None:
    good = learned({"a": [1]}, {"a": [2], "b": ""}).line() or b""
    found, faults = read_types([line, good])
    assert [each.key for each in found] == [KEY]
    assert faults == 1


@pytest.mark.parametrize(
    "shape",
    ["[64,1,{}]", "[64,-1,{},null,null,false]", '[64,1,{"a b":[1,4]},null,null,false]', '"x"', "null", "1.5"],
)
def test_a_shape_that_is_none_is_left_out(shape: str) -> None:
    line = f'{{"holder":"a","tool":"b","server":"c","digest":"d","results":3,"shape":{shape}}}'
    assert read_types([line.encode()]) == ([], 1)


def test_optional_and_nullable_are_different() -> None:
    schema = learned({"id": 1, "at": None}, {"id": 2, "at": "now", "by": "me"}, {"id": 3, "at": "", "by": ""})
    assert schema.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": ["string", "null"]},
            "by": {"type": "string"},
        },
        "required": ["id", "at"],
    }


@pytest.mark.parametrize(
    "results",
    [
        [{"2024-05-01": 1, "2024-05-02": 2}, {"2024-05-03": 3}],
        [{"src/main.py": 1}, {"src/main.py": 2}],
        [{"ann": 1, "bob": 2, "cy": 3}, {"dan": 1, "eve": 2, "fay": 3}],
        [{"ann": 1, "bob": 2}, {"ann": 1, "bob": 2}, {"ann": 1, "bob": 2}],
        [{f"n{chr(97 + i)}": i for i in range(each, each + 5)} for each in range(0, 20, 3)],
        [{f"wide_{chr(97 + i % 26)}{chr(97 + i // 26)}": i for i in range(90)}] * 2,
    ],
)
def test_keys_that_are_data_are_the_keys_of_a_map(results: list[Any]) -> None:
    found = learned(*results)
    assert found.schema == {"type": "object", "additionalProperties": {"type": "integer"}}
    names = {name for result in results for name in result}
    assert not any(f'"{name}"'.encode() in (found.line() or b"") for name in names)


def test_a_map_of_objects_has_the_type_of_its_values() -> None:
    entry = {"size": 1, "kind": "file"}
    found = learned({"ann": entry, "bob": entry, "cy": entry}, {"ann": entry, "bob": entry, "eve": entry})
    schema = found.schema or {}
    assert "properties" not in schema
    assert schema["additionalProperties"]["required"] == ["size", "kind"]


def test_a_repeated_result_shows_names_if_its_values_differ_in_kind() -> None:
    result = {"tables": [{"name": "a", "rows": 3}], "count": 1}
    schema = learned(result, result).schema or {}
    assert list(schema["properties"]) == ["tables", "count"]
    assert list(schema["properties"]["tables"]["items"]["properties"]) == ["name", "rows"]


def test_one_result_is_not_enough() -> None:
    assert learned({"id": 1}).schema is None


@pytest.mark.parametrize(
    "name",
    [
        *("", "two words", "2024-05-06", "ABC-12", "9lives", "src/a.py", "a.example", "x@y", "n" * 60),
        *("deadbeef01", "3f2b9c1a-77aa-4f5e-8f6e-000000000000", "user:7", "line\nbreak", "id20240506"),
    ],
)
def test_a_name_that_may_be_data(name: str) -> None:
    assert may_be_data(name)


@pytest.mark.parametrize(
    "name", ["id", "created_at", "@type", "$schema", "content-type", "md5", "名前", "x1"]
)
def test_a_name_of_a_property(name: str) -> None:
    assert not may_be_data(name)


def wide(depth: int) -> Any:
    return {f"p{chr(97 + i)}": wide(depth - 1) if i else "" for i in range(8)} if depth else 1


def test_a_large_type_is_cut_where_it_is_deep() -> None:
    found = learned(wide(5), wide(5))
    line = found.line() or b""
    assert len(line) <= MOST_BYTES + 1
    assert list((found.schema or {})["properties"]) == list(wide(1))


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 12))
def test_a_bounded_shape_accepts_more(values: list[Any], most: int) -> None:
    whole = ResultShape()
    for number, value in enumerate(values):
        whole = union(whole, shape_of(value, number))
    cut = bounded(whole, most)
    assert node_count(cut) <= max(1, most)
    assert all(accepts(schema_of(settled(cut)), value) for value in values)


def test_of_a_large_result_a_part_is_looked_at() -> None:
    class Counted(list[Any]):
        looked = 0

        def __getitem__(self, place: Any) -> Any:
            self.looked += 1
            return super().__getitem__(place)

    rows = Counted({"id": number, "name": "x"} for number in range(20_000))
    found = learned(rows, Counted(rows))
    assert rows.looked < 100
    assert (found.schema or {})["items"]["required"] == ["id", "name"]
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    assert node_count(shape_of(deep, 1)) <= MOST_NODES


def test_results_that_show_nothing_new_are_looked_at_less_and_less() -> None:
    found, looked = LearnedType(KEY), list[int]()
    for call in range(4 * RAREST):
        if found.is_due():
            looked.append(call)
            found.learn(found.observed({"id": 1, "of": "x"}, 7), 7)
    assert looked[:ALL] == list(range(ALL))
    assert len(looked) < ALL + 16
    # Something new is followed by a closer look.
    found.learn(found.observed({"id": None, "of": "x"}, 8), 8)
    assert found.is_due()


def test_a_changed_definition_and_another_caller_start_afresh() -> None:
    types = LearnedTypes()
    for number in range(2):
        known = types.of_call(KEY)
        types.learn(known, known.observed({"id": number}, number), number)
    assert types.of_call(KEY).schema is not None
    other = KEY._replace(holder="key:abc")
    assert types.find(other) is None
    assert types.of_call(other).schema is None
    changed = KEY._replace(digest="another")
    assert types.of_call(changed).schema is None
    assert types.find(KEY) is None


def test_what_is_forgotten_is_not_learned_late() -> None:
    types = LearnedTypes()
    known = types.of_call(KEY)
    shape = known.observed({"id": 1}, 1)
    types.learn(known, shape, 1)
    assert types.forget("another") == 0
    assert types.forget("up") == 1
    types.learn(known, shape, 2)
    assert (types.all(), types.take_fresh()) == ([], [])


def test_the_tool_that_was_called_longest_ago_is_forgotten_first() -> None:
    types = LearnedTypes()
    first, second = types.of_call(KEY), types.of_call(KEY._replace(tool="second"))
    assert types.of_call(KEY) is first
    for number in range(MOST_TOOLS - 1):
        types.of_call(KEY._replace(tool=f"other{number}"))
    assert len(types) == MOST_TOOLS
    assert types.find(first.key) is first
    assert types.find(second.key) is None
