"""Which blocks are kept: by their probability, by what is around them, and by what the page declares."""

from __future__ import annotations

import json

import pytest

from tabane.reader.extraction.blocks import BlockSegmentation, measured
from tabane.reader.extraction.content import DecisionForest, filled, rows
from tabane.reader.extraction.html_tree import parsed
from tabane.reader.extraction.metadata import COUNT, declared

TEXT = "<p>The station stood on the roof of the old mill for nine years.</p>"
LINKS = "<p><a href='/1'>The mill in pictures</a> <a href='/2'>Nine years of rain</a></p>"


@pytest.mark.parametrize(
    ("heading", "after", "probability", "sure", "kept"),
    [
        ("h2", TEXT, 0.15, True, True),
        ("h2", LINKS, 0.15, True, False),
        ("h2", LINKS, 0.25, True, True),
        ("h1", TEXT, 0.15, True, False),
        ("h2", LINKS, 0.15, False, True),
        ("h1", TEXT, 0.15, False, True),
        ("h2", TEXT, 0.1, False, False),
    ],
)
def test_a_heading_follows_the_text_under_it(
    heading: str, after: str, probability: float, sure: bool, kept: bool
) -> None:
    root = parsed(f"<body><{heading}>More from the mill</{heading}>{after}</body>")
    blocks = BlockSegmentation(root).blocks
    assert len(blocks) == 2
    assert filled(blocks, [False, True], [probability, 0.9], sure=sure) == [kept, True]


def test_a_heading_before_nothing_that_is_kept_is_dropped() -> None:
    blocks = BlockSegmentation(parsed(f"<body><h2>More from the mill</h2>{TEXT}</body>")).blocks
    assert filled(blocks, [False, False], [0.9, 0.1]) == [False, False]


def page(*types: str, graph: str = "") -> str:
    data = json.dumps({"@graph": [{"@type": name} for name in types]})
    meta = f'<meta property="og:type" content="{graph}">' if graph else ""
    script = f'<script type="application/ld+json">{data}</script>'
    return f"<html><head>{meta}{script}</head><body>{TEXT}</body></html>"


@pytest.mark.parametrize(
    ("html", "numbers"),
    [
        (page(), []),
        (page("Product", "Product"), [(0, 1.0), (10, 2.0)]),
        (page("NewsArticle"), [(2, 1.0)]),
        (page(graph="article"), [(8, 1.0)]),
        (page("QAPage", graph="website"), [(3, 1.0), (8, 3.0)]),
    ],
)
def test_a_page_declares_its_kind(html: str, numbers: list[tuple[int, float]]) -> None:
    wanted = [0.0] * COUNT
    for at, number in numbers:
        wanted[at] = number
    assert declared(parsed(html)) == wanted


def test_the_forest_sees_what_a_page_declares() -> None:
    cutting = BlockSegmentation(parsed(page("Product")))
    measured(cutting)
    assert [row[-COUNT:] for row in rows(cutting)] == [declared(parsed(page("Product")))]


def test_a_forest_adds_up_a_leaf_of_each_tree() -> None:
    forest = DecisionForest(0.5, [[0, 1.5, 1, [1, 2.0, 10, 20]], 100.0])
    shared = [1.5]
    parts = [(shared, [9.0]), (shared, [0.0]), ([2.0], [2.0]), ([2.0], [2.1])]
    assert forest.odds(parts) == [101.5, 101.5, 110.5, 120.5]
