"""Escaping of text that would otherwise be read as Markdown."""

from __future__ import annotations

import re

_INLINE = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])"  # a backslash that would escape
    r"|`"
    r"|\*(?=\S)|(?<=\S)\*"  # emphasis needs something beside it
    r"|(?<!\w)_++(?=\S)|(?<!_)(?<=\S)_++(?![^\W_])"  # and within a word underscores are letters
    r"|~(?=~)"
    r"|<(?=[A-Za-z/!?])"  # a tag
    r"|&(?=#?\w{1,32};)"  # an entity
    r"|\[(?=[^\[\]]{0,999}\](?:\(|\[|:))|\[(?=\^)"  # a link, a definition, a footnote
)
_BRACKET = re.compile(r"(?<!\\)[\[\]]")
_LINE = re.compile(
    r"^( {0,3})(#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|=+(?=\s*$)|-{2,}(?=\s*$)|~{3,}|\d{1,9}(?=[.)](?:\s|$)))", re.M
)


def inline(text: str) -> str:
    """Escape running text, so that nothing in it is a mark."""
    return _INLINE.sub(_each, text)


def _each(found: re.Match[str]) -> str:
    return "\\" + "\\".join(found[0])


def label(text: str) -> str:
    """Escape the text of a link: unbalanced brackets would end it."""
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket == "[" else -1
        if depth < 0:
            break
    return text if depth == 0 else _BRACKET.sub(r"\\\g<0>", text)


def lines(text: str) -> str:
    """Escape a paragraph, so that none of its lines begins like a heading, a list, a quotation or a rule."""
    return _LINE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    mark = found[2]
    return found[1] + (mark + "\\" if mark.isdigit() else "\\" + mark)


def heading(text: str) -> str:
    """Escape a heading, so that hashes at its end are text."""
    return re.sub(r"(?<=\s)(#+)$", r"\\\1", text)


def cell(text: str) -> str:
    """Return what stands in a cell of a table: one line, no bar. GFM reads ``\\|`` so in code as well."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    """Return a code span that holds ``text``, whatever backticks are in it. "" for white space."""
    text = " ".join(text.split())
    if not text:
        return ""
    fence = "`" * (longest(text) + 1) if "`" in text else "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def longest(text: str) -> int:
    """Return the longest run of backticks in the text."""
    return max(map(len, re.findall(r"`+", text)), default=0)
