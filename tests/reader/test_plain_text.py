"""Markdown converted to plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.plain_text import plain, visible_text

CASES = {
    "headings": ("# One\n\n## Two #3", "One\n\nTwo #3"),
    "emphasis": ("*a* **b** ~~c~~ ***d*** 語**強調**語", "a b c d 語強調語"),
    "words with underscores": ("snake_case _em_ __all__", "snake_case em all"),
    "links and images": ("[a](https://e.org/x_(y) \"t\") ![alt](https://e.org/i.png) "
                         "<https://e.org/>", "a alt https://e.org/"),
    "an image in a link": ("[![alt](https://e.org/i.png)](https://e.org/)", "alt"),
    "escapes": ("\\*a\\* \\[b](c) 1\\. d", "*a* [b](c) 1. d"),
    "code in a line": ("`*a*` and ``b ` c``", "*a* and b ` c"),
    "listings as they are": ("```python\n# not *a* heading\n  x = "
                             "[1](2)\n```\nafter", "# not *a* heading\n  x = [1](2)\nafter"),
    "longer fences": ("````\n```\nx\n````", "```\nx"),
    "lists": ("- a\n  - b\n1. c", "- a\n  - b\n1. c"),
    "quotations": ("> a\n> > b", "a\nb"),
    "tables": ("| a | b |\n| --- | --- |\n| 1\\|2 | **x** |", "a\tb\n1|2\tx"),
    "rules": ("a\n\n---\n\nb", "a\n\n\nb"),
    "footnotes": ("Text[^1]\n\n[^1]: The note.", "Text[1]\n\n1. The note."),
    "text with a bar and a rule's look": ("a | b --- c", "a | b --- c"),
}  # fmt: skip


@pytest.mark.parametrize(("markdown", "text"), CASES.values(), ids=CASES.keys())
def test_marks_go_and_words_stay(markdown: str, text: str) -> None:
    assert plain(markdown) == text


@given(st.text(max_size=200))
def test_anything_is_text(markdown: str) -> None:
    assert isinstance(plain(markdown), str)


@pytest.mark.parametrize(
    ("sheet", "element"),
    [
        (".x{display:none}", "<p class=x>{}</p>"),
        (".a{color:red}.x , .y{ DISPLAY : None }", "<p class='a x'>{}</p>"),
        ("#x{visibility:hidden}", '<p id="x">{}</p>'),
        ("aside{opacity:0}", "<aside>{}</aside>"),
        ("p.x{font-size:0}", "<p class=x>{}</p>"),
        ("/* } */ .x{position:absolute;left:-9999px}", "<p class=x>{}</p>"),
        ("@media screen{.x{display:none}}", "<p class=x>{}</p>"),
        ("@media print{.y{color:red}}.x{text-indent:-999em}", "<p class=x>{}</p>"),
        ("", "<p style='position:absolute;left:-9999px'>{}</p>"),
        ("", "<p style='clip-path:inset(100%)'>{}</p>"),
        ("", "<p style='transform:scale(0)'>{}</p>"),
        ("", "<p style='opacity:.0'>{}</p>"),
        ("", "<p aria-hidden=true>{}</p>"),
    ],
)
def test_text_that_simple_styles_hide_is_skipped(sheet: str, element: str) -> None:
    source = f"<style>{sheet}</style><p>Seen.</p>{element.format('Hidden.')}<p>End.</p>"
    assert visible_text(source) == "Seen.\n\nEnd."


@pytest.mark.parametrize(
    ("sheet", "element"),
    [
        (".y{display:none}", "<p class=x>{}</p>"),
        (".x .y{display:none}", "<p class=x>{}</p>"),
        (".x:hover{display:none}", "<p class=x>{}</p>"),
        (".x{display:none}.x{display:block}", "<p class=x>{}</p>"),
        ("@media print{.x{display:none}}", "<p class=x>{}</p>"),
        ("@media (max-width:600px){.x{display:none}}", "<p class=x>{}</p>"),
        ("@keyframes k{to{opacity:0}}to{color:red}", "<to>{}</to>"),
        ("body{opacity:0}", "<p class=x>{}</p>"),
        ("div.x{display:none}", "<p class=x>{}</p>"),
        ("", "<p style='margin-left:-20px;opacity:.5'>{}</p>"),
    ],
)
def test_text_that_no_simple_style_hides_is_kept(sheet: str, element: str) -> None:
    source = f"<style>{sheet}</style><p>Seen.</p>{element.format('Shown.')}<p>End.</p>"
    assert visible_text(source) == "Seen.\n\nShown.\n\nEnd."


@given(st.text(alphabet="{}@;:.#ax/* <>'", max_size=300))
def test_any_style_sheet_is_read(sheet: str) -> None:
    assert isinstance(visible_text(f"<style>{sheet}</style><p class=a>x"), str)
