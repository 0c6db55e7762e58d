"""Notes, captions, figures and link cards belong to their text."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.content import cut
from tabane.reader.extraction.end_matter import with_end_matter
from tabane.reader.extraction.html_tree import parsed
from tests.harness.patience import assert_in_proportion
from tests.reader.extraction.test_extracting import PROSE, URL

TABLE = tomllib.loads(Path(__file__).with_name("end_matter.toml").read_text("utf-8"))
CASES = {f"{kind}: {name}": case for kind, cases in TABLE.items() for name, case in cases.items()}


def page_with(amid: str = "", behind: str = "", outside: str = "") -> str:
    return (
        "<html><head><title>The station</title></head><body><nav><a href='/'>Home</a><a href='/b'>Other</a>"
        f"</nav><main><article><h1>The station</h1>{PROSE}{amid}{PROSE}{behind}</article>{outside}</main>"
        "<footer>© Mill</footer></body></html>"
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_belongs_to_a_text_is_kept(case: dict[str, Any]) -> None:
    parts = {name: case.get(name, "") for name in ("amid", "behind", "outside")}
    written = extract(page_with(**parts), URL).markdown
    assert written.count("The station stood on the roof") == 2
    for words in case.get("says", ()):
        assert words in written
    for words in case.get("omits", ()):
        assert words not in written


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ('<p>x<sup><a href="#n{n}">{n}</a></sup></p>', '<ol><li id="n{n}">note <a href="#">^</a></li></ol>'),
        ('<span><a href="#n0">[1]</a>', '<a name="n{n}"><a href="#n{n}">1</a></a>'),
        ('<div class="figure"><figure>', "<figcaption>x</figcaption>"),
        ('<div class="toc"><div class="card">', "y"),
        ('<div class="admonition note">', '<p class="title">z</p>'),
    ],
)
def test_hostile_references_take_time_in_proportion(first: str, then: str) -> None:
    def read(count: int) -> None:
        parts = "".join(first.format(n=n) for n in range(count))
        parts += "".join(then.format(n=n) for n in range(count))
        extract(page_with(parts), URL)

    assert_in_proportion(read, 300)


def test_a_card_of_which_a_part_is_content_is_kept_whole() -> None:
    card = (
        '<div class="sd-card"><div class="sd-card-body"><div class="sd-card-title">Card one</div>'
        '<p class="sd-card-text">Its text</p></div><a class="sd-stretched-link" href="/api">API</a></div>'
    )
    cutting, _ = cut(parsed(f"<main><p>Before.</p>{card}<p>Behind.</p><p>Elsewhere.</p></main>"))
    texts = [block.text for block in cutting.blocks]
    assert texts == ["Before.", "Card one", "Its text", "API", "Behind.", "Elsewhere."]
    kept = with_end_matter(cutting, [text in ("Before.", "Card one", "Behind.") for text in texts])
    assert kept == [True, True, True, True, True, False]
