"""Parts of long results: which results are too long, and the content of each part; pure.

Only text blocks are counted and cut; tokens are estimated as bytes / 4. The first part keeps every other
member of the result and every other block. The further parts are text. The texts of all parts together are
the text of the result. Each is cut where it reads well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, structs

from tabane.text.cutting import cut_at
from tabane.wire import json
from tabane.wire.json import InvalidJson, Members
from tabane.workers.time_slices import Pause, no_pause

DEEPEST = 32
"""Levels of nesting at which a JSON text may be cut between elements."""

_LINES_IN_JSON = ("\n", "\\n")
_LONGEST_KEY = 40

Label = int | bytes
"""A position in an array (an index) or an object (a key, as it is written)."""


class TextPosition(NamedTuple):
    """A position in a text: an offset in bytes and, in JSON, the labels of what is open there.

    ``inside`` is True within a string.
    """

    at: int = 0
    levels: tuple[Label, ...] = ()
    inside: bool = False


def is_json(text: bytes) -> bool:
    """Return whether a text is one JSON array or object."""
    if text.lstrip(b" \t\r\n")[:1] not in (b"[", b"{"):
        return False
    try:
        _any_json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def next_break(text: bytes, place: TextPosition, limit: int, *, of_json: bool) -> TextPosition:
    """Return the end of the part that begins at ``place``: at least 1, at most ``limit`` bytes further."""
    end = place.at + limit
    if end >= len(text):
        return TextPosition(len(text))
    return _in_json(text, place, end) if of_json else TextPosition(_in_text(text, place.at, end))


def path(text: bytes, place: TextPosition) -> str:
    """Return the label of a place in JSON, such as ``results[120].name``; empty at the outermost level."""
    levels = place.levels
    before = text[max(0, place.at - 64) : place.at].rstrip()[-1:]
    if levels and isinstance(levels[-1], bytes) and before == b"," and not place.inside:
        following = _key.match(text, place.at, place.at + 8 * _LONGEST_KEY)
        levels = (*levels[:-1], following[1] if following else b"")
    return "".join(map(_label_text, levels)).removeprefix(".")


# -- plain text --------------------------------------------------------------------------------------


def _in_text(text: bytes, start: int, end: int, lines: tuple[str, ...] = ("\n",)) -> int:
    while text[end] & 0xC0 == 0x80:  # inside of a character
        end -= 1
    after = end
    while after < len(text) and (after == end or text[after] & 0xC0 == 0x80):
        after += 1
    part = text[start:after].decode("utf-8", "surrogatepass")
    cut = cut_at(part, 0, len(part) - 1, lines)
    return start + len(part[:cut].encode("utf-8", "surrogatepass"))


# -- JSON --------------------------------------------------------------------------------------------

_any_json = msgspec.json.Decoder(msgspec.Raw)
_INSIDE = rb'(?:[^"\\]++|\\.|\\\Z)*+'
_token = re.compile(rb'"' + _INSIDE + rb'("|\Z)|[\[\]{},:]', re.S)
_rest = re.compile(_INSIDE + rb'("|\Z)', re.S)
_key = re.compile(rb"\s*+(\"" + _INSIDE + rb"\")\s*+:", re.S)
_space = re.compile(rb"[ \t\r\n]*+")


def _in_json(text: bytes, place: TextPosition, end: int) -> TextPosition:
    borders, _ = _walk(text, place, end)
    quarter = place.at + (end - place.at) // 4
    for depth in sorted(borders):
        if borders[depth].at >= quarter:
            return _past_space(text, borders[depth], end)
    at = _outside_escape(text, place.at, _in_text(text, place.at, end, _LINES_IN_JSON))
    if at < quarter and borders:
        return _past_space(text, max(borders.values()), end)
    return _walk(text, place, at)[1]


def _walk(text: bytes, place: TextPosition, end: int) -> tuple[dict[int, TextPosition], TextPosition]:
    """Return the last border between elements at each depth up to ``end``, and what is open there."""
    borders: dict[int, TextPosition] = {}
    levels, at, inside, word = list(place.levels), place.at, place.inside, b""
    if inside and (rest := _rest.match(text, at, end)):
        at, inside = rest.end(), not rest[1]
    for match in _token.finditer(text, at, end):
        token = match[0]
        if token[:1] == b'"':
            word, inside = token, not match[1]
        elif token in b"[{":
            levels.append(0 if token == b"[" else b"")
        elif not levels:
            break
        elif token == b":":
            levels[-1] = word
        elif token != b",":
            levels.pop()
        else:
            label = levels[-1]
            levels[-1] = label + 1 if isinstance(label, int) else label
            if len(levels) <= DEEPEST:
                borders[len(levels)] = TextPosition(match.end(), tuple(levels))
    return borders, TextPosition(end, tuple(levels), inside)


def _past_space(text: bytes, place: TextPosition, end: int) -> TextPosition:
    space = _space.match(text, place.at, end)
    return place._replace(at=space.end() if space else place.at)


def _outside_escape(text: bytes, start: int, at: int) -> int:
    """Return the last offset up to ``at`` that does not cut ``\\n``, ``\\u3042`` or a pair of surrogates."""
    backslash = text.rfind(b"\\", max(start, at - 6), at)
    if backslash < 0:
        return at
    run = backslash
    while run > start and text[run - 1 : run] == b"\\":
        run -= 1
    if (backslash - run) % 2:
        return at
    length = 6 if text[backslash + 1 : backslash + 2] == b"u" else 2
    if backslash + length > at and backslash > start:
        at = backslash
        backslash -= 6
    low = _low_surrogate.match(text, at)
    return backslash if low and backslash > start and _high_surrogate.match(text, backslash) else at


_high_surrogate = re.compile(rb"\\u[dD][89abAB]")
_low_surrogate = re.compile(rb"\\u[dD][c-fC-F]")


def _label_text(label: Label) -> str:
    if isinstance(label, int):
        return f"[{label}]"
    name = json.text(label) or "…"
    return "." + (name if len(name) <= _LONGEST_KEY else name[:_LONGEST_KEY] + "…")


BYTES_OF_TOKEN = 4
LEAST_TOKENS = 1_000
"""The smallest budget that can be set."""

SHORT = LEAST_TOKENS * BYTES_OF_TOKEN
"""A result of so many bytes of JSON or fewer is never cut: its text is no longer than its JSON."""

ROOM_FOR_NOTE = 768
"""Bytes of a part that are reserved for the note at its end."""

META = "io.github.tabane/part"
"""The member of ``_meta`` with the content of the note, for programs."""


class TextBlock(Struct, frozen=True, gc=False):
    """A text block: its text as UTF-8, and its other members. A result may have 100,000 of them."""

    members: Members
    text: bytes
    of_json: bool


class LongResult(Struct, frozen=True):
    """A result whose text is longer than its budget. ``limit`` is the text of a part, in bytes.

    ``members`` are those of the result; ``content`` has its blocks in order, text and others. ``size`` is the
    bytes of all text.
    """

    members: Members
    content: tuple[TextBlock | Raw, ...]
    limit: int
    budget: int
    size: int

    def to_keep(self) -> LongResult:
        """Return what the further parts need, without references to anything else."""
        members = {key: self.members[key].copy() for key in ("isError",) if key in self.members}
        content = tuple(block if isinstance(block, TextBlock) else _NO_TEXT for block in self.content)
        return structs.replace(self, members=members, content=content)

    def without_texts(self, pause: Pause = no_pause) -> LongResult:
        """Return it with empty text blocks, for which little memory is needed."""
        content: list[TextBlock | Raw] = []
        for block in self.content:
            pause()
            if isinstance(block, TextBlock):
                plain = block.members is _PLAIN and not block.of_json
                block = _EMPTY if plain else structs.replace(block, text=b"")
            content.append(block)
        return structs.replace(self, content=tuple(content))

    def with_texts(self, texts: Iterator[bytes], pause: Pause = no_pause) -> LongResult:
        """Return it with the texts of its blocks: the inverse of :meth:`without_texts`."""
        content: list[TextBlock | Raw] = []
        for block in self.content:
            pause()
            if isinstance(block, TextBlock):
                block = TextBlock(block.members, next(texts), block.of_json)
            content.append(block)
        return structs.replace(self, content=tuple(content))


_PLAIN: Members = {"type": Raw(b'"text"')}
"""The members of nearly all text blocks, beside their text."""

_EMPTY = TextBlock(_PLAIN, b"", False)
_NO_TEXT = Raw(b"")


class PartStart(NamedTuple):
    """Start of a part: the block, the place in its text, and how many bytes of text came before."""

    block: int = 0
    place: TextPosition = TextPosition()
    given: int = 0


class ResultPart(NamedTuple):
    """One part: its blocks as JSON, its end, and whether it is the last."""

    blocks: list[bytes]
    end: PartStart
    last: bool


def read_long(result: bytes | Raw, tokens: int, pause: Pause = no_pause) -> LongResult | None:
    """Return a result whose text blocks exceed a budget; None for any other.

    ``pause`` is called between steps of few milliseconds, here and below, however many blocks there are.
    """
    budget = tokens * BYTES_OF_TOKEN
    if len(result) <= budget:
        return None
    try:
        members = json.fields(result)
        pause()
        content = []
        for raw in json.elements(members.get("content", Raw(b"[]"))):
            pause()
            content.append(_block(raw, pause))
    except InvalidJson:
        return None
    size = sum(len(block.text) for block in content if isinstance(block, TextBlock))
    if size <= budget:
        return None
    return LongResult(members, tuple(content), budget - ROOM_FOR_NOTE, budget, size)


def part_at(long: LongResult, start: PartStart, pause: Pause = no_pause) -> ResultPart:
    """Return the part that begins at a point. The first one holds all blocks that are not text."""
    room, given, first = long.limit, start.given, start == PartStart()
    blocks: list[bytes] = []
    full: PartStart | None = None
    for index in range(start.block, len(long.content)):
        pause()
        block = long.content[index]
        if isinstance(block, Raw):
            if first:
                blocks.append(bytes(block))
            continue
        if full:
            continue
        place = start.place if index == start.block else TextPosition()
        end = _end_in(long, block, place, room, partial=given > start.given)
        if end.at > place.at or not block.text:
            text = block.text[place.at : end.at].decode("utf-8", "surrogatepass")
            blocks.append(json.join({**block.members, "text": Raw(json.quote(text))}))
        given += end.at - place.at
        room -= end.at - place.at
        if end.at < len(block.text):
            full = PartStart(index, end, given)
            if not first:
                break
    return ResultPart(blocks, full or PartStart(len(long.content), TextPosition(), given), full is None)


def start_label(long: LongResult, point: PartStart) -> str:
    """Return the label of a part's start, such as ``results[120]``; empty in a text that is not JSON."""
    block = long.content[point.block] if point.block < len(long.content) else None
    return path(block.text, point.place) if isinstance(block, TextBlock) and block.of_json else ""


