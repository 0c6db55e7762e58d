"""Hello, welcome, refused: the handshake of a connection."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.build import newer
from tabane.errors import HubDraining
from tabane.hub.local import handshake as hellos
from tabane.hub.local.handshake import Hello, HelloRefused, InvalidHello, Welcome

TEXT = st.text(max_size=50)
HELLOS = st.builds(
    Hello,
    version=TEXT,
    role=st.sampled_from(["mcp", "rpc", "replace"]),
    home=TEXT,
    pid=st.integers(0, 1 << 30),
    cwd=TEXT,
    roots=st.lists(TEXT, max_size=3).map(tuple),
    mode=st.none() | st.sampled_from(["search", "light", "full"]),
    lang=TEXT,
    client=TEXT,
    servers=st.none() | st.text(min_size=1, max_size=50),
    profile=TEXT,
    server=TEXT,
)


@given(HELLOS)
def test_a_hello_arrives_as_it_was_sent(hello: Hello) -> None:
    line = hellos.encode(hello)
    assert line.count(b"\n") == 1
    assert hellos.read_hello(line) == hello


def test_an_answer_arrives_as_it_was_sent() -> None:
    welcome = Welcome("1.0", 7, "/a.json", 1000, 2.0)
    assert hellos.read_answer(hellos.encode(welcome)) == welcome
    refused = HelloRefused("servers", {"en": "no", "ja": "否"})
    assert hellos.read_answer(hellos.encode(refused)) == refused
    assert (refused.text("ja"), refused.text("fr")) == ("否", "no")


@given(st.binary(max_size=100) | st.recursive(st.integers() | TEXT, lambda x: st.dictionaries(TEXT, x)).map(
    lambda value: json.dumps(value).encode()))  # fmt: skip
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidHello):
        hellos.read_hello(line)
    with pytest.raises(InvalidHello):
        hellos.read_answer(line)


@pytest.mark.parametrize(
    "body",
    [
        {"role": "mcp", "version": 1},
        {"role": "king"},
        {"role": "stdio"},
        {"role": "mcp", "pid": "1"},
        {"role": "mcp", "pid": 1e400},
        {"role": "mcp", "roots": "x"},
        {"role": "mcp", "roots": [1]},
        {"role": "mcp", "cwd": "x" * hellos.MAX_HELLO},
    ],
)
def test_a_hello_with_members_that_do_not_fit_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(InvalidHello):
        hellos.read_hello(json.dumps({"tabane": "hello", **body}).encode())


def test_members_that_a_later_version_adds_are_passed_over() -> None:
    line = b'{"tabane":"hello","version":"9","role":"mcp","what":[1],"next":{}}\n'
    assert hellos.read_hello(line) == Hello("9", "mcp")


@pytest.mark.parametrize(
    ("version", "other"),
    [("0.1.1", "0.1.0"), ("0.10", "0.9.9"), ("1.0", "1.0rc1"), ("1.0rc1", "0.9"), ("2", "1.9.9"), ("1", "x")],
)
def test_a_later_release_is_newer(version: str, other: str) -> None:
    assert newer(version, other)
    assert not newer(other, version)


@given(st.text(max_size=80), st.text(max_size=80))
def test_two_versions_are_never_each_newer_than_the_other(one: str, other: str) -> None:
    assert not (newer(one, other) and newer(other, one))


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.0"), ("1", "1.0.0"), ("1.0+local", "1.0")])
def test_the_same_release_is_not_newer(one: str, other: str) -> None:
    assert not newer(one, other)


def test_a_bridge_knows_the_error_of_a_hub_that_drains() -> None:
    assert HubDraining.reason == hellos.DRAINING
