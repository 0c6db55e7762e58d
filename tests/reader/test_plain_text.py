"""Markdown converted to plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.plain_text import plain

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
