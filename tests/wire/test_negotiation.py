"""Capabilities of clients and servers as they are passed on."""

from __future__ import annotations

import json as stdlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.wire import json
from tabane.wire.era import EXTENSIONS, META_CAPABILITIES, SKILLS, TASKS, UI, Extension, carried
from tabane.wire.negotiation import (
    announced,
    extensions_in,
    filtered,
    of_one_server,
    offered_to_servers,
    passed_on,
)

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_names = st.sampled_from([UI, TASKS, SKILLS, "com.example/other"]) | st.text()


def _raw(value: Any) -> Raw:
    return Raw(stdlib.dumps(value).encode())


def _members(value: dict[str, Any]) -> json.Members:
    return json.fields(_raw(value))


@given(st.dictionaries(_names, _values), st.sets(_names), st.dictionaries(st.text(), _values))
def test_only_carried_extensions_are_passed_on_and_other_capabilities_stay(
    extensions: dict[str, Any], carry: set[str], others: dict[str, Any]
) -> None:
    others.pop("extensions", None)
    passed = json.decode(json.join(passed_on(_members({**others, "extensions": extensions}), carry)))
    assert passed.pop("extensions", {}) == {k: v for k, v in extensions.items() if k in carry}
    assert passed == others


@given(st.dictionaries(_names, _values))
def test_a_connection_that_carries_everything_changes_nothing(extensions: dict[str, Any]) -> None:
    declared = _members({"extensions": extensions})
    assert passed_on(declared, None) == declared


@given(_values)
def test_extensions_that_are_no_object_are_none(value: Any) -> None:
    if not isinstance(value, dict):
        assert extensions_in(_members({"extensions": value})) == {}
        assert passed_on(_members({"extensions": value}), [UI]) == {}


def test_a_request_keeps_its_other_members() -> None:
    meta = _members({META_CAPABILITIES: {"extensions": {UI: {}, "x/y": {}}, "sampling": {}}, "other": 1})
    kept = json.decode(json.join(filtered(meta, [UI])))
    assert kept == {META_CAPABILITIES: {"extensions": {UI: {}}, "sampling": {}}, "other": 1}


def test_a_request_without_extensions_is_not_copied() -> None:
    meta = _members({META_CAPABILITIES: {"sampling": {}}})
    assert filtered(meta, [UI]) is meta


def test_huge_capabilities_lose_their_extensions() -> None:
    declared = _members({"roots": {}, "extensions": {UI: {"x": "y" * (65 << 10)}}})
    assert json.decode(json.join(passed_on(declared, [UI]))) == {"roots": {}}


def test_an_extension_is_carried_only_if_it_is_implemented_and_allowed() -> None:
    implemented = {each.name for each in EXTENSIONS if each.carried}
    assert {each.name for each in carried(["ui", "tasks", "skills"])} == implemented
    assert carried([]) == ()


def test_each_side_is_told_only_what_it_should_announce() -> None:
    both, servers = Extension("a/b", "b", True, b"{}", b'{"x":1}'), Extension("a/c", "c", True, b"{}")
    assert list(announced([both, servers])) == ["a/b", "a/c"]
    assert {name: bytes(value) for name, value in offered_to_servers([both, servers]).items()} == {
        "a/b": b'{"x":1}'
    }


@pytest.mark.parametrize(
    ("modern", "whole", "names"),
    [
        (False, True, ["tools", "logging", "tasks", "experimental", "acme"]),
        (True, True, ["tools", "logging", "experimental", "acme"]),
        (False, False, ["tools", "logging"]),
        (True, False, ["tools", "logging"]),
    ],
)
def test_a_client_of_one_server_is_told_what_its_era_and_its_connection_can_use(
    modern: bool, whole: bool, names: list[str]
) -> None:
    capabilities = _members({"tools": {}, "logging": {}, "tasks": {}, "experimental": {}, "acme": {"x": 1}})
    told = of_one_server(capabilities, modern=modern, whole=whole)
    assert told == {name: capabilities[name] for name in names}
