"""The bytes of a file as the text of a document."""

from __future__ import annotations

import asyncio

from tabane.documents import document_names
from tabane.documents.document import Draft
from tabane.documents.document_names import kind_of
from tabane.documents.files.file_sources import Converter, FileText
from tabane.documents.files.readable_roots import ReadableRoots
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.text.encodings import decode_strictly, is_binary
from tabane.text.japanese_encodings import Decoded


class FileTextReader:
    """Makes texts of files: decodes those that are some, and has the others converted."""

    def __init__(self, converter: Converter | None = None) -> None:
        self._converter = converter

    async def read(
        self, name: str, data: bytes, encoding: str | None = None, file_type: str | None = None
    ) -> tuple[FileText, str]:
        """Return what a file says, and of what type it is. ``encoding`` is meant where a text is not Unicode.

        Raises TabaneError that says why it cannot be told, without the file's name.
        """
        if self._converter is not None and document_names.is_converted(name, data):
            page = await self._converter(data, name)
            text = _said(FileText(page.markdown, "markdown", page.title))
        else:
            text = await asyncio.to_thread(_text, name, data, encoding)
        return text, file_type or document_names.file_type_of(name, data, text.kind)


class ReadableFiles:
    """The files that assistants may name, each read as a text."""

    def __init__(self, roots: ReadableRoots, texts: FileTextReader) -> None:
        self._roots, self._texts = roots, texts

    async def read(self, path: str) -> FileText:
        """Return what the file at an absolute path says. Raises TabaneError that says why it is not read."""
        read = await asyncio.to_thread(self._roots.read, path)
        try:
            text, _ = await self._texts.read(read.path, read.data)
        except BadArguments as error:
            raise BadArguments(
                say("{path} cannot be saved: {why}", path=path, why=error.message), "path"
            ) from None
        return text


def draft_of(key: str, text: FileText, file_type: str | None, source: str) -> Draft:
    """Return the document that a file becomes."""
    return Draft(key, text.text, file_type=file_type, kind=text.kind, title=text.title, source=source)


def binary() -> Message:
    return say("neither text nor a format that can be converted")


def _text(name: str, data: bytes, encoding: str | None) -> FileText:
    found = _decoded(data, encoding)
    return _said(FileText(found.text, kind_of(name, found.text)))


def _said(text: FileText) -> FileText:
    """The text, if it says anything: a scan without words is a fault of that file, and of no model."""
    if not text.text.strip():
        raise BadArguments(say("empty"))
    return text


def _decoded(data: bytes, encoding: str | None) -> Decoded:
    found = decode_strictly(data, encoding)
    if found is not None:
        return found
    if is_binary(data):
        raise BadArguments(binary())
    if encoding is not None:
        raise BadArguments(say("not in the encoding {encoding}", encoding=encoding))
    raise BadArguments(
        say(
            "its encoding cannot be detected. Save it as UTF-8, or set the encoding, for "
            "example: --encoding shift_jis"
        )
    )
