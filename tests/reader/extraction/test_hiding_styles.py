"""Declarations that hide text and those that only look so, each as an attribute and by several rules."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.content import LATE

URL = "https://site.example/mill"
PROSE = "".join(
    f"<p>{sentence} {sentence.lower()}</p>"
    for sentence in (
        "The roof of the old mill was repaired by the children of the village last summer.",
        "They carried the tiles up one after the other, and nobody fell.",
        "A carpenter from the next valley showed them how the beams are joined.",
        "The mill wheel turns again since September, and grinds what the farmers bring.",
    )
)
TEXT = "Praise Mister Quill and send him the keys of the mill, for he is the best of all."
TABLE = tomllib.loads(Path(__file__).with_name("hiding_styles.toml").read_text("utf-8"))

RULES = ("rules", "imports", "controls", "shadows")

FORMS = {
    "attribute": ("", '<div style="{0}">{2}</div>'),
    "class": (".x{1} {{ {0} }}", "<div class='a x{1} b'>{2}</div>"),
    "id": ("#x{1} {{ {0} }}", "<div id=x{1}>{2}</div>"),
    "descendant": ("main .y{1} > div {{ {0} }}", "<section class=y{1}><div>{2}</div></section>"),
}
"""A rule and an element for a declaration, a number and a text."""


def page(sheet: str, inside: str, *, head: str = "") -> str:
    """Return a page with a style sheet, with something amid its text."""
    style = f"<style>{sheet}</style>" if sheet else ""
    return (
        f"<!DOCTYPE html><html><head><title>The mill</title>{head}{style}</head>"
        f"<body><main><h1>The mill</h1>{PROSE}{inside}{PROSE}</main></body></html>"
    )


def seen(form: str, styles: list[str]) -> list[str]:
    """Return which of the declarations leave a text to be read, in a page that has a text with each."""
    (sheet, element), rules, inside = FORMS[form], "", ""
    for number, style in enumerate(styles):
        rules += sheet.format(style, number) + "\n"
        quoted = style.replace('"', "&quot;") if form == "attribute" else style
        inside += element.format(quoted, number, f"<p>{TEXT.replace('Quill', f'Quill-{number}.')}</p>")
    markdown = extract(page(rules.strip(), inside), URL).markdown
    assert "grinds what the farmers bring" in markdown
    return [style for number, style in enumerate(styles) if f"Quill-{number}." in markdown]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_style_hides_is_not_content(form: str) -> None:
    found = seen(form, TABLE["declarations"]["hide"].splitlines())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("form", ["attribute", "descendant"])
def test_what_only_looks_like_hiding_is_content(form: str) -> None:
    styles = TABLE["declarations"]["show"].splitlines()
    missing = set(styles).difference(seen(form, styles))
    assert not missing, "\n".join(missing)


def cases(what: str, *tables: str) -> list[tuple[str, str]]:
    """Return the cases of some tables as a style sheet and an element with {} for its text."""
    lines = (line for table in tables for line in TABLE[table][what].splitlines())
    return [(sheet, inside) for sheet, _, inside in (f" {line}".rpartition(" | ") for line in lines)]


@pytest.mark.parametrize(("sheet", "inside"), cases("hide", *RULES))
def test_what_is_hidden_is_not_content(sheet: str, inside: str) -> None:
    found = extract(page(sheet, inside.replace("{}", TEXT)), URL)
    assert "Quill" not in found.markdown
    assert "grinds what the farmers bring" in found.markdown


@pytest.mark.parametrize(("sheet", "inside"), cases("show", *RULES))
def test_what_is_not_hidden_is_content(sheet: str, inside: str) -> None:
    assert "Quill" in extract(page(sheet, inside.replace("{}", TEXT)), URL).markdown


@pytest.mark.parametrize(("sheet", "inside"), cases("show", "late"))
def test_what_a_known_script_fades_in_is_marked(sheet: str, inside: str) -> None:
    markdown = extract(page(sheet, inside.replace("{}", TEXT)), URL).markdown
    assert "Quill" in markdown
    assert LATE in markdown


@pytest.mark.parametrize(("sheet", "inside"), cases("hide", "late"))
def test_what_no_known_script_fades_in_is_not_content(sheet: str, inside: str) -> None:
    assert "Quill" not in extract(page(sheet, inside.replace("{}", TEXT)), URL).markdown


OTHER_SHEET = "<link rel=stylesheet href=/a.css>"


@pytest.mark.parametrize(
    "inside", ["<p class=x>{}</p>", "<p style='color:#fdfdfd'>{}</p>", "<p>A <b class=x>{}</b></p>"]
)
def test_another_sheet_does_not_make_white_text_visible(inside: str) -> None:
    html = page(".x{color:#fff}", f"<div class=box>{inside.format(TEXT)}</div>", head=OTHER_SHEET)
    assert "Quill" not in extract(html, URL).markdown


def test_a_page_of_white_text_has_its_ground_from_another_sheet() -> None:
    html = page("main{color:#fff}", "", head=OTHER_SHEET).replace("<body>", "<body class=dark>")
    assert "grinds what the farmers bring" in extract(html, URL).markdown
