"""Long pages keep their later parts, whatever stands after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.blocks import BlockSegmentation, measured
from tabane.reader.extraction.content import lost_share, selected
from tabane.reader.extraction.html_tree import parsed

_MENU = "".join(f"<li><a href='/part/{n}'>Part {n}</a></li>" for n in range(20))
_FRAME = (
    "<html><head><title>{title}</title></head><body><header><a href='/'>The site</a></header>"
    "<nav><ul>" + _MENU + "</ul></nav><main><h1>{title}</h1>{main}</main>"
    "<footer><p>FOOT © 2026 The site. <a href='/terms'>Terms</a> <a href='/privacy'>Privacy</a></p></footer>"
    "</body></html>"
)
_SENTENCE = "The command reads the file number {n} and writes what it found in it, which takes time. "
_JAPANESE = "この章の{n}番目の節では、設定ファイルの書き方と、読み込まれる順番について説明します。"


def _manual(sections: int) -> Iterator[str]:
    for n in range(sections):
        yield f"<section><h2>Section {n}</h2><p>START{n}. {_SENTENCE.format(n=n) * 2}</p>"
        yield f"<pre>run --file {n}\nrun --again {n}</pre><ul><li>Option {n} sets the size of each part.</li>"
        yield f"<li>Option {n}b sets how long it waits.</li></ul><p>{_SENTENCE.format(n=n)} END{n}.</p>"
        yield "</section>"


def _options(count: int) -> Iterator[str]:
    yield "<h2>Options</h2><dl>"
    for n in range(count):
        yield f"<dt><code>--option-{n}</code></dt><dd><p>START{n}. {_SENTENCE.format(n=n)} END{n}.</p></dd>"
    yield "</dl>"


def _thread(comments: int) -> Iterator[str]:
    for n in range(comments):
        yield f"<div class='comment'><div class='head'><a href='/u/{n}'>user{n}</a> {n} hours ago</div>"
        yield f"<div class='text'>START{n}. {_SENTENCE.format(n=n)} END{n}.</div></div>"


def _japanese(sections: int) -> Iterator[str]:
    for n in range(sections):
        yield f"<h2>第{n}章</h2><p>START{n}。{_JAPANESE.format(n=n) * 2}END{n}。</p>"


@pytest.mark.parametrize(
    ("parts", "count"),
    [(_manual, 60), (_options, 120), (_thread, 60), (_japanese, 100)],
)
def test_a_long_page_keeps_all_its_sections(parts: object, count: int) -> None:
    assert callable(parts)
    page = extract(
        _FRAME.format(title="A long page", main="".join(parts(count))), "https://site.example/long"
    )
    lost = [n for n in range(count) if f"START{n}" not in page.markdown or f"END{n}" not in page.markdown]
    assert not lost
    assert "FOOT" not in page.markdown
    assert "Part 7" not in page.markdown
    assert not page.warnings


def _blocks(html: str) -> BlockSegmentation:
    cutting = BlockSegmentation(parsed(html))
    measured(cutting)
    return cutting


def test_a_container_of_whose_text_most_is_kept_is_kept_whole() -> None:
    words = "one two three four five six seven eight nine ten " * 30
    html = f"<article>{f'<p>{words}</p>' * 9}<section><div>{words}</div></section></article><p>{words}</p>"
    blocks = _blocks(html).blocks
    sure = [0.95] * 9
    assert selected(blocks, [*sure, 0.4, 0.05]) == [True] * 10 + [False]
    assert selected(blocks, [*sure, 0.05, 0.05]) == [True] * 9 + [False] * 2


def test_the_share_that_a_container_lost_is_that_of_its_own_prose() -> None:
    html = f"<article>{'<p>one two six four</p>' * 4}<div><a href='/'>one two</a></div></article><p>five</p>"
    blocks = _blocks(html).blocks
    assert lost_share(blocks, [True, True, True, True, False, False]) == 0.0
    assert lost_share(blocks, [True, True, True, False, False, False]) == 0.25
