"""Files that are sent as bytes, and become documents."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Protocol

from tabane.documents.document import Draft, TextKind
from tabane.documents.document_names import checked_filepath
from tabane.documents.parameters import LARGEST_UPLOAD, PutUpload
from tabane.errors import BadArguments, TabaneError
from tabane.messages import say
from tabane.text.encodings import is_encoding


class ReadableFile(Protocol):
    """The content of a file: its text, the format for cutting it into chunks, and its title."""

    @property
    def text(self) -> str: ...

    @property
    def kind(self) -> TextKind: ...

    @property
    def title(self) -> str | None: ...


class FileReading(Protocol):
    """Turns the bytes of a file into text and file type. Raises TabaneError, without the file's name."""

    async def read(
        self, name: str, data: bytes, encoding: str | None = None, file_type: str | None = None
    ) -> tuple[ReadableFile, str]: ...


async def received(params: PutUpload, reading: FileReading) -> Draft:
    """Return the draft of a file that was sent. Raises BadArguments with the reason if it has no text."""
    filepath = checked_filepath(params.filepath)
    if params.encoding is not None and not is_encoding(params.encoding):
        message = say(
            "Unknown encoding: {encoding}. Examples: shift_jis, euc_jp, latin-1", encoding=params.encoding
        )
        raise BadArguments(message, "encoding")
    name = params.name or filepath
    data = await asyncio.to_thread(_decoded, params.content, name)
    try:
        text, file_type = await reading.read(name, data, params.encoding, params.file_type or None)
    except TabaneError as error:
        raise BadArguments(
            say("{path} cannot be saved: {why}", path=name, why=error.message), "content"
        ) from None
    return Draft(
        filepath, text.text, file_type, metadata=params.metadata or {}, kind=text.kind, title=text.title
    )


def _decoded(content: str, name: str) -> bytes:
    """Return the bytes. Raises BadArguments if they are too many or no base64."""
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise BadArguments(say("{parameter}: it is not base64", parameter="content"), "content") from None
    if len(data) > LARGEST_UPLOAD:
        message = say(
            "{path} is too large: {size} {size:byte|bytes}; the limit is {most}. Split it, or save its "
            "text in parts.",
            path=name,
            size=len(data),
            most=LARGEST_UPLOAD,
        )
        raise BadArguments(message, "content")
    return data
