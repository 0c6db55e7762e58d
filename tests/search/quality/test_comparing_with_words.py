"""The benchmark of hybrid search tells whether both are below words, by a paired bootstrap."""

from __future__ import annotations

import pytest
from benchmarks.search.hybrid import Rankings, told
from benchmarks.search.quality import Corpus


@pytest.mark.parametrize(
    ("worse", "better", "good"), [(12, 0, False), (0, 0, True), (3, 3, True), (0, 12, True)]
)
def test_both_are_below_words_if_they_are_so_in_nearly_every_sample_of_queries(
    worse: int, better: int, good: bool
) -> None:
    corpus = Corpus.of(
        {"docs": ["right", "wrong"], "queries": [{"id": n, "q": "q", "rel": 0} for n in range(40)]}
    )
    right, wrong = corpus.texts
    first, second = {right: 2.0, wrong: 1.0}, {wrong: 2.0, right: 1.0}

    def found(place: int) -> Rankings:
        words = second if place < better else first
        both = first if place < better else second if place < better + worse else words
        return Rankings(words, words, list(both), list(both), frozenset(corpus.texts))

    rankings = {query.name: found(place) for place, query in enumerate(corpus.queries)}
    report, passed = told(corpus, rankings, "model")
    assert passed is good
    assert ("below words" in report) is not good
