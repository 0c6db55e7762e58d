"""Running text of a PDF: words to lines in reading order, lines to paragraphs, headings, items and listings.

Divided words are joined. Running headers, footers and page numbers, which repeat at the same place of many
pages, are left out. The result is Markdown.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tabane.reader.formats.pdf.page_objects import PdfWord
from tabane.reader.formats.text import fence
from tabane.reader.markdown import spans

HYPHEN = re.compile(r"[\x02\xad\ufffe]")
LINK_START, LINK_TEXT, LINK_END = "\ufdd0", "\ufdd1", "\ufdd2"  # around the number and the text of a link
KEPT_HYPHEN = "\ufdd3"  # of a compound that is divided there
LINK_MARKS = re.compile(f"{LINK_START}\\d+{LINK_TEXT}|{LINK_END}|{KEPT_HYPHEN}")
_LINK_HEAD = re.compile(f"{LINK_START}\\d+{LINK_TEXT}")
_INNER_HYPHEN = re.compile(f"[\x02\xad\ufffe](?!{LINK_END}?\\Z)")
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
        own = word.text if word.link < 0 else f"{LINK_START}{word.link}{LINK_TEXT}{word.text}{LINK_END}"
        if before is None:
            text = own
        elif word.glued and word.line == before.line:
            is_divided = HYPHEN.search(text.removesuffix(LINK_END)[-1:])
            text = continued(text, own) if is_divided else text + own
        elif abs(word.middle - before.middle) > max(before.size, word.size) * 0.6:
            text = continued(text, own)
        elif _is_close(before, word):
            text += own
        else:
            text += " " + own
        before = word
    return _INNER_HYPHEN.sub("", text)


def without_hyphens(text: str) -> str:
    """Return text without the hyphens that only divide words at the end of lines."""
    return HYPHEN.sub("", text).replace(KEPT_HYPHEN, "-")


def without_marks(text: str) -> str:
    """Return text without the marks of links."""
    return LINK_MARKS.sub("", without_hyphens(text))


def _is_close(before: PdfWord, word: PdfWord) -> bool:
    """Return whether two Japanese words are written without a space, though PDFium found one."""
    if not (WIDE.match(before.text[-1:]) and WIDE.match(word.text[:1])):
        return False
    return -0.5 * word.size < word.left - before.right < word.size * 0.5


def continued(text: str, line: str) -> str:
    """Return two lines as one: a word that was divided is whole again, Japanese has no space between."""
    end = LINK_END if text.endswith(LINK_END) else ""
    text = text.removesuffix(LINK_END)
    head = _LINK_HEAD.match(line)
    begin = line[head.end() : head.end() + 1] if head else line[:1]
    if text.endswith(KEPT_HYPHEN):
        return f"{text[:-1]}-{end}{line}"
    if HYPHEN.search(text[-1:]):
        return text[:-1] + end + line
    if _DIVIDED.search(text[-2:]) and _LOWER.match(begin):
        return text[:-1] + end + line
    if WIDE.match(text[-1:]) and WIDE.match(begin):
        return text + end + line
    return f"{text}{end} {line}"


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


_GUTTER = 0.9  # heights of a line between two columns
_LINES = 5  # that have text on both sides, so that it is in columns
_LONG = 15  # characters of such a text


class PdfLine(NamedTuple):
    """A line of text and its position, in points; ``wide``: the width of a letter, if all have the same.

    ``first`` is the number of its first word in the stream of the page.
    """

    text: str
    size: float
    top: float
    left: float
    right: float
    wide: float
    bold: bool
    upright: bool
    first: int


def page_lines(words: Iterable[tuple[int, PdfWord]]) -> list[PdfLine]:
    """Return lines of numbered words, which are in the order of the stream."""
    groups = list(_groups(words))
    gutter = _column_gutter(groups)
    if gutter is not None:
        groups = list(_by_column(groups, gutter))
    return [_line_of_group(group) for group in groups]


Group = list[tuple[int, PdfWord]]


def _groups(words: Iterable[tuple[int, PdfWord]]) -> Iterator[Group]:
    group: Group = []
    for nth, word in words:
        if group and not _is_same(group[-1][1], word):
            yield group
            group = []
        group.append((nth, word))
    if group:
        yield group


def _is_same(before: PdfWord, word: PdfWord) -> bool:
    if before.line != word.line or before.style.upright != word.style.upright:
        return False
    # PDFium goes on with the same line after a hyphen
    return not word.style.upright or abs(before.middle - word.middle) < max(before.size, word.size) * 0.7


def _line_of_group(group: Group) -> PdfLine:
    words = [word for _, word in group]
    sizes: Counter[float] = Counter()
    for word in words:
        sizes[word.size] += len(word.text)
    size = sizes.most_common(1)[0][0]
    first = words[0]
    typed = first.style.typed and all(word.style.typed for word in words)
    wide = (first.right - first.left) / len(first.text) if typed else 0.0
    return PdfLine(
        _spaced_code(words, wide) if wide > 0 else joined(words),
        size,
        max((word.top for word in words if word.size == size), default=first.top),
        first.left,
        words[-1].right,
        wide,
        all(word.style.bold for word in words),
        first.style.upright,
        group[0][0],
    )


def _spaced_code(words: Sequence[PdfWord], wide: float) -> str:
    """Return a line of code, with as many spaces between its words as have room there."""
    text = words[0].text
    for before, word in pairwise(words):
        gap = 0 if word.glued else min(200, max(1, round((word.left - before.right) / wide)))
        text += " " * gap + word.text
    return text


# Columns


def _wide_gaps(group: Group) -> Iterator[tuple[float, float]]:
    for (_, before), (_, word) in pairwise(group):
        if word.left - before.right > _GUTTER * word.size and not word.style.typed:
            yield before.right, word.left


def _column_gutter(groups: Sequence[Group]) -> float | None:
    """Return the middle of the page if lines go over two columns: their text must be put in order."""
    gaps = [(gap, group) for group in groups for gap in list(_wide_gaps(group))[:3]]
    if len(gaps) < _LINES:
        return None
    middle = median((low + high) / 2 for (low, high), _ in gaps)
    through = [group for (low, high), group in gaps if low <= middle <= high]
    if len(through) < _LINES or len(through) < 0.6 * len(gaps):
        return None
    sides = [sum(len(w.text) for _, w in group if (w.center < middle) == before)
             for group in through for before in (True, False)]  # fmt: skip
    return middle if median(sides) >= _LONG else None


def _by_column(groups: Sequence[Group], gutter: float) -> Iterator[Group]:
    """Yield lines column by column; a line that crosses the gutter is between what is above and below."""
    left: list[Group] = []
    right: list[Group] = []
    for group in groups:
        halves = [
            [(n, w) for n, w in group if w.center < gutter],
            [(n, w) for n, w in group if w.center >= gutter],
        ]
        crosses = any(w.left < gutter < w.right for _, w in group) or (
            halves[0] and halves[1] and not any(low <= gutter <= high for low, high in _wide_gaps(group))
        )
        if crosses:
            yield from left
            yield from right
            left, right = [], []
            yield group
            continue
        for half, side in zip(halves, (left, right), strict=True):
            if half:
                side.append(half)
    yield from left
    yield from right


_MARGIN = 0.13  # of the height of a page
_LEAST = 3  # pages
_SHARE = 0.4
_NUMBER = re.compile(r"\d+|\b[ivxlc]{1,6}\b")
_LONGEST = 200


class PageLines(NamedTuple):
    """The lines of a page, and its height. ``more``: it has other content."""

    lines: Sequence[PdfLine]
    height: float
    more: bool


def running_lines(pages: Sequence[PageLines]) -> set[tuple[int, int]]:
    """Return the page and the line of each running header, footer and page number.

    A page that would be empty without them keeps its lines.
    """
    places: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    for page, one in enumerate(pages):
        for nth, text, y in _in_margins(one.lines, one.height):
            for place in (int(y // 4), int(y // 4) + 1):  # lines at the edge of a step meet in the next
                places[text, place].add((page, nth))
    running: set[tuple[int, int]] = set()
    for members in places.values():
        count = len({page for page, _ in members})
        if count >= max(_LEAST, len(pages) * _SHARE):
            running |= members
    kept = {
        number
        for number, page in enumerate(pages)
        if page.more or any((number, nth) not in running for nth in range(len(page.lines)))
    }
    return {(page, nth) for page, nth in running if page in kept}


def _in_margins(lines: Sequence[PdfLine], height: float) -> Iterator[tuple[int, str, float]]:
    for nth, line in enumerate(lines):
        if height * _MARGIN < line.top < height * (1 - _MARGIN) or len(line.text) > _LONGEST:
            continue
        yield nth, _NUMBER.sub("#", without_marks(line.text)), line.top


_AHEAD = 60  # lines after a divided word, among which is the one that goes on with it
_VOCABULARY = 60_000  # words of a document
_LATIN = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]{2,})*")
_FIRST = re.compile(r"[a-z]+")
_LAST = re.compile(r"[A-Za-z]+(?=.\Z)", re.S)


def mend_divided_words(pages: Sequence[list[PdfLine]]) -> None:
    """Join words that are divided at the end of a column or a page, and keep the hyphens of compounds.

    The rest of such a word is moved to the line where it begins. A hyphen stays if the document has the
    compound elsewhere, or both of its parts but not the whole.
    """
    places = [(page, nth) for page, lines in enumerate(pages) for nth in range(len(lines))]
    texts = [line.text for lines in pages for line in lines]
    divided = [at for at, text in enumerate(texts) if HYPHEN.search(text[-1:]) or _DIVIDED.search(text[-2:])]
    if not divided:
        return
    known: Counter[str] = Counter()
    for text in texts:
        known.update(match.lower() for match in _LATIN.findall(text))
        if len(known) > _VOCABULARY:
            break
    for at in divided[:5000]:
        page, nth = places[at]
        line = pages[page][nth]
        rest = _rest_of_word(pages, places, at)
        if rest is None:
            continue
        other, other_nth = places[rest]
        next_line = pages[other][other_nth]
        start = _FIRST.match(next_line.text)
        end = _LAST.search(line.text)
        if start is None or end is None:
            continue
        sign = KEPT_HYPHEN if _is_compound(end[0].lower(), start[0], known) else "\xad"
        text = line.text[:-1] + sign
        if rest > at + 1 or other != page or line.top <= next_line.top:
            word, _, after = next_line.text.partition(" ")
            text = continued(text, word)
            pages[other][other_nth] = next_line._replace(text=after)
        pages[page][nth] = line._replace(text=text)
    for lines in pages:
        lines[:] = [line for line in lines if line.text]


def _rest_of_word(
    pages: Sequence[Sequence[PdfLine]], places: Sequence[tuple[int, int]], at: int
) -> int | None:
    """Return the place of the line that goes on with a divided word: the next, or the first of a column."""
    page, nth = places[at]
    line = pages[page][nth]
    for place in range(at + 1, min(at + 1 + _AHEAD, len(places))):
        other_page, other_nth = places[place]
        if other_page > page + 1:
            return None
        other = pages[other_page][other_nth]
        if abs(other.size - line.size) > 0.3 or not other.upright or not _FIRST.match(other.text):
            continue
        before = pages[other_page][other_nth - 1] if other_nth else None
        is_next = place == at + 1 and other_page == page
        starts = (
            before is None
            or before.top <= other.top
            or abs(before.size - other.size) > 0.3
            or before.top - other.top > 2.5 * other.size
        )
        if is_next or starts:
            return place
    return None


def _is_compound(first: str, second: str, known: Counter[str]) -> bool:
    """Return whether a hyphen at the end of a line is one that the word has elsewhere too."""
    whole = known[first + second]
    compound = known[f"{first}-{second}"]
    if whole or compound:
        return compound > whole
    return len(first) > 3 and len(second) > 3 and known[first] > 0 and known[second] > 1


_HEADING = 1.15  # times the letters of the text
_LEVELS = 4
_BULLET = re.compile(r"^(?:[•◦▪‣●○■□–·∙]|[-*] |\(?\d{1,3}[.)] )\s*")
_CAPTION = re.compile(r"(?:Figure|Fig\.|Table|図|表|写真)\s*\d{1,3}(?!\d)")
_SENTENCE = re.compile(r"[.,;:。、,.]\Z")
_LEADERS = re.compile(r"(?:\s?\.){5,}")  # of a table of contents
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class HeadingStyles:
    """Which text is a heading: levels by size, and ``bold``, the level of bold lines; 0 if they are none."""

    usual: float
    sizes: dict[float, int]
    bold: int

    def level(self, lines: Sequence[PdfLine]) -> int:
        """Return the level of lines as a heading; 0 if they are none."""
        first = lines[0]
        if not first.upright:
            return 0
        if level := self.sizes.get(first.size):
            return level
        if not self.bold or len(lines) > 2 or first.size < self.usual * 0.95 or first.wide:
            return 0
        text = " ".join(line.text for line in lines)
        titular = len(text) <= 120 and not _SENTENCE.search(text) and _WORD.search(text)
        return self.bold if titular and all(line.bold for line in lines) and not _CAPTION.match(text) else 0


def heading_styles(lines: Sequence[PdfLine]) -> HeadingStyles:
    """Return the styles of headings in a document. A style that much of the text has is not of a heading."""
    lengths: Counter[float] = Counter()
    bold = 0
    for line in lines:
        lengths[line.size] += len(line.text)
        bold += len(line.text) if line.bold else 0
    usual = lengths.most_common(1)[0][0] if lengths else 0.0
    whole = sum(lengths.values())
    sizes = [size for size in lengths if size >= usual * _HEADING and lengths[size] < max(whole * 0.2, 200)]
    levels: dict[float, int] = {}
    level = 0
    last = 0.0
    for size in sorted(sizes, reverse=True):
        if not last or size < last * 0.93:
            level, last = level + 1, size
        levels[size] = min(level, _LEVELS)
    return HeadingStyles(usual, levels, min(level + 1, _LEVELS) if 0 < bold < whole * 0.25 else 0)


def largest_heading(lines: Sequence[PdfLine]) -> str | None:
    """Return the largest text of the first page, if it is clearly larger than the rest."""
    usual = heading_styles(lines).usual
    written = [line for line in lines if line.upright and _WORD.search(line.text)]
    largest = max(written, key=lambda line: line.size, default=None)
    if largest is None or largest.size < usual * _HEADING:
        return None
    at = written.index(largest)
    text = largest.text
    for line in written[at + 1 : at + 4]:
        if abs(line.size - largest.size) > 0.6:
            break
        text = continued(text, line.text)
    return without_marks(text)[:300]


def blocks(lines: Sequence[PdfLine], styles: HeadingStyles) -> Iterator[tuple[int, str]]:
    """Yield Markdown with the number of its first word: each block is of lines that belong together."""
    edges = _ColumnEdges(lines)
    # The usual distance from a line to the next, in heights of a line.
    gaps = [
        (one.top - two.top) / one.size
        for one, two in pairwise(lines)
        if one.size and abs(one.size - two.size) < 0.6 and 0 < one.top - two.top < one.size * 2.5
    ]
    leading = median(gaps) if gaps else 1.2
    group: list[PdfLine] = []
    for line in lines:
        if group and not _is_continued(group, line, leading, edges):
            yield group[0].first, _block_markdown(group, edges, styles)
            group = []
        group.append(line)
    if group:
        yield group[0].first, _block_markdown(group, edges, styles)


class _ColumnEdges:
    """The edges of the text around a line: of lines that begin at about the same place."""

    def __init__(self, lines: Iterable[PdfLine]) -> None:
        self._edges: dict[int, tuple[float, float]] = {}
        for line in lines:
            key = int(line.left // 40)
            for near in (key - 1, key, key + 1):
                left, right = self._edges.get(near, (line.left, line.right))
                self._edges[near] = (min(left, line.left), max(right, line.right))

    def is_full(self, line: PdfLine) -> bool:
        """Return whether a line ends at the same edge as its neighbors, so that its text goes on."""
        left, right = self._edges[int(line.left // 40)]
        return line.right >= right - (right - left) * 0.18


def _is_continued(group: Sequence[PdfLine], line: PdfLine, leading: float, edges: _ColumnEdges) -> bool:
    """Return whether a line is right below the one before, in the same font."""
    before = group[-1]
    if abs(before.size - line.size) > 0.6 or bool(before.wide) != bool(line.wide):
        return False
    if before.upright != line.upright or not before.upright:
        return before.upright == line.upright
    if _LEADERS.search(before.text):
        return False
    if not line.wide and (_BULLET.match(line.text) or _CAPTION.match(line.text)):
        return False
    if (
        before.bold != line.bold
        and all(one.bold == before.bold for one in group)
        and not edges.is_full(before)
    ):
        return False
    room = 2.6 if line.wide else 1.25
    return 0 < before.top - line.top <= max(before.size, 1.0) * leading * room


def _prose_edge(group: Sequence[PdfLine]) -> float:
    """Return where full lines of a paragraph end; nowhere if most of its lines end elsewhere."""
    left, right = min(line.left for line in group), max(line.right for line in group)
    edge = right - (right - left) * 0.18
    whole = sum(1 for line in group[:-1] if line.right >= edge and len(line.text) > 20)
    return edge if len(group) > 2 and whole >= 0.6 * (len(group) - 1) else math.inf


def _block_markdown(group: Sequence[PdfLine], edges: _ColumnEdges, styles: HeadingStyles) -> str:
    level = styles.level(group)
    if all(line.wide for line in group) and (len(group) > 1 or not level):
        edge = min(line.left for line in group)
        code: list[str] = []
        for nth, line in enumerate(group):
            if nth and group[nth - 1].top - line.top > line.size * 1.9:
                code.append("")
            code.append(" " * min(200, round((line.left - edge) / line.wide)) + line.text)
        return fence(without_marks("\n".join(code)), "")
    pieces = [group[0].text]
    right = _prose_edge(group)
    for before, line in pairwise(group):
        if level or before.right >= right or edges.is_full(before):
            pieces[-1] = continued(pieces[-1], line.text)
        else:
            pieces.append(line.text)
    text = spans.inline(_LEADERS.sub(" …", without_hyphens("  \n".join(pieces))))
    if level and len(text) <= 200 and _WORD.search(text):
        return f"{'#' * level} {spans.heading(text)}"
    if bullet := _BULLET.match(text):
        mark = bullet[0].strip()
        mark = mark if mark[0].isdigit() and mark[-1] == "." else "-"
        return f"{mark} {text[bullet.end() :]}".replace("\n", "\n" + " " * (len(mark) + 1))
    return spans.lines(text)
