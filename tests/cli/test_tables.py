"""Tables fit their terminal, and say everything that they were given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.cli.drawing import fitting, table_lines
from tabane.cli.terminal_text import StyledText, cells, plain


def lines(*rows: tuple[str, ...], columns: int, whole: tuple[int, ...] = ()) -> list[str]:
    shown = [[StyledText(cell) for cell in row] for row in rows]
    return [plain(line) for line in table_lines(shown, columns=columns, whole=whole)]


def test_columns_are_aligned_also_with_wide_characters() -> None:
    assert lines(("時計", "a"), ("x", "b"), columns=80) == ["時計  a", "x     b"]


def test_a_long_cell_is_wrapped_and_a_whole_one_is_not() -> None:
    shown = lines(("a-name-of-20-letters", "these are many words of text"), columns=36, whole=(0,))
    assert shown == ["a-name-of-20-letters  these are many", " " * 22 + "words of text"]


def test_a_terminal_that_obeys_characters_is_not_given_them() -> None:
    assert lines(("a\x1b[31m\rb", "c"), columns=80) == ["a\ufffdb  c"]


def test_without_rows_there_are_no_lines() -> None:
    assert lines(columns=80) == []


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(1, 200), st.sets(st.integers(0, 7)))
def test_widths_fit_if_they_can_and_none_grows(natural: list[int], room: int, whole: set[int]) -> None:
    widths = fitting(natural, room, whole)
    assert all(width <= before for width, before in zip(widths, natural, strict=True))
    assert sum(widths) <= max(room, len(natural))


WORD = st.text(st.sampled_from("ab猫 -"), max_size=60)


@given(st.lists(st.tuples(WORD, WORD, WORD), max_size=4), st.integers(30, 120))
def test_nothing_is_lost_and_nothing_is_too_wide(rows: list[tuple[str, str, str]], columns: int) -> None:
    shown = lines(*rows, columns=columns)
    assert all(cells(line) <= columns for line in shown)
    letters = sorted("".join("".join(row) for row in rows).replace(" ", ""))
    assert sorted("".join(shown).replace(" ", "")) == letters
