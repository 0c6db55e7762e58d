"""Whatever a page is made of, it converts, and its words are in the Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree, html

from tabane.reader.markdown import markdown
from tabane.reader.plain_text import plain
from tabane.text.invisible_characters import cleaned
from tests.harness.patience import assert_in_proportion

TAGS = (
    "div p span a b strong em i code pre ul ol li dl dt dd table thead tbody tr td th caption h1 h2 "
    "h3 blockquote "
    "figure figcaption details summary sup sub del q ruby rt br hr img section article custom-card label font"
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["class", "id", "href", "src", "colspan", "rowspan", "start", "role", "value", "alt"]),
    st.sampled_from(
        ["", "x", "9", "-1", "99999999999", "language-py", "footnotes", "#fn1", "fn1", "/u", "http://[",
         "katex", "anchor", "presentation", "lineno", "emoji", "line", "math inline", "javascript:a", "１"]
    ),
    max_size=3,
)  # fmt: skip
WORDS = st.lists(
    st.sampled_from(["w1", "語句", "*x*", "a_b", "[y](z)", "<", "&amp;", "`", "|", "\n", " ", "#", "$$"]),
    max_size=4,
)
TEXT = st.one_of(WORDS.map("".join), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8))


@st.composite
def elements(draw: st.DrawFn, depth: int = 4) -> html.HtmlElement:
    element = html.Element(draw(st.sampled_from(TAGS.split())), draw(ATTRIBUTES))
    element.text = draw(TEXT)
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        child = draw(elements(depth=depth - 1))
        child.tail = draw(TEXT)
        element.append(child)
    return element


@pytest.mark.heavy("large pages")
@settings(max_examples=100, deadline=None)
@given(st.lists(elements(), min_size=1, max_size=3), st.booleans())
def test_every_tree_converts(trees: list[html.HtmlElement], links: bool) -> None:
    text = markdown(trees, "https://example.org/", links=links)
    assert plain(text) is not None
    assert "\0" not in text


SIMPLE = (
    "div p span b strong em code ul ol li table tr td th h1 h2 blockquote section article "
    "custom-card del dd dl"
)


@st.composite
def worded(draw: st.DrawFn, depth: int = 4) -> html.HtmlElement:
    """Trees in which every text is a word of its own."""
    word = st.integers(0, 10**9).map(lambda number: f" w{number}x ")
    element = html.Element(draw(st.sampled_from(SIMPLE.split())))
    element.text = draw(word)
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        child = draw(worded(depth=depth - 1))
        child.tail = draw(word)
        element.append(child)
    return element


@settings(max_examples=100, deadline=None)
@given(worded())
def test_no_word_is_lost_or_said_twice(tree: html.HtmlElement) -> None:
    # Parsed again, as a page would be: a browser's rules say where a word in a table stands.
    source = html.tostring(tree, encoding="unicode")
    tree = html.fragment_fromstring(source, create_parent="div")
    words = sorted(re.findall(r"w\d+x", "".join(tree.itertext())))
    text = markdown([tree], "https://example.org/")
    assert sorted(re.findall(r"w\d+x", text)) == words, (source, text)


@settings(max_examples=100, deadline=None)
@example("<<p>*")
@given(st.text(max_size=60))
def test_text_comes_back_as_it_was(text: str) -> None:
    """What is escaped is read back as the text: no word becomes a mark."""
    element = html.Element("p")
    try:
        element.text = text
    except ValueError:  # XML has no such character
        return
    if "$$" in text or "\\(" in text or "\\[" in text:
        return  # formulas
    shown = " ".join(cleaned(text).text.replace("\xa0", " ").split())
    assert " ".join(plain(markdown([element], "https://example.org/")).split()) == shown


def test_deep_nesting_is_text() -> None:
    for tag in ("div", "b", "ul", "blockquote", "span", "table"):
        root = innermost = html.Element("div")
        for _ in range(3000):
            innermost = etree.SubElement(innermost, tag)
        innermost.text = "deep"
        assert "deep" in markdown([root], "https://example.org/")


def test_a_table_of_spans_is_bounded() -> None:
    row = "<tr>" + '<td colspan="1000" rowspan="1000">x</td>' * 50 + "</tr>"

    def work(rows: int) -> None:
        tree = html.fragment_fromstring(f"<table>{row * rows}</table>")
        assert len(markdown([tree], "https://example.org/")) < 2_000_000

    assert_in_proportion(work, 50)


@pytest.mark.heavy("large pages")
def test_a_large_page_takes_time_in_proportion() -> None:
    """Twice the page, some twice the time: no rule looks at everything from everywhere."""
    part = '<ul><li>a <b>b</b> <a href="/x">c</a><ul><li>d</ul></ul><p>[[[[ **** ____ ```` $$</p>'

    def work(times: int) -> None:
        markdown([html.fragment_fromstring(f"<div>{part * times}</div>")], "https://example.org/")

    assert_in_proportion(work, 1000)
