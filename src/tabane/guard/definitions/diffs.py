"""Differences of two definitions, as lines of indented JSON in which nothing is hidden. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from tabane.wire.json import InvalidJson, decode

MOST_LINES = 2_000
"""Lines of one definition that are compared. What follows is only counted."""

LONGEST_LINE = 2_000
CONTEXT = 3

_BEYOND_ASCII = re.compile(r"[^\x09\x20-\x7e]")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories of characters that nobody sees: controls, formats, surrogates, private ones, breaks."""

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Others that are blank, or only choose a glyph: fillers and variation selectors."""

Mark = Literal[" ", "-", "+", "@"]


class DiffLine(NamedTuple):
    """One line. ``mark``: the same in both, only in the old, only in the new, or where a part begins."""

    mark: Mark
    text: str


def definition_diff(old: bytes | None, new: bytes) -> tuple[DiffLine, ...]:
    """Return a unified diff without its head. Without an old definition, all lines are new."""
    before, after = [] if old is None else shown_lines(old), shown_lines(new)
    if before == after and old is not None:
        # The text is the same, but not what it is made of: members may be given twice.
        before, after = [_raw(old)], [_raw(new)]
    return tuple(_lines(before, after))


def shown_lines(definition: bytes) -> list[str]:
    """Return a definition as lines with sorted members. Each line of a text has a line of its own.

    Invisible and control characters are escapes.
    """
    try:
        value = decode(definition)
    except InvalidJson:
        return [_raw(definition)]
    written = json.dumps(_broken(value), indent=2, sort_keys=True, ensure_ascii=False)
    lines = [_cut(visible(line)) for line in written.split("\n")]
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"… {more} more lines"]


def visible(text: str) -> str:
    """Return a text with each character that nobody sees as its escape in JSON."""
    return _BEYOND_ASCII.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    import unicodedata  # a megabyte that most texts do not need

    sign = found[0]
    if unicodedata.category(sign) not in _HIDDEN and not _BLANK.match(sign):
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _broken(value: Any) -> Any:
    """Return a value with each text of several lines as a list of these."""
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        return value.split("\n")
    if isinstance(value, list):
        return [_broken(each) for each in value]
    if isinstance(value, dict):
        return {key: _broken(each) for key, each in value.items()}
    return value


def _lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    import difflib  # needed only when a person looks

    found = difflib.unified_diff(before, after, n=CONTEXT, lineterm="")
    for number, line in enumerate(found):
        if number < 2:
            continue  # the names of two files
        mark: Mark = "@" if line.startswith("@@") else line[0]  # type: ignore[assignment]
        yield DiffLine(mark, line if mark == "@" else line[1:])


def _raw(definition: bytes) -> str:
    return _cut(visible(definition.decode("utf-8", "backslashreplace")))


def _cut(line: str) -> str:
    more = len(line) - LONGEST_LINE
    return line if more <= 0 else f"{line[:LONGEST_LINE]} … {more} more characters"
