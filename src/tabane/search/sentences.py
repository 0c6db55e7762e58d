"""Where sentences end, in English and Japanese, for showing the gist of a text."""

from __future__ import annotations

import re

# A full stop of Japanese ends a sentence at once, but not inside brackets; a Latin one only before a
# blank, so that versions, domains and file names stay whole.
_END = re.compile(r"[。！？](?![」』）】])|[.!?][\"'”’)\]]*(?=\s|$)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'])(?:e\.g|i\.e|eg|ie|vs|cf|approx|incl|excl|resp|esp|mr|mrs|ms|dr|prof|st|no|nos|fig|figs|vol|"
    r"[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)
# Where a docstring stops describing and starts a list.
_SECTION = re.compile(
    r"(?:[-*•・#@>|`]|\d+[.)]\s|<|(?:args?|arguments?|param(?:eter)?s?|inputs?|returns?|outputs?|raises|usage|"
    r"examples?|notes?|warnings?|引数|パラメータ|パラメーター|戻り値|使用例|例|注意|備考)\s*[:：])",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[A-Za-z_][\w-]*>")
_LEAD_IN = re.compile(r"^[\s#*_`>-]+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_MOST = 4000


def first_sentence(text: str) -> str:
    """The first sentence of a description, on one line; all of it where it has no end.

    A blank line, a list or a section such as "Args:" ends it too. Looks at the first 4,000 characters.
    """
    gist = _gist(text[:_MOST])
    for end in _END.finditer(gist):
        if end.group()[0] != "." or not _is_abbreviation(gist, end.start(), end.end()):
            return gist[: end.end()]
    return gist


def one_line(text: str) -> str:
    """The text with every run of white space made one blank."""
    return " ".join(text.split())


def _gist(text: str) -> str:
    """The first paragraph up to where a list or section begins, without marks of Markdown and tags."""
    heading = ""
    for paragraph in _BLANK_LINE.split(_TAG.sub(" ", text)):
        lines = _described(paragraph)
        if lines and paragraph.lstrip().startswith("#") and len(lines) == 1:
            heading = heading or lines[0]
        elif lines:
            return one_line(_joined(lines))
    return one_line(heading)


def _described(paragraph: str) -> list[str]:
    lines: list[str] = []
    for line in paragraph.splitlines():
        if lines and _SECTION.match(line.strip()):
            break
        if bare := _LEAD_IN.sub("", line).strip():
            lines.append(bare)
    return lines


def _joined(lines: list[str]) -> str:
    """Wrapped lines put together: with a blank between Latin ones, with none inside Japanese."""
    text = lines[0]
    for line in lines[1:]:
        text += ("" if text[-1] > "\u2fff" and line[0] > "\u2fff" else " ") + line
    return text


def _is_abbreviation(text: str, at: int, end: int) -> bool:
    return end < len(text) and _ABBREVIATION.search(text[max(0, at - 12) : at + 1]) is not None
