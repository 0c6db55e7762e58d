"""Work on hostile HTML is in proportion to its size, for each kind of page that has made readers slow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest
from benchmarks.reader.hostile_pages import KINDS

from tabane.reader.extraction.article import extract
from tabane.reader.formats.article_html import whole_page
from tabane.reader.plain_text import visible_text

URL = "https://site.example/a/page"
SMALL = 32  # the usual size of a kind, in parts: the test takes one of these
TIMES = 4  # quadratic work costs 16 times as much then
MOST = 10.0
TICK = 0.03  # seconds of CPU time below which nothing can be compared
BUDGET = 10.0  # seconds of CPU time that a page may take before its plain text is read instead
ROUNDS = 3


WAYS: Mapping[str, Callable[[str], object]] = {
    "extract": lambda page: extract(page, URL),
    "whole": lambda page: whole_page(page, URL),
    "plain": visible_text,
}


def cost(work: Callable[[str], object], page: str) -> float:
    begun = time.process_time()
    work(page)
    return time.process_time() - begun


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KINDS)
def test_a_page_of_four_times_the_size_takes_about_four_times_as_long(name: str, way: str) -> None:
    kind = KINDS[name]
    size = max(1, kind.size // SMALL)
    small, large = kind.page(size), kind.page(TIMES * size)
    ratios = []
    for _ in range(ROUNDS):
        less, more = cost(WAYS[way], small), cost(WAYS[way], large)
        assert more < BUDGET
        ratios.append(more / max(less, TICK))
        if ratios[-1] < MOST:
            return
    raise AssertionError(f"{TIMES} times the size costs {min(ratios):.0f} times as much")
