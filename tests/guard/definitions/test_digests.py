"""Digests of definitions: what changes them and what does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.guard.definitions.definition import Kind, definition_digest, read_definitions
from tabane.guard.definitions.review import DigestCache

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), TEXTS,
    st.just("\ud83d"),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.one_of(st.lists(inside, max_size=4), st.dictionaries(TEXTS, inside, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)


def digest(value: Any, kind: Kind = "tool", **style: Any) -> bytes:
    return definition_digest(kind, json.dumps(value, **style).encode("utf-8", "surrogatepass"))


def turned(value: Any) -> Any:
    """The same value with the members of each object in another order."""
    if isinstance(value, dict):
        return {key: turned(each) for key, each in reversed(value.items())}
    return [turned(each) for each in value] if isinstance(value, list) else value


@given(OBJECTS)
def test_order_spaces_and_escapes_do_not_change_a_digest(value: dict[str, Any]) -> None:
    plain = digest(value)
    assert digest(turned(value)) == plain
    assert digest(value, indent=2) == plain
    assert digest(value, separators=(",", ":")) == plain
    if "\\ud" not in json.dumps(value):
        assert digest(value, ensure_ascii=False) == plain


@given(OBJECTS, OBJECTS)
def test_another_value_has_another_digest(one: dict[str, Any], two: dict[str, Any]) -> None:
    # What JSON tells apart: 1, 1.0 and true are equal in Python.
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (digest(one) == digest(two)) is same


@given(OBJECTS, TEXTS, VALUES)
def test_a_member_that_is_given_twice_changes_the_digest(value: dict[str, Any], key: str, other: Any) -> None:
    value = {**value, key: 1}
    rest = {name: each for name, each in value.items() if name != key}
    inside = json.dumps(rest)[1:-1]
    member, evil = f"{json.dumps(key)}:1", f"{json.dumps(key)}:{json.dumps(other)}"
    for first, second in ((member, evil), (evil, member)):
        twice = "{" + ",".join(part for part in (first, second, inside) if part) + "}"
        assert definition_digest("tool", twice.encode()) != digest(value)


@given(st.binary(max_size=200))
def test_anything_has_a_digest(data: bytes) -> None:
    assert len(definition_digest("tool", data)) == 32


def test_what_nests_deeper_than_a_parser_goes_has_a_digest() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert definition_digest("tool", deep) != definition_digest("tool", deep.replace(b"1", b"2"))


def test_size_and_time_of_a_resource_belong_to_its_content() -> None:
    note = {"uri": "a:b", "name": "Note", "size": 1, "annotations": {"lastModified": "x", "priority": 1}}
    later = note | {"size": 2, "annotations": {"lastModified": "y", "priority": 1}}
    assert digest(note, "resource") == digest(later, "resource")
    assert digest(note, "tool") != digest(later, "tool")
    assert digest(note, "resource") != digest(note | {"name": "Order"}, "resource")


def test_of_a_repeated_name_the_first_definition_counts() -> None:
    items = [Raw(b'{"name":"a","x":1}'), Raw(b'{"name":"a","x":2}'), Raw(b'{"name":""}'), Raw(b"7")]
    (seen,) = read_definitions("tool", items, definition_digest)
    assert (seen.key, bytes(seen.body)) == (("tool", "a"), bytes(items[0]))


@pytest.mark.parametrize("again", [False, True])
def test_a_list_that_is_read_again_has_the_same_digests(again: bool) -> None:
    cache = DigestCache()
    items = [Raw(json.dumps({"name": f"tool {n}", "n": n}).encode()) for n in range(10)]
    if again:
        cache.read("up", "tool", items)
    found = cache.read("up", "tool", items)
    assert [each.digest for each in found] == [definition_digest("tool", item) for item in items]
