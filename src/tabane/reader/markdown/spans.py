"""Text of a line: escaped where it would be read as Markdown, and joined from spans. Pure.

White space is as a browser shows it, and marks are written only if they are valid. CommonMark reads
``**「はい」**と`` as plain text: a closing ``**`` after punctuation needs white space or punctuation after
it, and Japanese has none. So marks are moved inside the punctuation, or dropped, if they would not be read as
marks (CommonMark 0.31, 6.2).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

_INLINE = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])"  # a backslash that would escape
    r"|`"
    r"|\*(?=\S)|(?<=\S)\*"  # emphasis needs something beside it
    r"|(?<!\w)_++(?=\S)|(?<!_)(?<=\S)_++(?![^\W_])"  # and within a word underscores are letters
    r"|~(?=~)"
    r"|<(?=[A-Za-z/!?])"  # a tag
    r"|&(?=#?\w{1,32};)"  # an entity
    r"|\[(?=[^\[\]]{0,999}\][(\[])|\A\[(?=[^\[\]]{0,999}\]:)|\[(?=\^)"  # a link, a definition, a footnote
)
_BRACKET = re.compile(r"(?<!\\)[\[\]]")
_LINE = re.compile(
    r"^( {0,3})(#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|=+(?=\s*$)|-{2,}(?=\s*$)|~{3,}|\d{1,9}(?=[.)](?:\s|$)))", re.M
)


def inline(text: str) -> str:
    """Escape running text, so that nothing in it is a mark."""
    return _INLINE.sub(lambda found: "\\" + "\\".join(found[0]), text)


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
    return _LINE.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    mark = match[2]
    return match[1] + (mark + "\\" if mark.isdigit() else "\\" + mark)


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


class AtomicSpan(NamedTuple):
    """A piece that is Markdown already."""

    markdown: str


class LinkSpan(NamedTuple):
    """A link whose label is Markdown already."""

    label: str
    url: str


class OpeningMark(NamedTuple):
    """A mark of emphasis begins."""

    sign: str


class ClosingMark(NamedTuple):
    """The last mark that began ends."""

    sign: str


class HardLineBreak(NamedTuple):
    """A line ends; two in a row end a paragraph."""


Piece = str | AtomicSpan | LinkSpan | OpeningMark | ClosingMark | HardLineBreak
"""A piece of a line; a str is text as the page has it, neither collapsed nor escaped."""

_SPACE = " \t\n\r\f\v\xa0\u2009\u202f"
_SPACES = re.compile(f"[{_SPACE}]+")
_UNSEEN = re.compile("[\u200b-\u200f\u2060]+")  # what a writing system needs: the rest was removed before
_WIDE = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\uff66-\uff9f\U00020000-\U0003ffff"
_FOLD = re.compile(f"(?<=[{_WIDE}])[ \t]*[\r\n][{_SPACE}]*(?=[{_WIDE}])")
_IS_WIDE = re.compile(f"[{_WIDE}]")
_SIGN = re.compile(r"[*~]{1,2}$")
_TEX = re.compile(r"\\\((.{1,2000}?)\\\)|\\\[(.{1,5000}?)\\\]|\$\$(.{1,5000}?)\$\$", re.S)


def joined(pieces: Iterable[Piece]) -> str:
    """Return the Markdown of a run: lines end in two spaces and a newline, paragraphs in an empty line."""
    tokens = _Tokens()
    for piece in pieces:
        if isinstance(piece, str):
            for part in _split_formulas(piece):
                tokens.add(part)
        else:
            tokens.add(piece)
    return _write_tokens(_valid_marks(tokens.done()))


def blank(pieces: Iterable[Piece]) -> bool:
    """Return whether nothing of it can be seen."""
    return all(
        not _UNSEEN.sub("", piece).strip()
        if isinstance(piece, str)
        else not isinstance(piece, AtomicSpan | LinkSpan)
        for piece in pieces
    )


def _split_formulas(text: str) -> list[Piece]:
    """Return text with the formulas that a script would render: their characters are not escaped as marks."""
    if "\\(" not in text and "\\[" not in text and "$$" not in text:
        return [text]
    parts: list[Piece] = []
    at = 0
    for match in _TEX.finditer(text):
        parts.append(text[at : match.start()])
        inside, shown = match[1], match[2] or match[3]
        parts.append(AtomicSpan(f"${inside.strip()}$" if inside else f"$${(shown or '').strip()}$$"))
        at = match.end()
    return [*parts, text[at:]]


class _Token(NamedTuple):
    kind: str  # text, atom, open, close, break
    text: str


class _Tokens:
    """Tokens in order, with white space collapsed across them and kept outside of marks."""

    def __init__(self) -> None:
        self._tokens: list[_Token] = []
        self._space = ""
        self._waiting: list[str] = []

    def add(self, piece: Piece) -> None:
        if isinstance(piece, str):
            self._add_text(piece)
        elif isinstance(piece, OpeningMark):
            self._waiting.append(piece.sign)
        elif isinstance(piece, ClosingMark):
            if self._waiting:
                self._waiting.pop()
            else:
                self._tokens.append(_Token("close", piece.sign))
        elif isinstance(piece, HardLineBreak):
            self._space = ""
            self._tokens.append(_Token("break", "\n"))
        elif isinstance(piece, LinkSpan):
            self._add_visible("atom", f"[{label(piece.label)}]({piece.url})")
        elif piece.markdown:
            self._add_visible("atom", piece.markdown)

    def _add_text(self, text: str) -> None:
        core = text.strip(_SPACE)
        if not core:
            self._space = self._space or text
            return
        if text[0] in _SPACE:
            self._space = self._space or text[: len(text) - len(text.lstrip(_SPACE))]
        if "\n" in core:
            core = _FOLD.sub("", core)
        self._add_visible("text", _SPACES.sub(" ", core))
        self._space = text[len(text.rstrip(_SPACE)) :]

    def _add_visible(self, kind: str, text: str) -> None:
        if self._space and self._tokens and self._tokens[-1].kind != "break":
            # A line of Japanese is cut anywhere in the source, and goes on without a space.
            texts = (token.text for token in reversed(self._tokens) if token.kind in ("text", "atom"))
            last = next(texts, "") if "\n" in self._space else ""
            if not (last and _IS_WIDE.match(last[-1]) and _IS_WIDE.match(text)):
                self._tokens.append(_Token("text", " "))
        elif kind == "atom" and text.startswith("[") and self._after_link():
            self._tokens.append(_Token("text", " "))
        self._space = ""
        self._tokens.extend(_Token("open", sign) for sign in self._waiting)
        self._waiting.clear()
        self._tokens.append(_Token(kind, inline(text) if kind == "text" else text))

    def _after_link(self) -> bool:
        return bool(self._tokens) and self._tokens[-1].kind == "atom" and self._tokens[-1].text.endswith(")")

    def done(self) -> list[_Token]:
        return self._tokens


def _valid_marks(tokens: Sequence[_Token]) -> list[_Token]:
    """Return the tokens with marks only where CommonMark reads them as marks."""
    valid = list(tokens)
    pairs: list[tuple[int, int]] = []
    begun: list[int] = []
    for position, token in enumerate(valid):
        if token.kind == "open":
            begun.append(position)
        elif token.kind == "close" and begun:
            pairs.append((begun.pop(), position))
    for begin, end in pairs:
        _move_in(valid, begin, end)
        if not _is_valid_mark(valid, begin, end):
            valid[begin] = valid[end] = _Token("text", "")
    return valid


def _move_in(tokens: list[_Token], begin: int, end: int) -> None:
    """Move punctuation at the edges outside of the marks, if a mark next to it would be invalid."""
    first, last = _nearest_visible(tokens, begin, 1), _nearest_visible(tokens, end, -1)
    if first is None or last is None or first > last:
        return
    before, behind = _char_beside(tokens, begin, -1), _char_beside(tokens, end, 1)
    if _is_word(before) and tokens[first].kind == "text":
        _move_punctuation(tokens, first, begin, leading=True)
    if _is_word(behind) and tokens[last].kind == "text":
        _move_punctuation(tokens, last, end, leading=False)


def _move_punctuation(tokens: list[_Token], text: int, mark: int, *, leading: bool) -> None:
    """Move punctuation at one end of a text over the mark beside it: it is joined to the mark's own token."""
    whole = tokens[text].text
    edge = 0
    chars = whole if leading else whole[::-1]
    while edge < len(chars) and _is_punctuation(chars[edge]):
        edge += 1
    if not edge or edge == len(whole):
        return
    sign = tokens[mark].text
    if leading:
        tokens[text] = _Token("text", whole[edge:])
        tokens[mark] = _Token("open", whole[:edge] + sign)
    else:
        tokens[text] = _Token("text", whole[:-edge])
        tokens[mark] = _Token("close", sign + whole[-edge:])


