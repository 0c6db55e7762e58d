"""Parts of long results: which results are too long, and the content of each part; pure.

Only text blocks are counted and cut; tokens are estimated as bytes / 4. The first part keeps every other
member of the result and every other block. The further parts are text. The texts of all parts together are
the text of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Raw, Struct, structs

from tabane.catalog.text_breaks import TextPosition, is_json, next_break, path
from tabane.wire import json
from tabane.wire.json import InvalidJson, Members
from tabane.workers.time_slices import Pause, no_pause

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

    @property
    def footprint(self) -> int:
        """Return about how many bytes it takes while it is kept, without blocks that are not text."""
        return self.size + 256 * len(self.content)

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
            blocks.append(_piece(block, place, end))
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


def _piece(block: TextBlock, begin: TextPosition, end: TextPosition) -> bytes:
    text = block.text[begin.at : end.at].decode("utf-8", "surrogatepass")
    return json.join({**block.members, "text": Raw(json.quote(text))})


def _content(part: ResultPart, note: str) -> Raw:
    ending = json.encode({"type": "text", "text": note})
    return Raw(b"[" + b",".join([*part.blocks, ending]) + b"]")


def _meta(given: Raw | None, ours: dict[str, Any]) -> Raw:
    try:
        members = json.fields(given) if given is not None else {}
    except InvalidJson:
        members = {}
    return Raw(json.join({**members, META: Raw(json.encode(ours))}))