def omits_structure(long: LongResult) -> bool:
    """Return whether structuredContent is left out: only if it alone exceeds the budget."""
    return len(long.members.get("structuredContent", b"")) > long.budget


def first_result(long: LongResult, part: ResultPart, note: str, meta: dict[str, Any]) -> bytes:
    """Return the result that replaces a long one: all its members, its first part, the note."""
    members = {
        key: value
        for key, value in long.members.items()
        if key != "structuredContent" or not omits_structure(long)
    }
    return json.join({**members, "content": _content(part, note), "_meta": _meta(members.get("_meta"), meta)})


def further_result(long: LongResult, part: ResultPart, note: str, meta: dict[str, Any]) -> bytes:
    """Return the result of reading on: a further part, or a failure if the whole result is one."""
    members: Members = {"content": _content(part, note), "_meta": _meta(None, meta)}
    if "isError" in long.members:
        members["isError"] = long.members["isError"]
    return json.join(members)


def _block(raw: Raw, pause: Pause) -> TextBlock | Raw:
    members = json.fields(raw)
    pause()
    text = json.text(members.get("text")) if json.text(members.get("type")) == "text" else None
    if text is None:
        return raw.copy()
    pause()
    data = text.encode("utf-8", "surrogatepass")
    pause()
    plain = len(members) == 2 and bytes(members["type"]) == b'"text"'
    others = _PLAIN if plain else {key: value.copy() for key, value in members.items() if key != "text"}
    return TextBlock(others, data, is_json(data) if len(data) > SHORT else False)


def _end_in(
    long: LongResult, block: TextBlock, place: TextPosition, room: int, *, partial: bool
) -> TextPosition:
    if len(block.text) - place.at <= room:
        return TextPosition(len(block.text))
    # Too little room is left for a cut: the block begins the next part.
    if partial and room < long.limit // 4:
        return place
    return next_break(block.text, place, room, of_json=block.of_json)


def _content(part: ResultPart, note: str) -> Raw:
    ending = json.encode({"type": "text", "text": note})
    return Raw(b"[" + b",".join([*part.blocks, ending]) + b"]")


def _meta(given: Raw | None, ours: dict[str, Any]) -> Raw:
    try:
        members = json.fields(given) if given is not None else {}
    except InvalidJson:
        members = {}
    return Raw(json.join({**members, META: Raw(json.encode(ours))}))
