"""Regular expressions that are compiled on first use."""

from __future__ import annotations

import re

import pytest

from tabane.text.lazy_patterns import lazy_pattern


def test_it_does_what_a_compiled_expression_does() -> None:
    lazy, compiled = lazy_pattern(r"(?P<letter>[a-z])(\d)", re.IGNORECASE), re.compile("")
    assert [found.group() for found in lazy.finditer("A1 b2 33")] == ["A1", "b2"]
    assert lazy.sub(r"\2", "A1 b2") == "1 2"
    assert (lazy.pattern, lazy.groups) == (r"(?P<letter>[a-z])(\d)", 2)
    assert lazy.flags & re.IGNORECASE
    assert {name for name in dir(compiled) if not name.startswith("__")} <= {*dir(lazy)}


def test_bytes_are_searched_as_text_is() -> None:
    found = lazy_pattern(rb"b+").search(b"abba")
    assert found is not None
    assert found.span() == (1, 3)


def test_it_is_compiled_on_first_use() -> None:
    invalid = lazy_pattern("(")
    for _ in range(2):
        with pytest.raises(re.error):
            invalid.search("(")
    with pytest.raises(AttributeError):
        _ = invalid.no_such_thing  # type: ignore[attr-defined]
