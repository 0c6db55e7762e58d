"""Headings are those that Markdown has: the same as a parser of CommonMark finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tabane.search.chunking import markdown_outline, title_of

PARSER = MarkdownIt("commonmark").enable("table")
DOCS = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))

LINES = st.sampled_from(
    [
        *(
            "",
            "",
            "text",
            "more text. And more.",
            "これは文です。",
            "a | b",
            "--- | ---",
            "| c | d |",
            "    indented",
        ),
        *(
            "# One",
            "## Two ##",
            "### Three",
            "####### no",
            "#no",
            " # Space",
            "    # code",
            "\t# code",
            "Title\\",
        ),
        *("===", "---", "-", "= =", "***", "- - -", "___", "> quote", "> # in quote", ">", "> ```", "> - in"),
        *(
            "- item",
            "- # in item",
            "  # under",
            "  more",
            "* other",
            "+ plus",
            "1. one",
            "2. two",
            "10) ten",
            "-",
        ),
        *(
            "  - nested",
            "    - deeper",
            "   # three",
            "- ```",
            "  ```",
            "```",
            "```py",
            "~~~",
            "``` no`",
            "   ```",
        ),
        *(
            "<div>",
            "</div>",
            "<!-- # c",
            "-->",
            "<b>x</b>",
            "<pre>",
            "</pre>",
            "<?php",
            "?>",
            "<br/>",
            "\ttab",
        ),
        *("-\ttab", "- a\n\n  b", "#", "##", "# #", "1.", "3. x", "-   wide", "-      code"),
    ]
)


def oracle(text: str) -> list[tuple[int, int, str]]:
    """Line, level and title of every heading that is in nothing else."""
    tokens = PARSER.parse(text)
    return [
        (token.map[0], int(token.tag[1]), title_of(" ".join(tokens[at + 1].content.split("\n"))))
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


def paths(headings: list[tuple[int, int, str]]) -> list[tuple[str, ...]]:
    above: list[tuple[int, str]] = []
    found: list[tuple[str, ...]] = [()]
    for _, level, title in headings:
        above = [each for each in above if each[0] < level] + [(level, title)]
        found.append(tuple(title for _, title in above))
    return found


def agrees(text: str) -> None:
    expected, outline = oracle(text), markdown_outline(text)
    lines = [text[: block.start].count("\n") for block in outline.blocks if block.makeup == "heading"]
    assert lines == [line for line, _, _ in expected]
    assert outline.paths == paths(expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, max_size=12))
@example(["- a", "", "# b"])
@example(["> a", "==="])
@example(["a | b", "--- | ---", "-", "text", "==="])
@example(["a | b", "--- | ---", "    # code", "text", "==="])
def test_headings_are_found_where_a_parser_finds_them(lines: list[str]) -> None:
    agrees("\n".join(["Start.", "", *lines]))  # what begins with dashes would be front matter


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_real_documents_have_the_headings_of_a_parser(path: Path) -> None:
    agrees(path.read_text("utf-8"))
