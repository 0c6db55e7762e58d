"""The benchmark of hybrid search tells whether both are below words, by a paired bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.search.hybrid import below_words


@pytest.mark.parametrize(("change", "below"), [(-0.05, True), (0.0, False), (0.05, False)])
def test_both_are_below_words_if_they_are_so_in_nearly_every_sample_of_queries(
    change: float, below: bool
) -> None:
    words = np.random.default_rng(2).random(200)
    noise = np.random.default_rng(3).normal(0, 0.1, 200)
    both = words + change + noise - noise.mean()
    assert below_words({"words": words, "both": both}) is below
