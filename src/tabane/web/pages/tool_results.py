"""Results of tools as blocks to show: text, JSON, images, audio, links, resources; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tabane.web.form_values import JsonFault, read_json
from tabane.web.schema_fields import as_json

MOST_BLOCKS = 200
MOST_TEXT = 400_000
"""Characters of a text, or of JSON, that are shown."""

MOST_MEDIA = 12_000_000
"""Characters of base64 of all images and recordings of a result."""

PART = "io.github.tabane/part"
"""The member of a result's ``_meta`` about the part that it is."""

_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"))
_AUDIO = re.compile(r"audio/[a-z0-9.+-]{1,40}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_MARKDOWN = re.compile(
    r"^(#{1,6} \S|\s*[-*+] \S|\s*\d+\. \S|```|> \S|\|.+\|\s*$)|\[[^\]\n]+\]\([^)\s]+\)|\*\*\S", re.MULTILINE
)

BlockKind = Literal["text", "json", "image", "audio", "link", "unknown"]


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A block of a result. ``text`` is its text or JSON, ``uri`` that of a link or resource.

    ``source`` is the URL of an image or a recording. ``cut`` tells that not all is shown. ``markdown``: the
    text seems to be Markdown.
    """

    kind: BlockKind
    text: str = ""
    type: str = ""
    name: str = ""
    uri: str = ""
    source: str = ""
    size: int = 0
    cut: bool = False
    markdown: bool = False

    @property
    def is_web(self) -> bool:
        """Return whether the URI is one that a browser may open."""
        return bool(_WEB.match(self.uri))


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A result as the page shows it. ``raw`` is all of it as JSON; empty if that is too long.

    ``given`` of ``whole`` bytes are shown if it is a part, and ``next`` is the handle of the next one.
    """

    blocks: tuple[ResultBlock, ...]
    failed: bool = False
    structured: str = ""
    raw: str = ""
    left_out: int = 0
    next: str = ""
    given: int = 0
    whole: int = 0


def shown_result(result: object, size: int) -> ShownResult:
    """Return a result to show, whatever it is; ``size`` is the bytes of its JSON."""
    if not isinstance(result, dict):
        return ShownResult((_json_block(result),))
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    part = _part(result)
    room = _MediaRoom()
    structured = result.get("structuredContent")
    return ShownResult(
        tuple(_block(block, room) for block in blocks[:MOST_BLOCKS]),
        result.get("isError") is True,
        _bounded_json(structured) if structured is not None and not _repeats(structured, blocks) else "",
        _bounded_json(result) if size <= MOST_TEXT else "",
        max(0, len(blocks) - MOST_BLOCKS),
        _text(part.get("next")),
        _count(part.get("bytes")),
        _count(part.get("of")),
    )


@dataclass(slots=True)
class _MediaRoom:
    """Characters of base64 that may still be shown."""

    left: int = MOST_MEDIA

    def take(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


def _block(block: object, room: _MediaRoom) -> ResultBlock:
    if not isinstance(block, dict):
        return _json_block(block)
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return _text_block(block["text"])
        case "image" | "audio":
            return _media(block, _text(block.get("data")), room)
        case "resource_link":
            return _link(block)
        case "resource" if isinstance(block.get("resource"), dict):
            return _resource(block["resource"], room)
    return ResultBlock("unknown", _bounded_json(block), type=_text(block.get("type"))[:100])


def _text_block(text: str, **more: Any) -> ResultBlock:
    if text[:1] in ("{", "[") and len(text) <= MOST_TEXT:
        found = read_json(text)
        if not isinstance(found, JsonFault):
            return ResultBlock("json", printable(text), size=len(text), **more)
    shown = text[:MOST_TEXT]
    markdown = len(_MARKDOWN.findall(shown[:20_000])) >= 2
    return ResultBlock(
        "text", printable(shown), size=len(text), cut=len(text) > MOST_TEXT, markdown=markdown, **more
    )


def _json_block(value: object) -> ResultBlock:
    text = _bounded_json(value)
    return ResultBlock("json", text, size=len(text)) if text else ResultBlock("unknown")


def _media(block: Mapping[str, Any], data: str, room: _MediaRoom, **more: Any) -> ResultBlock:
    kind = _text(block.get("mimeType")).lower().partition(";")[0].strip()
    size = len(data) * 3 // 4
    image = kind in _IMAGES
    if not (image or _AUDIO.fullmatch(kind)) or not _BASE64.fullmatch(data) or not room.take(len(data)):
        return ResultBlock("unknown", type=kind[:100], size=size, cut=True, **more)
    shown: BlockKind = "image" if image else "audio"
    return ResultBlock(shown, type=kind, source=f"data:{kind};base64,{data}", size=size, **more)


def _link(block: Mapping[str, Any]) -> ResultBlock:
    return ResultBlock(
        "link",
        _text(block.get("description"))[:2_000],
        _text(block.get("mimeType"))[:100],
        (_text(block.get("title")) or _text(block.get("name")))[:300],
        _text(block.get("uri"))[:4_000],
        size=_count(block.get("size")),
    )


def _resource(resource: Mapping[str, Any], room: _MediaRoom) -> ResultBlock:
    uri = _text(resource.get("uri"))[:4_000]
    if isinstance(resource.get("text"), str):
        return _text_block(resource["text"], uri=uri, type=_text(resource.get("mimeType"))[:100])
    return _media(resource, _text(resource.get("blob")), room, uri=uri)


def _repeats(structured: object, blocks: list[Any]) -> bool:
    """Return whether the one text has the structured content too, as servers do for old clients."""
    texts = list(_texts(blocks))
    if len(texts) != 1 or texts[0][:1] not in ("{", "[") or len(texts[0]) > MOST_TEXT:
        return False
    return bool(read_json(texts[0]) == structured)


def _texts(blocks: list[Any]) -> Iterator[str]:
    for block in blocks[:2]:
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def _part(result: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = result.get("_meta")
    part = meta.get(PART) if isinstance(meta, dict) else None
    return part if isinstance(part, dict) else {}


def _bounded_json(value: object) -> str:
    try:
        text = as_json(value)
    except (ValueError, RecursionError):
        return ""
    return printable(text) if len(text) <= MOST_TEXT else ""


def printable(text: str) -> str:
    """Return a text with a question mark for each half of a surrogate pair, which no page can have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0
