"""Invisible characters are removed and reported; those that a script needs are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.messages import say
from tabane.reader.hidden_text import (
    in_words,
    one_line,
    warnings_of,
    with_whole_links,
    without_comments,
    without_links,
)
from tabane.text.invisible_characters import cleaned
from tests.harness.patience import assert_in_proportion

FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize(
    "text",
    [
        FAMILY, "🏳️‍🌈 👩🏽‍🚀 👨‍⚕️ 🏃‍♀️‍➡️", "❤️ ☎︎ 1️⃣ ©️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿", "نمی‌خواهم", "क्‍ष र्‍य", "葛󠄀城市 辻󠄂",
        "ᠠ᠋ᠭ", "שלום\u200f!", "สวัสดี\u200bครับ", "a\tb\nc", "日本語、です。", "naïve Straße", "0\ufe00",
    ],
)  # fmt: skip
def test_what_a_script_needs_stays(text: str) -> None:
    assert cleaned(text) == (text, {})


@pytest.mark.parametrize(
    ("text", "left", "removed"),
    [
        ("a" + "".join(chr(0xE0000 + ord(c)) for c in "obey"), "a", {"tag": 4}),
        ("🏴" + "".join(chr(0xE0000 + ord(c)) for c in "obeyme") + "\U000e007f", "🏴", {"tag": 7}),
        ("😀" + "\ufe0f\ufe01\ufe05\ufe0b" + "!", "😀\ufe0f!", {"variation selector": 3}),
        ("a\ufe01b", "ab", {"variation selector": 1}),
        ("a\U000e0100", "a", {"variation selector": 1}),
        ("pay\u200b\u200c\u200d\u2060pal", "paypal", {"zero-width": 4}),
        ("a\u200db", "ab", {"zero-width": 1}),
        ("\u202eelif.exe\u202c \u2066x\u2069", "elif.exe x", {"direction": 4}),
        ("left\u200e right", "left right", {"direction": 1}),
        ("\x1b[2Jgone\x00\x07\x9b", "[2Jgone", {"control": 4}),
        ("a\u3164\u115f\u034f\u00adb", "ab", {"zero-width": 4}),
        ("half \ud83d and \ufffe", "half  and ", {"broken": 2}),
        ("\ufeffstart", "start", {"zero-width": 1}),
    ],
)
def test_what_nobody_sees_goes_and_is_counted_by_kind(text: str, left: str, removed: dict[str, int]) -> None:
    assert cleaned(text) == (left, removed)


def test_lines_end_in_one_way() -> None:
    assert cleaned("a\r\nb\rc\u2028d\u2029e\x85f").text == "a\nb\nc\nd\ne\nf"


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Mn", "Lo", "Zl", "Zp", "Cn"])))
def test_text_that_is_seen_is_left_alone(text: str) -> None:
    assert cleaned(text) == (text, {})


@given(st.text())
def test_a_clean_text_is_clean(text: str) -> None:
    once = cleaned(text)
    assert cleaned(once.text) == (once.text, {})


def test_comments_and_notes_go_and_code_keeps_its_own() -> None:
    markdown = (
        "a <!-- ignore `all` of it --> b `<!-- shown -->`\n\n```html\n<!-- shown -->\n```\n\n"
        "[//]: # (do as I say)\n<!--\n```\nnot code\n```\n-->\nend <!-- never closed"
    )
    text, count = without_comments(markdown)
    assert text == "a  b `<!-- shown -->`\n\n```html\n<!-- shown -->\n```\n\n\nend "
    assert count == 4


def test_links_give_way_to_their_texts_and_code_stays() -> None:
    markdown = (
        'See [the [old] page](http://a.test/x_(y) "t"), ![a cat](cat.png), [![logo](l.png)](/home) and '
        "`[code](stays)`.\n\n```\n[x](y)\n```\n"
    )
    assert without_links(markdown) == (
        "See the [old] page, a cat, logo and `[code](stays)`.\n\n```\n[x](y)\n```\n"
    )


def test_links_lead_where_they_lead_from_the_page() -> None:
    markdown = (
        "[a](/x) ![b](p.png 'T') [![c](../c.png)](d) [e](#f) [g](mailto:h@i) [j](https://k.test/) `[l](m)`\n"
        "\n[n]: o/p\n\n```\n[q](r)\n```\n"
    )
    assert with_whole_links(markdown, "https://z.test/docs/guide") == (
        "[a](https://z.test/x) ![b](https://z.test/docs/p.png 'T') "
        "[![c](https://z.test/c.png)](https://z.test/docs/d) [e](#f) [g](mailto:h@i) [j](https://k.test/) "
        "`[l](m)`\n"
        "\n[n]: https://z.test/docs/o/p\n\n```\n[q](r)\n```\n"
    )


@pytest.mark.parametrize("bad", ["[", "`", "<!--", "![[", "[a](", "` `` ", "```\n", "> - "])
def test_work_on_any_text_is_in_proportion_to_it(bad: str) -> None:
    def work(size: int) -> None:
        text = bad * (size // len(bad))
        cleaned(text), without_comments(text), without_links(text)
        with_whole_links(text, "https://a.test/")

    assert_in_proportion(work, 20_000)


def test_a_title_is_one_short_line() -> None:
    assert one_line(" A\n title\u202e \x00here ") == "A title here"
    assert one_line("\u200b ") is None
    assert one_line("x" * 500) == "x" * 299 + "…"


def test_what_was_taken_out_is_told_in_one_sentence() -> None:
    (warning,) = warnings_of({"tag": 1200, "control": 2})
    assert (
        str(warning)
        == "1,202 invisible characters were removed (control characters 2, tag characters 1,200)."
    )
    assert not warnings_of({})


def test_what_a_server_says_in_a_failure_is_on_one_line_and_seen() -> None:
    said = say("{host}: {why}", host="a.test", why=say("{x} {n}", x="\x1b[31mred\nred\u202e", n=3))
    assert str(in_words(said)) == "a.test: [31mred red 3"
