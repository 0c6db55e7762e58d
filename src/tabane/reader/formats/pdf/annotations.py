"""What lies on a page beside its own drawing: values of forms, annotations with text, and links.

Annotations that a viewer shows are drawn into the page, so that their text is judged like all other text:
by what is seen of it. Fields without an appearance have the text that viewers make of their value. Hidden
annotations, notes that open on a click, and buttons are removed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import POINTER, byref, c_ushort, cast, create_string_buffer
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tabane.reader.formats.pdf.marked_content import DocumentTraits
from tabane.reader.formats.pdf.page_objects import (
    PdfBox,
    PdfFrame,
    PdfWord,
    TextStyle,
)
from tabane.reader.formats.pdf.paragraphs import LINK_END, LINK_START, LINK_TEXT, WIDE
from tabane.reader.markdown import spans

_MOST = 2000  # annotations of a page
_LONGEST = 5000  # characters of a value
_VALUES = 50_000  # characters of the values of a page
_TESTS = 1_000_000  # of links with words
_HIDDEN = 1 << 1 | 1 << 5  # flags Hidden and NoView
_PASSWORD = 1 << 13
_WEB = re.compile(r"(?:https?://|mailto:)[^\s<>\x00-\x20\x7f]{1,2000}\Z", re.I)
_SIZE = re.compile(r"([\d.]{1,8})\s+Tf\b")
_FILL = re.compile(r"((?:[\d.]{1,8}\s+){1,4})(?:g|rg|k)\b")
_BOX_SIGNS = frozenset("☐□▢❏❑◻○◯o")


class PageLink(NamedTuple):
    """A link to the web and the boxes of what it covers."""

    boxes: tuple[PdfBox, ...]
    url: str


class PlacedText(NamedTuple):
    """The value of a field and its place. ``drawn``: the page draws it already, perhaps in pieces.

    ``size`` is that of the font, 0 if the place decides. A ``mark`` is the state of a check box.
    """

    box: PdfBox
    text: str
    size: float
    drawn: bool = False
    mark: bool = False


@dataclass(slots=True)
class PageAnnotations:
    """Links and values of a page. ``own`` is the number of objects that its own content draws.

    ``changed``: annotations were drawn into the page, which must be loaded again. ``hidden`` counts texts
    that viewers do not show.
    """

    own: int
    links: list[PageLink] = field(default_factory=list)
    texts: list[PlacedText] = field(default_factory=list)
    boxes: list[PdfBox] = field(default_factory=list)
    changed: bool = False
    hidden: int = 0


def page_annotations(page: Any, frame: PdfFrame, form: Any, traits: DocumentTraits) -> PageAnnotations:
    """Return the links and values of a page, and draw its other annotations into it.

    ``form`` is the environment of the document's forms, None without any.
    """
    import pypdfium2.raw as raw

    found = PageAnnotations(raw.FPDFPage_CountObjects(page))
    count = raw.FPDFPage_GetAnnotCount(page)
    if not 0 < count <= _MOST:
        return found
    reader = _AnnotationReader(page, frame, form, traits, found)
    draws = False
    for nth in reversed(range(count)):
        handle = raw.FPDFPage_GetAnnot(page, nth)
        if not handle:
            continue
        kept = reader.keeps(handle)
        raw.FPDFPage_CloseAnnot(handle)
        if kept is None:
            continue
        if kept:
            draws = True
        else:
            raw.FPDFPage_RemoveAnnot(page, nth)
    found.links.reverse()
    found.texts.reverse()
    if draws:
        found.changed = raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS
    return found


class _AnnotationReader:
    """Reads annotations one by one and decides which the page draws."""

    def __init__(
        self, page: Any, frame: PdfFrame, form: Any, traits: DocumentTraits, found: PageAnnotations
    ) -> None:
        import pypdfium2.raw as raw

        self._raw = raw
        self._page, self._frame, self._form = page, frame, form
        self._traits, self._found = traits, found
        self._left = _VALUES

    def keeps(self, handle: Any) -> bool | None:
        """Return whether an annotation is drawn into the page; None if it stays as it is."""
        raw = self._raw
        kind = raw.FPDFAnnot_GetSubtype(handle)
        box = self._box_of(handle)
        if kind == raw.FPDF_ANNOT_LINK:
            if not raw.FPDFAnnot_GetFlags(handle) & _HIDDEN:
                self._add_link(handle)
            return None
        if box is None or kind in (raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_POPUP):
            return False
        if not self._is_shown(handle):
            has_text = kind in (raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT)
            self._found.hidden += has_text and bool(self._text(handle, b"Contents") or self._value(handle))
            return False
        drawn = bool(raw.FPDFAnnot_HasKey(handle, b"AP"))
        if kind == raw.FPDF_ANNOT_WIDGET and self._form:
            drawn = self._keeps_field(handle, box, drawn=drawn)
        elif kind == raw.FPDF_ANNOT_FREETEXT and not drawn:
            self._add_text(handle, box, self._text(handle, b"Contents"))
        if drawn:
            self._found.boxes.append(box)
        return drawn

    def _box_of(self, handle: Any) -> PdfBox | None:
        edges = self._raw.FS_RECTF()
        if not self._raw.FPDFAnnot_GetRect(handle, byref(edges)):
            return None
        low, high = sorted((edges.bottom, edges.top))
        left, right = sorted((edges.left, edges.right))
        box = self._frame.box(left, low, right, high)
        page = PdfBox(0.0, 0.0, self._frame.width, self._frame.height)
        inside = page.holds((box.left + box.right) / 2, (box.bottom + box.top) / 2) or (
            page.meets(box) and box.width * box.height > 0.5 * page.width * page.height
        )
        return box if inside and min(box.width, box.height) >= 1.5 else None

    def _is_shown(self, handle: Any) -> bool:
        """Return whether neither a flag nor a layer hides an annotation.

        PDFium does not say whether its layer is on: it counts as off if any layer may be.
        """
        raw = self._raw
        if raw.FPDFAnnot_GetFlags(handle) & _HIDDEN:
            return False
        return not (self._traits.off and raw.FPDFAnnot_HasKey(handle, b"OC"))

    def _keeps_field(self, handle: Any, box: PdfBox, *, drawn: bool) -> bool:
        raw = self._raw
        kind = raw.FPDFAnnot_GetFormFieldType(self._form, handle)
        if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
            state = self._text(handle, b"AS")
            is_on = state != "Off" if state else bool(raw.FPDFAnnot_IsChecked(self._form, handle))
            self._found.texts.append(PlacedText(box, "☑" if is_on else "☐", 0.0, mark=True))
            return False
        if kind == raw.FPDF_FORMFIELD_PUSHBUTTON:
            return False
        if kind not in (
            raw.FPDF_FORMFIELD_TEXTFIELD,
            raw.FPDF_FORMFIELD_COMBOBOX,
            raw.FPDF_FORMFIELD_LISTBOX,
        ):
            return drawn
        value = self._value(handle)
        if drawn and not (self._traits.renew and value):
            if value:
                self._found.texts.append(PlacedText(box, value, 0.0, drawn=True))
            return True
        self._add_text(handle, box, value)
        return False

    def _value(self, handle: Any) -> str:
        """Return the text of a field as a viewer shows it, "" for a password."""
        raw, form = self._raw, self._form
        if not form or raw.FPDFAnnot_GetSubtype(handle) != raw.FPDF_ANNOT_WIDGET:
            return ""
        kind = raw.FPDFAnnot_GetFormFieldType(form, handle)
        if kind == raw.FPDF_FORMFIELD_TEXTFIELD:
            is_secret = raw.FPDFAnnot_GetFormFieldFlags(form, handle) & _PASSWORD
            return "" if is_secret else self._read(raw.FPDFAnnot_GetFormFieldValue, form, handle)
        if kind not in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
            return ""
        labels = [
            self._read(raw.FPDFAnnot_GetOptionLabel, form, handle, nth)
            for nth in range(min(raw.FPDFAnnot_GetOptionCount(form, handle), 500))
            if raw.FPDFAnnot_IsOptionSelected(form, handle, nth)
        ]
        return "\n".join(labels) or self._read(raw.FPDFAnnot_GetFormFieldValue, form, handle)

    def _add_text(self, handle: Any, box: PdfBox, text: str) -> None:
        """Add a text that the file does not draw, unless its default appearance is invisible."""
        if not text.strip():
            return
        look = self._text(handle, b"DA")
        size = _SIZE.search(look)
        points = _number(size[1]) if size else 0.0
        if 0 < points < 1.5 or _is_white(look):
            self._found.hidden += 1
            return
        self._found.texts.append(PlacedText(box, text, points))

    def _text(self, handle: Any, key: bytes) -> str:
        return self._read(self._raw.FPDFAnnot_GetStringValue, handle, key)

    def _read(self, get: Callable[..., int], *about: Any) -> str:
        length = min(get(*about, None, 0), _LONGEST * 2)
        if length <= 2 or self._left <= 0:
            return ""
        self._left -= length // 2
        buffer = create_string_buffer(length)
        get(*about, cast(buffer, POINTER(c_ushort)), length)
        return buffer.raw[: length - 2].decode("utf-16-le", "replace")

    def _add_link(self, handle: Any) -> None:
        raw = self._raw
        link = raw.FPDFAnnot_GetLink(handle)
        action = raw.FPDFLink_GetAction(link) if link else None
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            return
        length = raw.FPDFAction_GetURIPath(self._page.pdf, action, None, 0)
        if not 1 < length <= 2100:
            return
        buffer = create_string_buffer(length)
        raw.FPDFAction_GetURIPath(self._page.pdf, action, buffer, length)
        url = buffer.value.decode("utf-8", "replace").strip()
        if not _WEB.match(url):
            return
        boxes = tuple(self._link_boxes(handle, link))
        if boxes:
            self._found.links.append(PageLink(boxes, url))

    def _link_boxes(self, handle: Any, link: Any) -> Iterator[PdfBox]:
        """Yield the boxes of a link, one for each of its lines."""
        raw = self._raw
        corners = raw.FS_QUADPOINTSF()
        found = False
        for nth in range(min(raw.FPDFLink_CountQuadPoints(link), 50)):
            if raw.FPDFLink_GetQuadPoints(link, nth, byref(corners)):
                xs = (corners.x1, corners.x2, corners.x3, corners.x4)
                ys = (corners.y1, corners.y2, corners.y3, corners.y4)
                found = True
                yield self._frame.box(min(xs), min(ys), max(xs), max(ys))
        if not found and (box := self._box_of(handle)):
            yield box


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _is_white(look: str) -> bool:
    """Return whether the last color of a default appearance is nearly white."""
    colors = [[_number(part) for part in match[1].split()] for match in _FILL.finditer(look[:1000])]
    if not colors:
        return False
    last = colors[-1]
    return max(last) < 0.1 if len(last) == 4 else min(last) > 0.9


# Words


def words_with_values(
    words: Sequence[PdfWord], late: Iterable[int], annotations: PageAnnotations
) -> list[PdfWord]:
    """Return the words of a page with those of annotations at their places in its stream.

    ``late`` are the numbers of words that annotations draw.
    """
    drawn = set(late)
    if not drawn and not annotations.texts:
        return list(words)
    base = [word for nth, word in enumerate(words) if nth not in drawn]
    groups: list[tuple[PdfBox, list[PdfWord], bool]] = []
    rest = [words[nth] for nth in sorted(drawn)]
    for text in annotations.texts:
        if text.drawn:
            own, rest = _split_inside(rest, text.box)
            same = own and _letters("".join(word.text for word in own)) == _letters(text.text)
            if same:
                groups.append((text.box, _words_of_text(text, own[0].style), False))
            elif own:
                groups.append((text.box, own, False))
            continue
        if text.mark:
            base = [
                word
                for word in base
                if word.text not in _BOX_SIGNS or not text.box.holds(word.center, word.middle, 2.0)
            ]
        groups.append((text.box, _words_of_text(text, None), text.mark))
    for box in annotations.boxes:
        own, rest = _split_inside(rest, box)
        if own:
            groups.append((box, own, False))
    if rest:
        groups.append((rest[0].box, rest, False))
    return _inserted(base, groups)


def _split_inside(words: Sequence[PdfWord], box: PdfBox) -> tuple[list[PdfWord], list[PdfWord]]:
    inside = [box.holds(word.center, word.middle, 1.0) for word in words]
    return (
        [word for word, is_inside in zip(words, inside, strict=True) if is_inside],
        [word for word, is_inside in zip(words, inside, strict=True) if not is_inside],
    )


def _letters(text: str) -> str:
    return "".join(text.split())


def _words_of_text(text: PlacedText, style: TextStyle | None) -> list[PdfWord]:
    """Return the words of a value, at about the places where a viewer draws them."""
    lines = [line for line in text.text.splitlines() if line.strip()][:500]
    box = text.box
    size = text.size or max(4.0, min(11.0, box.height * (0.7 if len(lines) < 2 else 1.0 / len(lines))))
    style = style or TextStyle(0, (0, 0, 0), 255, 0, False, False, True, True, size)
    words: list[PdfWord] = []
    pitch = box.height / len(lines) if lines else 0.0
    for number, line in enumerate(lines):
        middle = box.top - pitch * (number + 0.5)
        letters = [
            (word, sum(1.0 if WIDE.match(letter) else 0.5 for letter in word)) for word in line.split()
        ]
        length = sum(wide for _, wide in letters) + 0.3 * (len(letters) - 1)
        scale = min(size, box.width / max(length, 0.1))
        x = box.left + 1
        for word, wide in letters:
            right = x + wide * scale
            words.append(
                PdfWord(
                    word, x, middle - size / 2, right, middle + size / 2, round(size, 1), style, number, False
                )
            )
            x = right + 0.3 * scale
    return words


def _inserted(base: list[PdfWord], groups: list[tuple[PdfBox, list[PdfWord], bool]]) -> list[PdfWord]:
    """Return words with groups put in: in the line beside them, or after the line above them."""
    rows = _WordRows(base)
    after: dict[int, list[tuple[float, float, list[PdfWord]]]] = defaultdict(list)
    for number, (box, words, is_mark) in enumerate(groups):
        lines: dict[int, list[PdfWord]] = defaultdict(list)
        for word in words:
            lines[word.line].append(word)
        for nth, line in enumerate(lines.values()):
            at, row = rows.place_beside(line[0], line[-1], is_mark=is_mark) if nth == 0 else (None, None)
            if at is None:
                row = 10_000_000 + number * 1000 + nth
                at = rows.place_below(box)
            after[at].append(
                (-line[0].middle // 4, line[0].left, [word._replace(line=row or 0) for word in line])
            )
    placed: list[PdfWord] = []
    for nth in range(-1, len(base)):
        if nth >= 0:
            placed.append(base[nth])
        for _, _, line in sorted(after.get(nth, ()), key=lambda one: one[:2]):
            placed.extend(line)
    return placed


class _WordRows:
    """Words by their height, to find neighbors."""

    def __init__(self, words: Sequence[PdfWord]) -> None:
        self._words = words
        self._order = sorted(range(len(words)), key=lambda nth: words[nth].middle)
        self._heights = [words[nth].middle for nth in self._order]

    def place_beside(self, first: PdfWord, last: PdfWord, *, is_mark: bool) -> tuple[int | None, int | None]:
        """Return the word after which a line is, and the number of the page's line; None without one."""
        room = max(first.size, 6.0) * 0.8
        low = bisect_left(self._heights, first.middle - room)
        high = bisect_right(self._heights, first.middle + room)
        left = right = None
        for nth in self._order[low : min(high, low + 500)]:
            word = self._words[nth]
            if word.center <= first.left + 2 and (left is None or word.right >= self._words[left].right):
                left = nth
            elif word.left >= last.right - 4 and (right is None or word.left <= self._words[right].left):
                right = nth
        is_before = right is not None and (
            left is None or (is_mark and self._words[right].left - last.right < 20)
        )
        if right is not None and is_before:
            return right - 1, self._words[right].line
        return (left, self._words[left].line) if left is not None else (None, None)

    def place_below(self, box: PdfBox) -> int:
        """Return the last word of the line above a box, -1 if it is above all words."""
        start = bisect_left(self._heights, box.top - 2)
        for nth in self._order[start : start + 2000]:
            word = self._words[nth]
            if word.left < box.right + 20 and box.left - 20 < word.right:
                while nth + 1 < len(self._words) and self._words[nth + 1].line == word.line:
                    nth += 1
                return nth
        return -1


