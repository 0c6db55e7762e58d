"""Texts are cut where a reader would cut them, and so that nothing is lost."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.search.chunking import Chunk, Estimate, Kind, chunks

ROOT = Path(__file__).parents[2]
KINDS: tuple[Kind, ...] = ("markdown", "text", "code")


@dataclass(frozen=True)
class Words:
    """A measure by words and characters of Japanese."""

    capacity: int
    name: str = "words"

    def count(self, text: str) -> int:
        return len(re.findall(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]", text))


@dataclass(frozen=True)
class Characters:
    """A measure to which blanks count too."""

    capacity: int
    name: str = "characters"

    def count(self, text: str) -> int:
        return len(text)


def texts(text: str, found: Sequence[Chunk]) -> list[str]:
    return [text[chunk.start : chunk.end] for chunk in found]


def cut(text: str, capacity: int, kind: Kind = "markdown") -> list[str]:
    return texts(text, chunks(text, kind, Words(capacity)))


def covers(text: str, found: Sequence[Chunk]) -> None:
    assert [chunk.end for chunk in found] == sorted({chunk.end for chunk in found})
    assert [chunk.start for chunk in found] == sorted({chunk.start for chunk in found})
    reached = 0
    for chunk in found:
        assert chunk.start <= reached < chunk.end
        reached = chunk.end
    assert reached == len(text)


def one_character(text: str) -> bool:
    """Whether a reader takes the text for one: marks follow it, a joiner brings another, a flag has two."""
    rest = re.sub(r"\u200d.|[🇦-🇿]{2}", "", text, flags=re.DOTALL)
    return sum(unicodedata.category(each) not in ("Mn", "Mc", "Me", "Cf", "Sk") for each in rest.strip()) <= 1


PIECES = st.sampled_from(
    [
        *(
            "# One\n",
            "## 二\n\n",
            "Title\n===\n",
            "A sentence. And another! ",
            "これは文です。次の文、続き。",
            "\n",
            "\n\n",
        ),
        *(
            "- item\n",
            "  - nested\n",
            "1. first\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n",
            "```py\n",
            "def f():\n\n",
            "```\n",
        ),
        *(
            "    code()\n",
            "> quote\n",
            "---\n",
            "<div>\n",
            "word " * 40,
            "あ" * 50,
            "x" * 90,
            "\r\n",
            "\t",
            "　段落。\n",
        ),
        *("👨‍👩‍👧‍👦" * 5, "が" * 9, "🇯🇵🇫🇷", "\ud800", "e\u0301\u0301", " ", "\f"),
    ]
)
DOCUMENTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=30).map("".join)


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS, st.sampled_from(KINDS), st.integers(1, 80), st.sampled_from([Words, Characters]))
def test_chunks_cover_the_text_and_hold_the_capacity(text: str, kind: Kind, capacity: int, kin: Any) -> None:
    measure = kin(capacity)
    found = chunks(text, kind, measure)
    if text:
        covers(text, found)
    else:
        assert found == []
    assert chunks(text, kind, measure) == found
    for chunk in found:
        part = text[chunk.start : chunk.end]
        together = measure.count(part) + min(measure.count("\n".join(chunk.headings)), capacity // 4)
        assert together <= capacity or one_character(part)


@pytest.mark.parametrize(
    "path", sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.ja.md"]), ids=lambda p: p.name
)
@pytest.mark.parametrize("capacity", [60, 238, 512])
def test_real_documents_are_cut_whole_and_into_fair_parts(path: Path, capacity: int) -> None:
    text = path.read_text("utf-8")
    measure = Estimate(capacity, "")
    found = chunks(text, "markdown", measure)
    covers(text, found)
    sizes = [measure.count(part) for part in texts(text, found)]
    assert max(sizes) <= capacity
    assert len(found) <= 3 * sum(sizes) / capacity + 2


def test_a_document_that_fits_is_one_chunk() -> None:
    text = "# Title\n\nSome text.\n\n## Part\n\nMore text.\n"
    assert chunks(text, "markdown", Words(100)) == [Chunk(0, len(text), ("Title",))]


def test_sections_stay_apart_and_know_the_headings_above_them() -> None:
    body = "word " * 30
    text = f"# 題\n\n{body}\n\n## *Part* `one`\n\n{body}\n\n### Deep\n\n{body}\n\n## Part [two](http://x)\n\n{body}\n"
    found = chunks(text, "markdown", Words(55))
    assert [chunk.headings for chunk in found] == [
        ("題",),
        ("題", "Part one"),
        ("題", "Part one", "Deep"),
        ("題", "Part two"),
    ]
    assert all(part.startswith("#") for part in texts(text, found))


def test_two_sections_that_would_fit_together_stay_apart_where_each_says_something() -> None:
    text = f"## One\n\n{'word ' * 20}\n\n## Two\n\n{'word ' * 20}\n\n## Three\n\n{'word ' * 20}\n"
    assert [chunk.headings for chunk in chunks(text, "markdown", Words(60))] == [
        ("One",),
        ("Two",),
        ("Three",),
    ]


def test_small_sections_share_a_chunk_under_the_heading_that_holds_for_all() -> None:
    text = "# All\n\n" + "".join(f"## S{number}\n\nfew words here\n\n" for number in range(12))
    found = chunks(text, "markdown", Words(60))
    assert 2 <= len(found) <= 8
    assert {chunk.headings for chunk in found[1:]} <= {("All",), *(("All", f"S{n}") for n in range(12))}
    assert all(part.startswith("#") for part in texts(text, found))


def test_a_heading_is_never_the_end_of_a_chunk() -> None:
    text = "".join(f"## Heading {number}\n\n{'word ' * (10 + number % 7 * 6)}\n\n" for number in range(60))
    for capacity in (20, 30, 50, 80):
        assert not [part for part in cut(text, capacity) if part.rstrip().rpartition("\n")[2].startswith("#")]


def test_code_in_fences_is_whole_where_it_fits_and_cut_at_blank_lines_where_not() -> None:
    code = "```py\ndef one():\n    return 1\n\n\ndef two():\n    # comment\n\n    return 2\n```\n"
    text = f"Before the code.\n\n{'word ' * 15}\n\n{code}\n{'word ' * 15}\n"
    assert next(part for part in cut(text, 40) if "```py" in part).count("```") == 2
    small = [part for part in cut(text, 16) if "def" in part or "return" in part]
    assert [part.startswith(("```py\ndef one", "def two")) for part in small] == [True, True]


def test_a_heading_within_code_is_none() -> None:
    text = "# Real\n\n```sh\n# comment\n" + "run it\n" * 30 + "```\n"
    assert {chunk.headings for chunk in chunks(text, "markdown", Words(30))} == {("Real",)}


def test_rows_of_a_table_and_items_of_a_list_stay_whole() -> None:
    rows = [f"| row {number} | some words. And more |\n" for number in range(30)]
    table = "| name | text |\n| --- | --- |\n" + "".join(rows)
    parts = cut(table, 60)
    assert len(parts) > 3
    assert parts[0].startswith("| name | text |\n| --- | --- |\n| row 0")
    assert all(part.endswith("|\n") for part in parts)
    for number in range(20):
        assert not [
            part for part in cut(table.replace("name", f"name{number}"), 45) if part.startswith("| ---")
        ]
    items = "".join(f"- item {number} with words. More of it\n  on the next line\n" for number in range(30))
    parts = cut(items, 50)
    assert len(parts) > 3
    assert all(part.startswith("- item") for part in parts)


def test_a_list_item_with_items_in_it_is_cut_between_these() -> None:
    text = "- all of this\n" + "".join(f"  - nested {number} with words. More\n" for number in range(20))
    parts = cut(text, 30)
    assert len(parts) > 3
    assert all(part.startswith(("- all", "  - nested")) for part in parts)


def test_what_leads_to_a_list_stays_with_it() -> None:
    text = f"{'word ' * 18}\n\nThese are they:\n\n- one thing\n- two things\n\n{'word ' * 18}\n"
    assert any(part.startswith("These are they:") or "they:\n\n- one" in part for part in cut(text, 24))


def test_long_paragraphs_are_cut_after_sentences_and_say_the_last_one_again() -> None:
    text = "".join(f"これは第{number}の文である。" for number in range(60))
    found = chunks(text, "markdown", Words(100))
    parts = texts(text, found)
    assert all(part.endswith("。") and part.startswith("これは第") for part in parts)
    assert all(after.start < before.end for before, after in pairwise(found))
    english = "It is version 1.5 of tabane.py, e.g. this one! Is it? " * 30
    assert all(part.rstrip().endswith(("!", "?", ".")) for part in cut(english, 60))


def test_what_has_no_sentences_is_cut_at_commas_then_words_then_characters() -> None:
    assert all(part.endswith("、") for part in cut("、".join(["とても長い節"] * 50) + "、", 30))
    assert all(part.endswith(" ") for part in cut("abcdefghij klm " * 60, 20, "text"))
    family = "👨‍👩‍👧‍👦" * 40 + "か\u3099" * 40
    parts = texts(family, chunks(family, "text", Characters(25)))
    assert not [part for part in parts if part[0] in "\u200d\u3099"]


def test_front_matter_is_no_rule_and_no_heading() -> None:
    text = f"---\ntitle: It\ntags: [a]\n---\n\n# Real\n\n{'word ' * 20}\n"
    found = chunks(text, "markdown", Words(30))
    assert found[-1].headings == ("Real",)
    assert texts(text, found)[0].startswith("---\ntitle: It\n")


def test_plain_text_is_cut_between_paragraphs() -> None:
    text = "\n\n".join(
        "A paragraph of nine words that is not long.\nIts second line. " * 2 for _ in range(20)
    )
    assert all(
        part.startswith("A paragraph") and part.endswith(("\n\n", ". ")) for part in cut(text, 50, "text")
    )
    japanese = "\n".join("　" + "日本語の段落である。" * 3 for _ in range(20))
    assert all(part.startswith("　") for part in cut(japanese, 40, "text"))


def test_code_is_cut_before_definitions() -> None:
    body = "".join(f"    line_{number} = {number}\n\n" for number in range(6))
    text = "import os\n\n\n" + "".join(
        f"@mark\ndef f{number}():\n{body}    return\n\n\n" for number in range(12)
    )
    parts = cut(text, 60, "code")
    assert len(parts) > 6
    assert all(part.startswith(("import", "@mark")) for part in parts)
    braces = "".join(f"func f{number}() {{\n    a()\n\n    b()\n\n}}\n" for number in range(12))
    assert all(part.startswith("func") for part in cut(braces, 24, "code"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(end: str) -> None:
    text = "# One\n\nword word\n\n## Two\n\nword word\n".replace("\n", end)
    found = chunks(text, "markdown", Words(7))
    assert [chunk.headings for chunk in found] == [("One",), ("One", "Two")]


def test_an_empty_text_has_no_chunks_and_blanks_are_one() -> None:
    assert [chunks("", kind, Words(5)) for kind in KINDS] == [[], [], []]
    assert [chunks(" \n\n", kind, Words(5)) for kind in KINDS] == [[Chunk(0, 3, ())]] * 3


def document(seed: int, *, headings: bool) -> list[str]:
    """Paragraphs of a long document, of all lengths."""
    dice = random.Random(seed)
    words = [
        "the",
        "index",
        "keeps",
        "every",
        "record",
        "検索",
        "文書",
        "索引",
        "before",
        "and",
        "after",
        "it",
    ]
    found = []
    for number in range(900):
        sentences = [
            " ".join(dice.choices(words, k=dice.randrange(4, 16))) + dice.choice([".", "。"])
            for _ in range(dice.randrange(1, 8))
        ]
        if headings and not number % 25:
            found.append(f"{'#' * dice.randrange(1, 4)} Part {number}")
        found.append(" ".join(sentences))
    return found


@pytest.mark.parametrize("headings", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_in_the_middle_changes_a_few_chunks(kind: Kind, headings: bool) -> None:
    paragraphs = document(3, headings=headings)
    measure = Words(120)
    before = "\n\n".join(paragraphs)
    known = set(texts(before, chunks(before, kind, measure)))
    assert len(known) >= 300
    dice, changed = random.Random(4), []
    for _ in range(25):
        edited, place = list(paragraphs), dice.randrange(200, 700)
        if edited[place].startswith("#"):
            continue
        edit = dice.randrange(3)
        if edit == 0:
            edited[place] += " One more sentence stands here now."
        elif edit == 1:
            edited.insert(place, "A new paragraph. " * dice.randrange(1, 20))
        else:
            del edited[place]
        after = "\n\n".join(edited)
        changed.append(len(set(texts(after, chunks(after, kind, measure))) - known))
    assert max(changed) <= 5
    assert sum(changed) / len(changed) <= 2.5


def test_an_edit_within_a_paragraph_without_end_changes_a_few_chunks() -> None:
    sentences = [sentence for paragraph in document(5, headings=False) for sentence in paragraph.split(". ")]
    before = ". ".join(sentences)
    known = set(texts(before, chunks(before, "text", Words(120))))
    after = ". ".join([*sentences[:900], "And this is new", *sentences[900:]])
    assert len(set(texts(after, chunks(after, "text", Words(120)))) - known) <= 5
    assert len(known) > 200


@pytest.mark.heavy("long documents")
@pytest.mark.parametrize("kind", KINDS)
def test_an_item_more_in_a_long_list_changes_a_few_chunks(kind: Kind) -> None:
    items = [f"- item {number} has some words here\n" for number in range(4000)]
    before = "".join(items)
    known = set(texts(before, chunks(before, kind, Words(120))))
    assert len(known) >= 230
    for place in range(1500, 2500, 97):
        after = "".join([*items[:place], "- a new item of the list\n", *items[place:]])
        assert len(set(texts(after, chunks(after, kind, Words(120)))) - known) <= 5


def test_an_estimate_counts_by_scripts() -> None:
    measure = Estimate(512, "")
    assert measure.counts(["", "word", "unbelievable", "2026", "a, b!", "日本語です", "Привет", "a_b"]) == [
        *(0, 1, 2, 2, 4, 4, 3, 3)
    ]
    assert measure.count("word 日本語です") == 5
