"""A long result while it is kept: its text for further parts, and its value for queries."""

from __future__ import annotations

from pathlib import Path

from msgspec import Raw

from tabane.catalog.result_parts import BYTES_OF_TOKEN, LongResult, TextBlock
from tabane.catalog.results.document_outline import outline
from tabane.catalog.results.kept_pieces import KeptPieces
from tabane.catalog.text_breaks import is_json
from tabane.wire import json
from tabane.workers.time_slices import Pause, no_pause

_OF_BLOCK = 256
"""About how many bytes of memory a block takes, besides its text."""


class KeptDocument:
    """The texts of a result, and its value: ``structuredContent``, else JSON in its text, else its text.

    ``value`` is given if the text contains more than the value. ``folder`` is that of large results.
    """

    def __init__(
        self, long: LongResult, folder: Path | None, value: bytes | None = None, pause: Pause = no_pause
    ) -> None:
        texts = [block.text for block in long.content if isinstance(block, TextBlock)]
        document, self.of_json = _value(long, texts, pause) if value is None else (value, True)
        pause()
        self.outline = outline(document, of_json=self.of_json)
        pieces = texts if document in texts else [*texts, document]
        pause()
        self._document = pieces.index(document)
        self._pieces = KeptPieces(pieces, folder)
        self._rest = long.to_keep().without_texts(pause)

    @property
    def tokens(self) -> int:
        """Return the tokens of a part."""
        return self._rest.budget // BYTES_OF_TOKEN

    @property
    def in_memory(self) -> int:
        return self._pieces.in_memory + _OF_BLOCK * len(self._rest.content)

    @property
    def on_disk(self) -> int:
        return self._pieces.on_disk

    def read(self) -> bytes:
        """Return the value as JSON, or the text. Raises OSError."""
        return self._pieces.one(self._document)

    def long(self, pause: Pause = no_pause) -> LongResult:
        """Return what further parts need. Raises OSError."""
        return self._rest.with_texts(iter(self._pieces.all(pause)), pause)

    def whole(self) -> bytes:
        """Return the value as the result of a tool. Raises OSError."""
        members = {"content": Raw(b"[]"), **self._rest.members}
        if self.of_json:
            return json.join({**members, "structuredContent": Raw(self.read())})
        text = self.read().decode("utf-8", "surrogatepass")
        return json.join({**members, "content": Raw(json.encode([{"type": "text", "text": text}]))})


def _value(long: LongResult, texts: list[bytes], pause: Pause) -> tuple[bytes, bool]:
    """Return the value of a result, and whether it is JSON. Several texts of JSON are a list."""
    structured = bytes(long.members.get("structuredContent", b"")).strip()
    if structured and structured != b"null":
        return (texts[0] if texts == [structured] else structured), True
    if texts and all(_is_json(text, pause) for text in texts):
        return (texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]"), True
    return (texts[0] if len(texts) == 1 else b"\n".join(texts)), False


def _is_json(text: bytes, pause: Pause) -> bool:
    found = is_json(text)
    pause()
    return found
