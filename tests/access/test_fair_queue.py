"""Queues in which those who wait take turns."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.gates import FairQueue

STEPS = st.lists(
    st.one_of(
        st.sampled_from("abc").map(lambda holder: ("add", holder)),
        st.just(("pop", "")),
        st.sampled_from("abc").map(lambda holder: ("drop", holder)),
    ),
    max_size=200,
)


@given(STEPS)
def test_nobody_waits_longer_than_one_turn_of_each_other(steps: list[tuple[str, str]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    waiting: dict[str, list[tuple[str, int]]] = defaultdict(list)
    passed: dict[str, Counter[str]] = defaultdict(Counter)
    for number, (what, holder) in enumerate(steps):
        if what == "add":
            entry = holder, number
            queue.add(holder, entry)
            if not waiting[holder]:
                passed[holder].clear()
            waiting[holder].append(entry)
        elif what == "drop" and waiting[holder]:
            assert queue.discard(holder, waiting[holder].pop())
        elif what == "pop" and len(queue):
            entry = queue.pop()
            assert waiting[entry[0]].pop(0) == entry  # first in, first out for each holder
            passed[entry[0]].clear()
            for other, line in waiting.items():
                if line and other != entry[0]:
                    passed[other][entry[0]] += 1
                    assert passed[other][entry[0]] <= 1
        assert len(queue) == sum(map(len, waiting.values()))
    assert sorted(queue) == sorted(entry for line in waiting.values() for entry in line)


def test_an_entry_that_is_not_there_cannot_be_removed() -> None:
    queue: FairQueue[int] = FairQueue()
    queue.add("a", 1)
    assert not queue.discard("a", 2)
    assert not queue.discard("b", 1)
    assert 1 in queue
    assert 2 not in queue


def test_an_empty_queue_has_no_next() -> None:
    with pytest.raises(KeyError):
        FairQueue[int]().pop()


def test_an_entry_that_was_put_first_comes_first() -> None:
    queue: FairQueue[int] = FairQueue()
    queue.add("a", 1)
    queue.add("b", 2)
    queue.add("b", 3)
    queue.add_first("b", 4)
    assert queue.waiting("b") == 3
    assert [queue.pop() for _ in range(4)] == [4, 1, 2, 3]
    assert queue.waiting("b") == 0


def test_a_holder_that_fills_the_queue_keeps_nobody_else_out() -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    accepted = Counter[str]()
    for number in range(100):
        if not queue.is_full("flood", 50):
            queue.add("flood", ("flood", number))
    for number in range(100):
        for holder in ("a", "b"):
            if not queue.is_full(holder, 50):
                queue.add(holder, (holder, number))
                accepted[holder] += 1
    assert queue.is_full("flood", 50)
    assert queue.waiting("flood") == 50
    assert min(accepted.values()) >= 16
    assert len(queue) <= 100
