"""Long pages come in parts that are whole to a reader, and together are the page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.reader.paging import FORMATS, PageCursor, PagePart, decode, digest, encode, part, tokens

_PIECES = st.sampled_from(
    [
        "# One\n\n", "## Two\n\n", "One. And more.\n\n", "日本語の文です。次の文です。\n\n",
        "- item\n- item\n  - inner\n\n", "```py\nx = 1\n\ny = 2\n```\n\n", "~~~\n```\n~~~\n\n",
        "word " * 60 + "\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n\n", "> quoted\n> more\n\n",
        "- ```js\n  a()\n  ```\n\n", "x" * 300 + "\n\n", "\n\n\n",
    ]
)  # fmt: skip


def parts(whole: str, budget: int, *, structured: bool = True) -> list[PagePart]:
    found = [part(whole, 0, budget, structured=structured)]
    while not found[-1].last:
        found.append(part(whole, found[-1].end, budget, structured=structured))
    return found


@settings(deadline=None)
@given(st.lists(_PIECES, max_size=25).map("".join), st.integers(20, 300))
def test_the_parts_are_the_page(whole: str, budget: int) -> None:
    found = parts(whole, budget)
    assert "".join(whole[each.start : each.end] for each in found) == whole
    assert all(tokens(whole[each.start : each.end]) <= budget for each in found)


@settings(deadline=None)
@given(st.lists(_PIECES, max_size=25).map("".join), st.integers(30, 300))
def test_code_that_is_open_is_closed_in_every_part(whole: str, budget: int) -> None:
    for each in parts(whole, budget):
        fence = None
        for line in each.text.splitlines():
            found = re.match(r"[ >]*(?:- )?(```|~~~)", line)
            if found and fence is None:
                fence = found[1]
            elif found and found[1] == fence:
                fence = None
        assert fence is None, each.text


@given(st.text(max_size=2000), st.integers(5, 200))
def test_any_text_comes_whole(whole: str, budget: int) -> None:
    for structured in (True, False):
        found = parts(whole, budget, structured=structured)
        assert "".join(whole[each.start : each.end] for each in found) == whole


def test_a_part_ends_before_a_heading_and_never_behind_one() -> None:
    whole = "# A\n\n" + "text here. " * 30 + "\n\n## B\n\n" + "more text. " * 30 + "\n\n## C\n\nend\n"
    first, second, *_ = parts(whole, 140)
    assert first.text.startswith("# A")
    assert second.text.startswith("## B\n")
    assert all(not re.search(r"^#+ .*\n*\Z", each.text, re.MULTILINE) for each in (first, second))


@pytest.mark.parametrize(
    ("better", "unit", "separator"),
    [
        ("## B\n\nheaded  ", "text text text", "\n\n"),
        ("\nparagraph ", "text text t", "\n"),
        ("- item text", "text text t", "\n"),
    ],
    ids=["heading", "paragraph", "item"],
)
def test_a_part_ends_at_a_better_place_only_if_that_is_in_its_second_half(
    better: str, unit: str, separator: str
) -> None:
    limit = 20 * len(unit + separator)
    for place in range(2, 20):
        whole = "".join((better if number == place else unit) + separator for number in range(100))
        found = part(whole, 0, tokens(whole[:limit]))
        assert found.end == (whole.index(better.strip()) if place >= 10 else limit), place


def test_a_table_that_goes_on_has_its_head_again_and_code_its_language() -> None:
    table = "| n | v |\n|---|---|\n" + "".join(f"| {n} | value |\n" for n in range(80))
    for each in parts(table, 100)[1:]:
        assert each.text.startswith("| n | v |\n|---|---|\n| ")
    code = "```python\n" + "".join(f"x = {n}\n" for n in range(200)) + "```\n"
    found = parts(code, 100)
    assert len(found) > 3
    for each in found:
        assert each.text.startswith("```python\nx = ")
        assert each.text.endswith("\n```\n")


def test_a_line_without_end_is_cut_behind_a_sentence() -> None:
    whole = "これは日本語の文です。" * 100
    first = part(whole, 0, 105)
    assert first.text.endswith("。")
    assert 50 < len(first.text) <= 105


def test_tokens_count_ascii_by_four_and_others_one_by_one() -> None:
    assert (tokens(""), tokens("abcd"), tokens("abcde"), tokens("日本"), tokens("ab日本")) == (0, 1, 2, 2, 3)


def test_a_cursor_says_what_it_was_given_for() -> None:
    for form in FORMATS:
        cursor = PageCursor(123_456, form, False, 8000, digest("page"), digest("https://a.test/"))
        assert decode(encode(cursor), "https://a.test/") == cursor


@pytest.mark.parametrize("text", ["", "x", "AAAA", "日本", "!" * 50, "A" * 43, "../../etc"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadArguments, match="cursor"):
        decode(text, "https://a.test/")


def test_a_cursor_is_of_its_url_and_not_to_be_changed() -> None:
    cursor = encode(PageCursor(5, "markdown", True, 100, digest("page"), digest("https://a.test/")))
    with pytest.raises(BadArguments, match="another URL"):
        decode(cursor, "https://b.test/")
    changed = cursor[:8] + ("A" if cursor[8] != "A" else "B") + cursor[9:]
    with pytest.raises(BadArguments):
        decode(changed, "https://a.test/")