def _is_valid_mark(tokens: Sequence[_Token], begin: int, end: int) -> bool:
    if any(one.kind == two.kind == "break" for one, two in pairwise(tokens[begin:end])):
        return False
    opens, closes = tokens[begin].text, tokens[end].text
    before = opens[0] if opens[0] not in "*~" else _char_beside(tokens, begin, -1)
    behind = closes[-1] if closes[-1] not in "*~" else _char_beside(tokens, end, 1)
    first, last = _char_beside(tokens, begin, 1), _char_beside(tokens, end, -1)
    if not first.strip() or not last.strip() or _is_crowded(tokens, begin, end):
        return False
    return not ((_is_punctuation(first) and _is_word(before)) or (_is_punctuation(last) and _is_word(behind)))


def _is_crowded(tokens: Sequence[_Token], begin: int, end: int) -> bool:
    """Return whether another mark is right before the first, or the same mark is within or around it."""
    if begin and tokens[begin - 1].kind == "close" and tokens[begin - 1].text:
        return True
    sign = _sign_of(tokens[begin])
    return any(token.kind == "open" and _sign_of(token) == sign for token in tokens[begin + 1 : end])


def _sign_of(opening: _Token) -> str:
    match = _SIGN.search(opening.text)
    return match[0] if match else ""


def _nearest_visible(tokens: Sequence[_Token], position: int, step: int) -> int | None:
    """Return the nearest token that has something to see."""
    position += step
    while 0 <= position < len(tokens):
        if tokens[position].kind in ("text", "atom") and tokens[position].text:
            return position
        position += step
    return None


def _char_beside(tokens: Sequence[_Token], position: int, step: int) -> str:
    """Return the character beside a mark, beyond other marks; a space at a border."""
    position += step
    while 0 <= position < len(tokens):
        kind, text = tokens[position]
        if kind == "break":
            return " "
        if kind in ("text", "atom") and text:
            return text[0] if step > 0 else text[-1]
        position += step
    return " "


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char)[0] in "PS"


def _is_word(char: str) -> bool:
    return not char.isspace() and not _is_punctuation(char)


def _write_tokens(tokens: Sequence[_Token]) -> str:
    parts: list[str] = []
    for kind, text in tokens:
        parts.append("\0" if kind == "break" else text)
    line = re.sub(r" *\0 *", "\0", "".join(parts)).strip("\0 ")
    return re.sub(r"\0{2,}", "\n\n", line).replace("\0", "  \n")
