"""Each structure of a page, in Markdown: one case for one rule."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from lxml import html

from tabane.reader.markdown import markdown

BASE = "https://example.org/a/page.html"


def written(source: str, *, links: bool = True) -> str:
    tree = html.document_fromstring(f"<body>{source}</body>")
    body = tree.find("body")
    assert body is not None
    return markdown([body], BASE, links=links)


TABLE = tomllib.loads(Path(__file__).with_name("structure.toml").read_text("utf-8"))
ALL = {
    f"{kind}: {name}": (case["html"], case["markdown"])
    for kind, cases in TABLE.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("source", "expected"), ALL.values(), ids=ALL)
def test_structure(source: str, expected: str) -> None:
    assert written(source) == expected


def test_the_sea_of_wrappers_of_a_page_is_left_out() -> None:
    assert written("<div>" * 200 + "deep" + "</div>" * 200) == "deep"


def test_without_links_the_text_stays() -> None:
    assert written('<p><a href="/x">go</a> <img src="/i.png" alt="cat"></p>', links=False) == "go ![cat]()"


def test_several_elements_stand_below_each_other_without_their_tails() -> None:
    tree = html.fragment_fromstring("<div><p>one</p>tail<ul><li>two</ul>more</div>")
    assert markdown(list(tree), BASE) == "one\n\n- two"


def test_the_tree_is_left_as_it_is() -> None:
    source = (
        '<div><h2>a<a class="headerlink" href="#a">#</a></h2><pre><span class="lineno">1</span>x</pre></div>'
    )
    tree = html.fragment_fromstring(source)
    before = html.tostring(tree)
    markdown([tree], BASE)
    assert html.tostring(tree) == before
