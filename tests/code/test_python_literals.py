"""Lists and dicts as Python writes them become JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.code.script_values import NoLiteral, json_of_literal
from tests.harness.patience import assert_in_proportion

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 62), 1 << 62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
KEYS = st.text(max_size=8) | st.integers(0, 99)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=20,
)


def in_json(value: Any) -> Any:
    """The value with the types that JSON has."""
    if isinstance(value, dict):
        return {str(key): in_json(member) for key, member in value.items()}
    return [in_json(member) for member in value] if isinstance(value, list | tuple) else value


@given(st.lists(VALUES, max_size=4) | st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_python_writes_is_translated(value: Any) -> None:
    assert json.loads(json_of_literal(repr(value))) == in_json(value)


@pytest.mark.parametrize(
    "text",
    [
        "['a'] and more",
        "{'a': open('file')}",
        "[b'bytes']",
        "[datetime.date(2026, 1, 1)]",
        r"['\N{BULLET}']",
        "['open]",
        f"[{math.inf}]",
        "[1_000]",
        "[0x10]",
        r"['\U99999999']",
    ],
)
def test_what_is_no_such_text_is_not_translated(text: str) -> None:
    with pytest.raises(NoLiteral):
        json_of_literal(text)


@given(st.text(alphabet="[]{}(),:'\\\" 1a", max_size=60))
def test_any_other_text_is_refused_or_is_no_json(text: str) -> None:
    try:
        found = json_of_literal(text)
    except NoLiteral:
        return
    try:
        json.loads(found)
    except ValueError:
        return
    assert text.strip()


def test_the_cost_grows_with_the_length() -> None:
    assert_in_proportion(lambda size: json_of_literal("[" + "(1, 'x\\'\"', {2: None})," * size + "]"), 500)
