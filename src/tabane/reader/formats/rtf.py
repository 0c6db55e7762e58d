"""Rich Text Format (RTF 1.9) as a page: its paragraphs, links and tables, without hidden text.

One pass over the control words. Libraries were looked at: striprtf shows hidden text and loses tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from time import process_time

from tabane.messages import Message, say
from tabane.reader.formats.data_files import table
from tabane.reader.formats.text import bounded, first_line
from tabane.reader.hidden_text import WHITE, Color, hidden_warnings, is_tiny, is_unreadable
from tabane.reader.markdown import spans
from tabane.reader.markdown.elements import address
from tabane.reader.page import Page

_SECONDS = 5.0  # of CPU time
_DEEPEST = 2_000  # groups that are open
_TOKEN = re.compile(
    r"\\([A-Za-z]{1,32})(-?\d{1,10})? ?|\\'([0-9A-Fa-f]{2})|\\(.)|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)|\\", re.S
)
_CHARSETS = {  # of \fcharset
    0: "cp1252", 77: "mac_roman", 78: "cp932", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030",
    136: "big5hkscs", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256",
    186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_PAGES = {936: "gb18030", 950: "big5hkscs", 65001: "utf-8", 10000: "mac_roman", 10001: "cp932", 1361: "johab"}
_CHARACTERS = {
    "tab": "\t", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“",
    "rdblquote": "”", "bullet": "•", "emspace": "\u2003", "enspace": "\u2002", "line": "\n", "softline": "\n",
}  # fmt: skip
_NOT_TEXT = frozenset({
    "stylesheet", "pict", "object", "objdata", "themedata", "colorschememapping", "datastore", "latentstyles",
    "listtable", "listoverridetable", "rsidtbl", "generator", "xmlnstbl", "filetbl", "revtbl", "template",
    "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf", "private",
    "xe", "tc", "bkmkstart", "bkmkend", "pntxta", "pntxtb", "atnid", "atnauthor", "annotation",
    "formfield", "nonshppict", "shpinst", "shprslt", "do", "falt", "panose", "fontemb", "operator", "company",
    "manager",
    "keywords", "doccomm", "hlinkbase", "subject", "category", "comment", "creatim", "revtim",
    "printim", "buptim", "mmathPr", "ftnsep", "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "rxe",
    "txe", "tcn", "linkval", "propname", "staticval", "userprops", "fname", "bliptag", "blipuid", "datafield",
    "ffname", "ffdeftext", "ffformat", "ffhelptext", "ffstattext", "ffentrymcr", "ffexitmcr", "docvar",
    "upr", "mvfmf", "mvfml", "mvtof", "mvtol", "protusertbl", "xmlname", "xmlattrname",
    "xmlattrvalue", "listname", "listpicture", "leveltext", "levelnumbers", "objclass", "objname",
})  # fmt: skip
"""Groups whose text is no text of the document."""

_STARRED = frozenset({"fldinst", "shptxt", "footnote", "listtext", "pntext", "ud"})
"""Groups that are read although they are marked as optional."""

_GROUNDS = frozenset({"highlight", "cb", "chcbpat", "clcbpat", "cbpat"})
_TABLES = frozenset({"fonttbl", "colortbl", "title", "author"})
_HIDDEN_STYLE = re.compile(
    r"\{\s*(?:\\\*\s*)?\\(s|cs)(\d{1,5})(?!\d)(?:[^{};\\]|\\(?!v(?![A-Za-z0])))*\\v(?![A-Za-z0])"
)
_SHEET = 200_000  # characters of a style sheet
_SHAPE_PARTS = frozenset({"sn", "sv"})
_OFFSETS = frozenset({"li", "lin", "fi", "posx", "posnegx", "posy", "posnegy"})
_FAR = -8_000  # twips: farther left or up than any margin
_NARROW = 5  # percent of the width of letters
_LINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"([^"]{1,3000})"')


@dataclass(frozen=True, slots=True)
class _State:
    """What holds within a group. ``target`` is the group whose text is read: "" for that of the document."""

    target: str | None = ""
    codepage: str = "cp1252"
    fallback: int = 1
    hidden: bool = False
    aside: bool = False
    """Whether a style hides the paragraph, or it is off the page."""
    half_points: int = 24
    color: int = 0
    ground: int = 0


@dataclass(slots=True)
class _RtfParagraph:
    """Runs of text with the address that they link to; ``level`` is that of a heading, 0 for none.

    ``bullet`` is the mark of an item of a list, as Markdown.
    """

    runs: list[tuple[str, str]] = field(default_factory=list)
    level: int = 0
    bullet: str = ""

    def add(self, text: str, url: str) -> None:
        """Add text. Runs to the same address are joined."""
        if self.runs and self.runs[-1][1] == url:
            self.runs[-1] = (self.runs[-1][0] + text, url)
        else:
            self.runs.append((text, url))

    def markdown(self) -> str:
        """Return it as Markdown, without the mark of a heading."""
        parts = []
        for text, url in self.runs:
            # \u writes characters beyond the first plane as two halves.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            shown = spans.inline(text)
            parts.append(f"[{spans.label(shown)}]({url})" if url and text.strip() else shown)
        return "".join(parts).strip()


def rtf_page(body: bytes, url: str) -> Page:
    """Return the document; if it takes too long, its beginning."""
    reader = _RtfReader(url)
    reader.read(body.decode("latin-1"))
    text, cut = bounded("\n\n".join(reader.blocks))
    warnings: list[Message] = [*dict.fromkeys(reader.warnings), *hidden_warnings(reader.hidden)]
    if reader.cut:
        warnings.append(say("The page is larger than the limit, so its end is missing."))
    return Page(
        url,
        text,
        title=first_line(reader.facts["title"]),
        author=first_line(reader.facts["author"]),
        way="rtf",
        media_type="application/rtf",
        warnings=(*warnings, *cut),
    )


class _RtfReader:
    """Reads a document into ``blocks`` of Markdown. ``hidden`` counts runs that nobody sees."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.blocks: list[str] = []
        self.warnings: list[Message] = []
        self.facts = {"title": "", "author": ""}
        self.hidden, self.cut = 0, False
        self._state = _State()
        self._stack: list[_State] = []
        self._bytes = bytearray()
        self._skip = 0
        self._was_hidden = False
        self._starred = False
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._colors: list[Color | None] = []
        self._rgb: dict[str, int] = {}
        self._instruction = ""
        self._links: list[tuple[int, str]] = []
        self._paragraph = _RtfParagraph()
        self._cells: list[str] = []
        self._cell: list[str] = []
        self._rows: list[list[str]] = []
        self._in_table = False
        self._list_text = ""
        self._hidden_styles: set[tuple[str, str]] = set()
        self._property = ""
        self._hidden_shape = False

    def read(self, source: str) -> None:
        """Read the whole source."""
        start = process_time()
        at, count = 0, 0
        if (sheet := source.find("{\\stylesheet")) >= 0:
            self._hidden_styles = set(_HIDDEN_STYLE.findall(source[sheet : sheet + _SHEET]))
        while (match := _TOKEN.match(source, at)) is not None:
            at = match.end()
            count += 1
            if count % 10_000 == 0 and process_time() - start > _SECONDS:
                self.cut = True
                break
            word, number, code, symbol, brace, text = match.groups()
            if brace == "{":
                if len(self._stack) >= _DEEPEST:
                    self.cut = True
                    break
                self._flush()
                self._stack.append(self._state)
            elif brace:
                self._end_group()
            elif word is not None:
                self._starred = self._control(word, None if number is None else int(number)) and self._starred
                if word == "bin" and number:
                    at += max(0, int(number))
            elif code is not None:
                self._add_bytes(bytes((int(code, 16),)))
            elif symbol is not None:
                self._symbol(symbol)
            elif text is not None:
                self._add_bytes(text.encode("latin-1"))
        self._flush()
        self._end_paragraph()
        self._end_table()

    def _control(self, word: str, number: int | None) -> bool:
        """Do what a control word says; return whether a star before it still counts."""
        if word == "u" and number is not None:
            self._skip = 0
            self._flush()
            self._add_text(chr(number & 0xFFFF))
            self._skip = self._state.fallback
            return False
        self._skip = 0
        self._flush()
        state = self._state
        if word in _SHAPE_PARTS:
            self._state = replace(state, target=word)
        elif word in _NOT_TEXT or (self._starred and word not in _STARRED):
            self._hidden_shape = self._hidden_shape and word != "shpinst"
            self._state = replace(state, target=None)
        elif word in _TABLES or word in _STARRED:
            if word == "shptxt":  # a text box, within a group of properties
                self._state = replace(state, target="", hidden=state.hidden or self._hidden_shape)
            elif word == "ud":  # the same text in Unicode
                self._state = replace(state, target="")
            elif state.target is not None:
                self._state = replace(state, target="" if word == "footnote" else word)
                self._instruction = "" if word == "fldinst" else self._instruction
        elif state.target is None:
            pass
        elif word == "fldrslt":
            link = _LINK.search(self._instruction)
            where = address(link[1], self._url) if link else None
            self._links.append((len(self._stack), where or ""))
            self._instruction = ""
        elif not self._set_style(word, number) and state.target == "":
            self._write(word, number)
        return False

    def _set_style(self, word: str, number: int | None) -> bool:
        """Change what holds from here on; return whether the control word does that."""
        state, value = self._state, number or 0
        if word in ("red", "green", "blue"):
            self._rgb[word] = min(max(value, 0), 255)
        elif word == "ansicpg" and value:
            self._fonts[-1] = _PAGES.get(value, f"cp{value}")
            self._state = replace(state, codepage=self._fonts[-1])
        elif word == "f" and number is not None:
            self._font = number
            self._state = replace(state, codepage=self._fonts.get(number, state.codepage))
        elif word == "fcharset" and state.target == "fonttbl":
            self._fonts[self._font] = _CHARSETS.get(value, state.codepage)
        elif word == "uc":
            self._state = replace(state, fallback=min(max(value, 0), 100))
        elif word in ("v", "deleted"):
            self._state = replace(state, hidden=number != 0)
        elif word == "charscalex":
            self._state = replace(state, hidden=0 < value < _NARROW)
        elif word == "cs" and ("cs", str(number)) in self._hidden_styles:
            self._state = replace(state, hidden=True)
        elif (word == "s" and ("s", str(number)) in self._hidden_styles) or (
            word in _OFFSETS and value < _FAR
        ):
            self._state = replace(state, aside=True)
        elif word == "plain":
            codepage = self._fonts.get(-1, state.codepage)
            self._state = _State(state.target, codepage, state.fallback, aside=state.aside)
        elif word == "fs" and number is not None:
            self._state = replace(state, half_points=number)
        elif word == "cf":
            self._state = replace(state, color=value)
        elif word in _GROUNDS:
            self._state = replace(state, ground=value)
        else:
            return False
        return True

    def _write(self, word: str, number: int | None) -> None:
        if word in _CHARACTERS:
            self._add_text(_CHARACTERS[word])
        elif word in ("par", "sect", "page"):
            self._end_paragraph()
        elif word == "pard":
            self._in_table, self._paragraph.level = False, 0
            self._state = replace(self._state, aside=False)
        elif word == "intbl":
            self._in_table = True
        elif word == "outlinelevel" and number is not None and 0 <= number < 6:
            self._paragraph.level = number + 1
        elif word in ("cell", "nestcell"):
            self._in_table = True
            self._end_paragraph()
            self._cells.append(" ".join(self._cell))
            self._cell = []
        elif word in ("row", "nestrow") and self._cells:
            self._rows.append(self._cells)
            self._cells = []

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._starred = True
        elif symbol in "\\{}":
            self._add_bytes(symbol.encode())
        elif symbol in "~_":
            self._flush()
            self._add_text("\xa0" if symbol == "~" else "-")
        elif symbol in "\r\n":
            self._flush()
            if self._state.target == "":
                self._end_paragraph()

    def _end_group(self) -> None:
        self._flush()
        self._skip = 0
        self._starred = False
        if self._links and self._links[-1][0] == len(self._stack):
            self._links.pop()
        if self._stack:
            before, self._state = self._state, self._stack.pop()
            if before.target in ("listtext", "pntext") and self._state.target == "" and self._list_text:
                marked = re.match(r"\s*(\d{1,4})[.)]", self._list_text)
                self._paragraph.bullet = f"{marked[1]}. " if marked else "- "
                self._list_text = ""

    def _add_bytes(self, data: bytes) -> None:
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if self._state.target is not None:
            self._bytes += data

    def _flush(self) -> None:
        """Decode the bytes since the last control word: a character may be several."""
        if self._bytes:
            data = bytes(self._bytes)
            self._bytes.clear()
            try:
                text = data.decode(self._state.codepage, "replace")
            except LookupError:
                text = data.decode("cp1252", "replace")
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        state = self._state
        if state.target == "colortbl":
            for _ in range(min(text.count(";"), 1_000)):
                color = (self._rgb.get("red", 0), self._rgb.get("green", 0), self._rgb.get("blue", 0))
                self._colors.append(color if self._rgb else None)
                self._rgb = {}
        elif state.target == "fldinst":
            self._instruction = (self._instruction + text)[:5_000]
        elif state.target == "sn":
            self._property = text.strip()
        elif state.target == "sv":
            hides = self._property == "fHidden" and text.strip() not in ("", "0")
            self._hidden_shape = self._hidden_shape or hides
        elif state.target in self.facts:
            self.facts[state.target] = (self.facts[state.target] + text)[:500]
        elif state.target in ("listtext", "pntext"):
            self._list_text = (self._list_text + text)[:50]
        elif state.target == "":
            if not self._is_seen(state):
                self.hidden += bool(text.strip()) and not self._was_hidden
                self._was_hidden = True
                return
            self._was_hidden = self._was_hidden and not text.strip()
            self._paragraph.add(text, self._links[-1][1] if self._links else "")

    def _is_seen(self, state: _State) -> bool:
        pale = is_unreadable(self._color(state.color), self._color(state.ground) or WHITE)
        return not (state.hidden or state.aside or pale or is_tiny(state.half_points / 2))

    def _color(self, number: int) -> Color | None:
        return self._colors[number] if 0 <= number < len(self._colors) else None

    def _end_paragraph(self) -> None:
        text, level, bullet = self._paragraph.markdown(), self._paragraph.level, self._paragraph.bullet
        self._paragraph = _RtfParagraph()
        if self._in_table:
            if text:
                self._cell.append(text)
            return
        self._end_table()
        if not text:
            return
        if level:
            text = f"{'#' * level} {spans.heading(' '.join(text.split()))}"
        self.blocks.append(text if level else bullet + spans.lines(text))

    def _end_table(self) -> None:
        if self._cells:
            self._rows.append(self._cells)
            self._cells = []
        if self._rows:
            written = table(self._rows)
            self.blocks.append(written.markdown)
            self.warnings += written.warnings
            self._rows = []
