"""Front matter of Markdown becomes title and metadata, however it is written; what is broken stays text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.documents import metadata
from tabane.documents.document import Draft
from tabane.documents.document_writer import checked
from tabane.documents.metadata import LONGEST, read

ALL = """\
title: "Kettle: a garden"
tags: [garden, tea/green, 2024, no]
categories: book, 商売、茶
keywords: '#solo'
Rating: 4.5
count: 12
code: 007
at: 10:30
version: "1.10"
draft: false
done: yes
date: 2025-5-6
published: 2025/05/06 9:30:00
created: 2025-05-06T09:30:00+09:00
empty:
nothing: ~
authors:
  - Marlow
  - 佐藤
nested: {a: 1}
mixed: [a, {b: c}]
filepath: ../secret
$where: 1
"""


def test_values_are_what_their_writer_sees() -> None:
    found = read(f"---\n{ALL}---\n# Heading\n")
    assert found.title == "Kettle: a garden"
    assert found.metadata == {
        "title": "Kettle: a garden",
        "tags": ["garden", "tea/green", "2024", "no"],
        "categories": ["book", "商売", "茶"],
        "keywords": ["solo"],
        "Rating": 4.5,
        "count": 12,
        "code": "007",
        "at": "10:30",
        "version": "1.10",
        "draft": False,
        "done": "yes",
        "date": "2025-05-06",
        "published": "2025-05-06T09:30:00",
        "created": "2025-05-06T09:30:00+09:00",
        "authors": ["Marlow", "佐藤"],
    }


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\ufeff---\r\ntitle: 庭\r\n---\r\n本文", "庭"),
        ("---\n# a comment\ntitle: A\n...\nbody", "A"),
        ("---\ntags: x\n---\n\n# The heading\n", "The heading"),
        ("---\ntitle: [a]\n---\n# H\n", "H"),
        ("---\ntitle: *x\n---\n# Broken\n", ""),
        ("---\ntitle: 'open\n---\n# Broken\n", ""),
        ("---\n- a\n- b: c\n---\n", ""),
        ("---\n\na rule: and text\n", ""),
        ("--- title: no\n---\n", ""),
        ("---\ntitle: never ends\n", ""),
        ("---\ntitle: A\n" + "k: v\n" * LONGEST + "---\n", ""),
        ("---\na: " + "[" * 15_000 + "\n---\n", ""),
        ("---\na: &a [x]\nb: *a\ntitle: T\n---\n", "T"),
    ],
)
def test_a_title_comes_from_whole_front_matter_or_the_heading(text: str, title: str) -> None:
    draft = checked(Draft("note.md", text), 10_000_000)
    assert draft.title == title
    assert draft.text == text


def test_what_was_given_counts_and_only_markdown_has_front_matter() -> None:
    text = "---\ntags: a\nrating: 1\n---\nbody"
    given_both = checked(Draft("a.md", text, metadata={"rating": 5}, title="Mine"), 1000)
    assert (given_both.title, given_both.metadata) == ("Mine", {"tags": ["a"], "rating": 5})
    assert checked(Draft("notes/a", text), 1000).metadata == {"tags": ["a"], "rating": 1}
    for name in ("a.txt", "a.yaml", "a.py"):
        assert checked(Draft(name, text), 1000).metadata == {}
    many = {f"k{number}": number for number in range(metadata.MOST_KEYS)}
    assert checked(Draft("a.md", text, metadata=many), 1000).metadata == many


_LINES = st.text(st.sampled_from("ab:-[]{}'\"#&*!|>%@ \n\t,0"), max_size=80)


@given(_LINES)
def test_any_front_matter_gives_metadata_that_can_be_stored(inside: str) -> None:
    found: dict[str, Any] = read(f"---\n{inside}\n---\n").metadata
    assert metadata.checked(found) == found


def test_toml_between_lines_of_plus_signs_is_front_matter_too() -> None:
    text = """+++
title = "Kettle"
tags = ["garden", "#tea"]
date = 2025-05-06
at = 2025-05-06T09:30:00+09:00
weight = 3
draft = false
big = 99999999999999999999
nested = {a = 1}
+++
Body
"""
    front = read(text)
    assert (front.title, text[front.end :]) == ("Kettle", "Body\n")
    assert front.metadata == {
        "title": "Kettle",
        "tags": ["garden", "tea"],
        "date": "2025-05-06",
        "at": "2025-05-06T09:30:00+09:00",
        "weight": 3,
        "draft": False,
    }
    assert read(text.replace("weight = 3", "weight = ")).metadata == {}
