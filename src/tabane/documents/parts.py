"""Texts of documents in the portions that an answer may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tabane.documents.document import Document
from tabane.documents.document_reader import DocumentReader
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.wire.cursors import CursorCodec, ForeignCursor

MOST_SHOWN = 300_000
"""Characters of all texts in one answer: a message over the network has a megabyte at most."""

_MARK = 16  # characters of a hash that a cursor carries


class PartCursor(NamedTuple):
    """Where the next part of a document begins, and the hash by which its text is known."""

    mark: str
    start: int


_CURSORS = CursorCodec("document", PartCursor)


class DocumentPart(NamedTuple):
    """``text`` begins at ``start``; ``cursor`` asks for what follows, None at the end."""

    document: Document
    text: str
    start: int
    cursor: str | None


class DocumentParts:
    """Cuts what is read."""

    def __init__(self, reading: DocumentReader) -> None:
        self._reading = reading

    async def part(self, filepath: str, cursor: str | None, offset: int, length: int) -> DocumentPart | None:
        """A part of a document, from the cursor where there is one; None where there is no document.

        Raises BadArguments for a cursor that is none, or one of another text.
        """
        mark, start = _read(cursor) if cursor is not None else ("", offset)
        found = await self._reading.text(filepath, start, start + length)
        if found is None:
            return None
        document, text = found
        if mark and not document.hash.startswith(mark):
            message = say(
                "cursor: {filepath} has changed since then. Start again without a cursor", filepath=filepath
            )
            raise BadArguments(message, "cursor")
        end = start + len(text)
        more = PartCursor(document.hash[:_MARK], end) if text and end < document.length else None
        return DocumentPart(document, text, start, more and _CURSORS.encode(more))

    async def beginnings(self, documents: Sequence[Document], longest: int | None) -> Mapping[str, str]:
        """The texts of documents by their names, up to ``longest`` characters of each."""
        found: dict[str, str] = {}
        left = MOST_SHOWN
        for document in documents:
            length = min(document.length, left, document.length if longest is None else longest)
            text = await self._reading.part(document, 0, length) if length else ""
            if text is not None:
                found[document.filepath] = text
                left -= len(text)
        return found


def _read(cursor: str) -> PartCursor:
    try:
        return _CURSORS.decode(cursor)
    except ForeignCursor:
        raise BadArguments(say("cursor: it was not issued by get_document"), "cursor") from None
