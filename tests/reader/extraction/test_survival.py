"""All that the converter can write survives the extraction of an article."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tabane.reader.extraction.article import extract
from tabane.reader.markdown import converter, inline
from tabane.reader.markdown.elements import EMPTY, HEADINGS, LISTS, WORDLESS
from tabane.reader.markdown.inline import SOURCES

URL = "https://site.example/a/page"
PROSE = (
    "<p>The station stood on the roof of the old mill for nine years, where nothing shaded it and hardly"
    " anybody could reach it, until the roof began to leak.</p>"
    "<p>Then it was moved to the meadow behind the school, which is lower, wetter and far more sheltered, so"
    " that every reading has to be compared with care.</p>"
)
DEEP = "The well behind the school is deep, and its water is as cold in the summer as in the winter."
TABLE = tomllib.loads(Path(__file__).with_name("survival.toml").read_text("utf-8"))
FEATURES: dict[str, tuple[str, str]] = {
    **{name: (case["html"], case["markdown"]) for name, case in TABLE.items()},
    **{
        tag: (
            f"<{tag}>Readings by day</{tag}><p>They are lower than those before.</p>",
            f"{'#' * level} Readings by day",
        )
        for tag, level in HEADINGS.items()
    },
    "depth": (
        "".join(
            f"<div><p>In the year {n} the wind came from the hills, as was written.</p>" for n in range(300)
        )
        + "<p>It is very deep, as nobody had thought before.</p>"
        + "</div>" * 300,
        "In the year 299 the wind came from the hills, as was written.\n\nIt is very deep, as nobody",
    ),
    "deep boxes": ("<div>" * 400 + f"<h2>Deep</h2><p>{DEEP}</p>" + "</div>" * 400, f"## Deep\n\n{DEEP}"),
}
"""By feature: HTML amid an article, and the Markdown that must be there."""

_WITHOUT_TEXT = frozenset(("td", "th", "col", "colgroup"))  # of tables, which are one feature


def page(inside: str) -> str:
    return (
        "<html><head><title>The station</title></head><body><nav><a href='/'>Home</a>"
        "<a href='/b'>Other</a></nav>"
        f"<article><h1>The station</h1>{PROSE}{inside}{PROSE}</article><footer>© Mill</footer></body></html>"
    )


@pytest.mark.parametrize("feature", FEATURES)
def test_it_survives_the_extraction(feature: str) -> None:
    html, expected = FEATURES[feature]
    markdown = extract(page(html), URL).markdown
    assert "roof of the old mill" in markdown
    assert expected in markdown


@pytest.mark.parametrize("feature", ["annotation", "formula of a wiki", "formula of MathJax 3"])
def test_a_formula_in_two_forms_is_no_reason_for_a_warning(feature: str) -> None:
    assert extract(page(FEATURES[feature][0]), URL).warnings == ()


def test_every_feature_of_the_converter_has_a_case() -> None:
    written = {*converter.TAGS, *inline.TAGS, *HEADINGS, *LISTS, *SOURCES, *WORDLESS, *EMPTY}
    assert written - _WITHOUT_TEXT <= FEATURES.keys()
