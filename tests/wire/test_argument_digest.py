"""Digests of arguments: the same for the same arguments, and never the same for others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tabane.wire.json import argument_digest

VALUES: Any = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


@pytest.mark.heavy("many cases")
@given(some.dictionaries(some.text(), VALUES))
def test_order_and_white_space_do_not_count(value: dict[str, Any]) -> None:
    turned = dict(reversed(list(value.items())))
    spaced = json.dumps(turned, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert argument_digest(spaced) == argument_digest(json.dumps(value).encode())


@given(VALUES, VALUES)
def test_other_arguments_have_another_digest(one: Any, other: Any) -> None:
    texts = [json.dumps(value, sort_keys=True).encode() for value in (one, other)]
    assert (argument_digest(texts[0]) == argument_digest(texts[1])) == (texts[0] == texts[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(b'{"path":"/etc","path":"/tmp"}', b'{"path":"/tmp"}', id="a name twice"),
        pytest.param(b'{"n":1.50}', b'{"n":1.5}', id="digits"),
        pytest.param(b'{"n":1e400}', b'{"n":Infinity}', id="too large"),
        pytest.param(b'{"n":1}', b'{"n":1.0}', id="integer"),
        pytest.param(b'{"n":12345678901234567890123}', b'{"n":12345678901234567890124}', id="long"),
        pytest.param(b'{"n":1', b'{"n":1}', id="no JSON"),
    ],
)
def test_texts_that_a_program_may_read_differently_are_not_mixed_up(one: bytes, other: bytes) -> None:
    assert argument_digest(one) != argument_digest(other)


@given(some.binary())
def test_any_bytes_have_a_digest(given: bytes) -> None:
    assert len(argument_digest(given)) == 32


def test_arguments_that_are_nested_too_deeply_have_one_too() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert len(argument_digest(deep)) == 32
