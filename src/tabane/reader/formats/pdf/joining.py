"""Words and lines as running text: where a space belongs, and which divided words are whole again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tabane.reader.formats.pdf.characters import PdfWord

HYPHEN = re.compile(r"[\x02\xad\ufffe]")
WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff01-\uff60]")
_DIVIDED = re.compile(r"[a-z]-\Z")
_LOWER = re.compile(r"[a-z]")


def joined(words: Iterable[PdfWord]) -> str:
    """Return words as text, in the order given; those of another line go on as a paragraph does.

    A hyphen at the end stays: the next line may go on with the word.
    """
    text = ""
    before: PdfWord | None = None
    for word in words:
        if before is None:
            text = word.text
        elif word.glued and word.line == before.line:
            text += word.text
        elif abs(word.middle - before.middle) > max(before.size, word.size) * 0.6:
            text = continued(text, word.text)
        elif _is_close(before, word):
            text += word.text
        else:
            text += " " + word.text
        before = word
    return HYPHEN.sub("", text[:-1]) + text[-1:]


def without_hyphens(text: str) -> str:
    """Return text without the hyphens that only divide words at the end of lines."""
    return HYPHEN.sub("", text)


def _is_close(before: PdfWord, word: PdfWord) -> bool:
    """Return whether two Japanese words are written without a space, though PDFium found one."""
    if not (WIDE.match(before.text[-1:]) and WIDE.match(word.text[:1])):
        return False
    return -0.5 * word.size < word.left - before.right < word.size * 0.5


def continued(text: str, line: str) -> str:
    """Return two lines as one: a word that was divided is whole again, Japanese has no space between."""
    if HYPHEN.search(text[-1:]):
        return text[:-1] + line
    if _DIVIDED.search(text[-2:]) and _LOWER.match(line):
        return text[:-1] + line
    if WIDE.match(text[-1:]) and WIDE.match(line[:1]):
        return text + line
    return f"{text} {line}"


def by_height(words: Sequence[PdfWord]) -> list[list[PdfWord]]:
    """Return words in rows of the same height, from the top, each row from the left."""
    rows: list[list[PdfWord]] = []
    middle = size = 0.0
    for word in sorted(words, key=lambda word: -word.middle):
        if rows and middle - word.middle <= 0.4 * min(size, word.size):
            rows[-1].append(word)
        else:
            rows.append([word])
            middle, size = word.middle, max(word.size, 1.0)
    for row in rows:
        row.sort(key=lambda word: word.left)
    return rows
