from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tabane.search.embedding.embedder import slices

_LENGTHS = st.lists(st.integers(0, 300), max_size=200)


def _each_once(parts: Sequence[Sequence[int]], count: int) -> bool:
    return sorted(position for part in parts for position in part) == list(range(count))


@given(_LENGTHS, st.integers(1, 400), st.integers(1, 20))
def test_each_text_is_in_one_batch_and_the_budget_holds(lengths: list[int], budget: int, most: int) -> None:
    found = slices(lengths, most, budget, padded=True)
    assert _each_once(found, len(lengths))
    for batch in found:
        padded = max(lengths[position] for position in batch) * len(batch)
        assert 1 <= len(batch) <= most
        assert padded <= budget or len(batch) == 1


@given(_LENGTHS, st.integers(1, 400))
def test_batches_go_from_long_to_short_and_equals_keep_their_order(lengths: list[int], budget: int) -> None:
    order = [position for batch in slices(lengths, 64, budget, padded=True) for position in batch]
    assert order == sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))


@given(_LENGTHS, st.integers(1, 400))
def test_a_batch_is_ended_only_where_the_next_text_has_no_room(lengths: list[int], budget: int) -> None:
    found = slices(lengths, 10, budget, padded=True)
    for batch, _ in pairwise(found):
        full = (len(batch) + 1) * max(lengths[batch[0]], 1) > budget
        assert full or len(batch) == 10


@given(_LENGTHS, st.integers(1, 20), st.integers(1, 1000))
def test_slices_have_each_text_once_and_keep_both_limits(sizes: list[int], texts: int, total: int) -> None:
    found = slices(sizes, texts, total)
    assert _each_once(found, len(sizes))
    for part in found:
        assert 1 <= len(part) <= texts
        assert sum(sizes[position] for position in part) <= total or len(part) == 1
