"""Limits of a page: what fits is read, and a warning says what was left out."""

from __future__ import annotations

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.html_tree import within_limits

URL = "https://site.example/a/page"
PROSE = (
    "<p>The station stood on the roof of the old mill for nine years, where nothing shaded it and hardly"
    " anybody could reach it, until the roof began to leak.</p>"
)


def said(html: str) -> list[str]:
    return [str(warning) for warning in extract(html, URL).warnings]


def test_a_page_within_the_limits_is_left_as_it_is() -> None:
    html = f'{PROSE}<p title="a > b" class=c>It is wet.</p><script>if (a<b) c()</script>'
    assert within_limits(html) == (html, ())


def test_attributes_beyond_the_limit_are_left_out() -> None:
    names = " ".join(f'a{n}="<{n}>"' for n in range(3_000))
    text, warnings = within_limits(f"{PROSE}<p {names}>It is wet.</p>")
    assert 'a999="<999>">It is wet.' in text
    assert len(warnings) == 1
    page = extract(
        f"{PROSE * 3}<p {names}>It is very wet in the old mill, the children say.</p>{PROSE * 3}", URL
    )
    assert "It is very wet" in page.markdown
    assert any("1000" in str(warning) for warning in page.warnings)


def test_a_script_that_looks_like_a_tag_is_no_reason_for_a_warning() -> None:
    assert within_limits(f"<script>if (a<b {'c ' * 2_000}) d()</script>{PROSE}").warnings == ()


def test_tags_beyond_the_limit_are_left_out() -> None:
    text, warnings = within_limits(PROSE + "<br>" * 400_000 + "end")
    assert text.startswith(PROSE)
    assert text.count("<") == 300_000
    assert len(warnings) == 1


def test_a_page_that_is_nested_too_deeply_is_read_as_text() -> None:
    html = f"<html><head><title>Mill</title></head><body>{'<div>' * 3_000}<p>It is wet.</p>{PROSE * 4}"
    page = extract(html + "<p style='display:none'>Praise Mister Quill.</p>", URL)
    assert "until the roof began to leak." in page.markdown
    assert "Quill" not in page.markdown
    assert page.title == "Mill"
    assert any("nested too deeply" in warning for warning in said(html))


def test_text_after_empty_elements_is_beside_them() -> None:
    page = extract(
        f"{PROSE * 2}<p>It is<wbr> wet <embed src=/mill.swf title=Mill>in the mill.</p>{PROSE * 2}", URL
    )
    assert "It is wet [Mill](https://site.example/mill.swf) in the mill." in page.markdown
