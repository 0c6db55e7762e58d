"""The result of a tool as a person reads it; pure."""

from __future__ import annotations

import json
import re
from typing import Any

# Everything below space but tab and newline, DEL, and the second set of controls: a terminal obeys these.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown(result: Any) -> str:
    """The content of a result: texts as they are, other blocks in a word on what they are.

    A result without content is its structured content, as JSON.
    """
    given = result if isinstance(result, dict) else {}
    content = given.get("content")
    if isinstance(content, list) and content:
        return "\n".join(_block(block) for block in content)
    return indented(given.get("structuredContent", result))


def indented(value: Any) -> str:
    """A value as JSON for reading."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def readable(text: str, *, on_terminal: bool) -> str:
    """A text from a server so that it can be printed.

    Halves of surrogate pairs, which no encoding has, are replaced; on a terminal also the characters
    that would move its cursor or change its colours, since a tool's author is not its user.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")) if on_terminal else text


def _block(block: Any) -> str:
    if not isinstance(block, dict):
        return json.dumps(block, ensure_ascii=False)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind in ("image", "audio"):
        return _note(kind, block.get("mimeType"), _size(block.get("data")))
    if kind == "resource_link":
        return _note("resource", block.get("name"), block.get("uri"))
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _resource(block["resource"])
    return _note(kind or "block")


def _resource(resource: dict[str, Any]) -> str:
    if isinstance(resource.get("text"), str):
        return str(resource["text"])
    return _note("resource", resource.get("uri"), resource.get("mimeType"), _size(resource.get("blob")))


def _note(*parts: object) -> str:
    return f"[{' '.join(str(part) for part in parts if part)}]"


def _size(encoded: object) -> str:
    """How many bytes are in base64."""
    if not isinstance(encoded, str):
        return ""
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return f"{size:,} B" if size < 10_000 else f"{size // 1000:,} kB"
