"""Notes, captions, figures and link cards belong to their text."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tabane.reader.extraction.article import extract
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
