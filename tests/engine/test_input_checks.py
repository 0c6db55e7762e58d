"""Vectors are taken and refused as the rule of records says, however they are looked at."""

from __future__ import annotations

import struct
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.engine.input_checks import checked_vector
from tabane.errors import BadArguments
from tabane.search import records
from tabane.search.records import EmbeddingSpace

_NUMBERS = st.lists(st.floats(width=32), min_size=8, max_size=8)
_SPACE = EmbeddingSpace("content", 8, "m")


def _verdict(check: object, vector: bytes, space: EmbeddingSpace) -> bytes | str:
    assert callable(check)
    try:
        found = check(vector, space)
        assert isinstance(found, bytes)
        return found
    except BadArguments as error:
        return str(error)


@given(_NUMBERS)
@example([0.0] * 8)
@example([-0.0] * 8)
@example([3e38] * 8)  # finite, and their squares are not, in float32
@example([1e-40] * 8)  # not all 0, and their squares are, in float32
@example([float("inf"), *[1.0] * 7])
@example([float("nan"), *[1.0] * 7])
@example([float("inf"), float("-inf"), *[1.0] * 6])
def test_a_vector_is_taken_or_refused_by_the_rule_of_records(numbers: list[float]) -> None:
    vector = struct.pack("<8f", *numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = _verdict(checked_vector, vector, _SPACE)
    assert found == _verdict(records.checked_vector, vector, _SPACE)


@pytest.mark.parametrize("length", [0, 4, 28, 31, 33, 36])
def test_a_vector_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(BadArguments, match="8 finite numbers"):
        checked_vector(b"\x01" * length, _SPACE)
