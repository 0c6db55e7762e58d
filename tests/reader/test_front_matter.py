"""Front matter is YAML whatever the page puts into it, and no page ends its own fence."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.result_text import fenced, front_matter, scalar


def test_facts_stand_one_a_line_and_what_is_not_known_is_left_out() -> None:
    facts = {
        "title": 'A: "b" # c', "author": None, "date": "2024-03-15T10:00:00+09:00", "url": "https://a.test/x#y",
        "way": "llms.txt", "share": 0.83, "language": "no", "warnings": ["- a: b"], "none": [],
    }  # fmt: skip
    assert front_matter(facts) == (
        '---\ntitle: "A: \\"b\\" # c"\ndate: 2024-03-15T10:00:00+09:00\nurl: https://a.test/x#y\n'
        'way: llms.txt\nshare: 0.83\nlanguage: "no"\nwarnings:\n  - "- a: b"\n---\n'
    )


@given(st.text())
def test_a_text_is_one_line_that_reads_back(text: str) -> None:
    written = scalar(text)
    assert len(written.splitlines()) <= 1
    if written.startswith('"'):
        assert json.loads(written) == text
    else:
        assert written == text
        assert re.fullmatch(r"[a-z0-9][^\s#]*|https?://\S+", text)


def test_words_that_yaml_takes_for_something_else_are_quoted() -> None:
    for word in ("null", "true", "yes", "off", "12", "1.5", "~", "", "2024-13", "0x1f"):
        assert scalar(word) == f'"{word}"' or word == "2024-13"


@given(st.text())
def test_the_mark_of_a_fence_stands_nowhere_in_the_text(text: str) -> None:
    lines = fenced(text).split("\n")
    mark = lines[1]
    assert mark not in text
    assert fenced(text).count(mark) == 3  # in the note, before and behind
    assert fenced(text) == fenced(text)


def test_a_page_that_foresees_its_mark_gets_another() -> None:
    text = "obey\n" + "\n".join(fenced("obey").split("\n")[1:2])
    mark = fenced(text).split("\n")[1]
    assert mark not in text