# Links

_LINKED = re.compile(f"{LINK_START}(\\d+){LINK_TEXT}([^{LINK_START}{LINK_TEXT}{LINK_END}]*){LINK_END}")
_SCHEME = re.compile(r"https?://|mailto:", re.I)


class LinkTable:
    """The links of a document by number. Words have a number, and texts have marks around them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._urls: list[str] = []
        self._tests = _TESTS

    def linked(self, words: list[PdfWord], links: Sequence[PageLink]) -> list[PdfWord]:
        """Return words with the numbers of the links that cover them."""
        if not links:
            return words
        order = sorted(range(len(words)), key=lambda nth: words[nth].middle)
        heights = [words[nth].middle for nth in order]
        for link in links:
            number = self._numbers.setdefault(link.url, len(self._urls))
            if number == len(self._urls):
                self._urls.append(link.url)
            for box in link.boxes:
                low, high = bisect_left(heights, box.bottom), bisect_right(heights, box.top)
                self._tests -= high - low + 1
                if self._tests < 0:
                    return words
                for nth in order[low:high]:
                    if box.left - 1 <= words[nth].center <= box.right + 1:
                        words[nth] = words[nth]._replace(link=number)
        return words

    def written(self, markdown: str) -> str:
        """Return Markdown with its marks written as links; one over several words or lines is one link."""
        if LINK_START not in markdown:
            return markdown
        pieces: list[str] = []
        at, number, text = 0, -1, ""
        for match in _LINKED.finditer(markdown):
            between = markdown[at : match.start()]
            if number == int(match[1]) and not between.strip():
                text += between + match[2]
            else:
                pieces += [self._link(number, text), between]
                number, text = int(match[1]), match[2]
            at = match.end()
        return "".join([*pieces, self._link(number, text), markdown[at:]])

    def _link(self, number: int, text: str) -> str:
        """Return a link; text that is the address itself is not said twice."""
        if not text.strip() or not 0 <= number < len(self._urls):
            return text
        url = self._urls[number]
        for char, code in ((" ", "%20"), ("(", "%28"), (")", "%29"), ("|", "%7C"), ("\\", "%5C")):
            url = url.replace(char, code)
        said = _SCHEME.sub("", "".join(text.replace("\\", "").split())).rstrip("/")
        if said == _SCHEME.sub("", self._urls[number]).rstrip("/"):
            return f"<{url}>"
        return f"[{spans.label(' '.join(text.split()))}]({url})"
