"""Work on hostile HTML is in proportion to its size, for each kind of page that has made readers slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest
from benchmarks.reader.hostile_pages import KINDS

from tabane.reader.extraction.article import extract
from tabane.reader.formats.article_html import whole_page
from tabane.reader.plain_text import visible_text
from tests.harness.patience import assert_in_proportion

URL = "https://site.example/a/page"
SMALL = 64  # the usual size of a kind, in parts: the test begins with one of these

WAYS: Mapping[str, Callable[[str], object]] = {
    "extract": lambda page: extract(page, URL),
    "whole": lambda page: whole_page(page, URL),
    "plain": visible_text,
}


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KINDS)
def test_the_work_on_a_page_is_in_proportion_to_its_size(name: str, way: str) -> None:
    kind = KINDS[name]
    page = cache(kind.page)
    assert_in_proportion(lambda size: WAYS[way](page(size)), max(1, kind.size // SMALL))
