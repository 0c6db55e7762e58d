"""Codes count what differs, whatever is asked of them, and what is nearest by them comes out whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.vectors.vector_kernel import BinaryCodes, encoded, lowest, mean_of, units_of
from tabane.engine.vector_request import Matrix


def codes_of(count: int, dimension: int, seed: int) -> tuple[Matrix, BinaryCodes]:
    chance = np.random.default_rng(seed)
    data = units_of(chance.standard_normal((count, dimension), dtype=np.float32) + np.float32(0.3))
    mean = mean_of(data)
    return data, BinaryCodes(mean, encoded(data, mean))


def differing(data: Matrix, query: Matrix, mean: Matrix) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The same, dimension by dimension."""
    return np.asarray(np.count_nonzero((data > mean) != (query > mean), axis=1))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 520), st.integers(0, 99), st.data())
def test_distances_are_the_dimensions_that_lie_on_the_other_side(
    count: int, dimension: int, seed: int, data: st.DataObject
) -> None:
    vectors, codes = codes_of(count, dimension, seed)
    query = vectors[data.draw(st.integers(0, count - 1))] * np.float32(1.5)
    expected = differing(vectors, query, codes.mean)
    assert codes.tally(query, vectors).whole().tolist() == expected.tolist()
    slots = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1)))), dtype=np.int64)
    assert codes.tally(query, vectors).whole(slots).tolist() == expected[slots].tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 900), st.integers(1, 6), st.integers(0, 99), st.data())
def test_some_words_first_and_then_the_others_are_all_of_them(
    count: int, dimension: int, early: int, seed: int, data: st.DataObject
) -> None:
    vectors, codes = codes_of(count, dimension, seed)
    query = vectors[data.draw(st.integers(0, count - 1))] * np.float32(1.5)
    tally = codes.tally(query, vectors, early)
    assert tally.begins == (dimension // 64 >= 2 * early)
    if tally.begins:
        expected, first = differing(vectors, query, codes.mean), tally.first()
        slots = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1)))), dtype=np.int64)
        assert tally.whole(None, first).tolist() == expected.tolist()
        assert tally.whole(slots, first[slots]).tolist() == expected[slots].tolist()
        assert tally.first(slots).tolist() == first[slots].tolist()
        opposite = codes.tally(2 * codes.mean - query, vectors, early)  # on the other side of the mean
        assert set((first + opposite.first()).tolist()) == {tally.bits} == {64 * early}


@pytest.mark.parametrize("count", [32_767, 32_768, 32_769, 70_000])
def test_distances_go_on_where_a_block_ends(count: int) -> None:
    vectors, codes = codes_of(count, 70, 1)
    expected = differing(vectors, vectors[5], codes.mean)
    assert np.array_equal(codes.tally(vectors[5], vectors).whole(), expected)
    slots = np.arange(0, count, 2)
    assert np.array_equal(codes.tally(vectors[5], vectors).whole(slots), expected[slots])


def test_far_vectors_are_far_in_every_bit() -> None:
    """A sum of three words of 64 bits is kept in a byte: 192 bits are counted right, and 8,192 are."""
    for dimension in (192, 256, 8192):
        data = np.ones((3, dimension), dtype=np.float32)
        mean = np.zeros(dimension, dtype=np.float32)
        codes = BinaryCodes(mean, encoded(data, mean))
        assert codes.tally(-data[0], data).whole().tolist() == [dimension] * 3


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 64), max_size=200), st.integers(1, 50))
def test_the_lowest_are_those_that_a_sort_puts_first(distances: list[int], most: int) -> None:
    found = lowest(np.array(distances, dtype=np.uint16), most, 64).tolist()
    assert found == sorted(found)
    assert min(most, len(distances)) <= len(found) <= 5 * most  # of equal ones at the end not all
    taken = sorted(distances[place] for place in found)
    assert taken[:most] == sorted(distances)[:most]


def test_what_codes_mean_is_told_by_vectors_that_are_read_once() -> None:
    vectors, codes = codes_of(1000, 64, 2)
    some = codes.sample(vectors * np.float32(4))
    assert np.array_equal(some.vectors, units_of(vectors)[some.slots])
    assert codes.sample(vectors) is some
