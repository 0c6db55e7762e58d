"""Handlers of the operations on documents.

They are declared in :mod:`tabane.documents.table`. This module is imported when the first of them is called.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import structs

from tabane.documents import document_answers
from tabane.documents import table as given
from tabane.documents.document import Document, Draft, FileText
from tabane.documents.document_answers import DocumentAnswers, Json, PassageForm
from tabane.documents.document_reader import (
    DocumentContext,
    DocumentPage,
    DocumentReader,
    FolderListing,
    PutEmbedding,
    counted,
    read_beginnings,
    read_part,
    space_of,
)
from tabane.documents.document_writer import DocumentListener, DocumentWriter, PutOutcome
from tabane.documents.metadata import checked_filepath
from tabane.documents.searching import (
    DocumentLabels,
    DocumentSearch,
    DocumentSearchRequest,
    NoDocumentLabels,
    normalized,
    note_labels,
)
from tabane.documents.table import LARGEST_UPLOAD, PutUpload
from tabane.errors import BadArguments, StoreError, TabaneError
from tabane.messages import Message, say
from tabane.operations import Caller, Face, NoParameters
from tabane.operations.parameter_errors import decoder_message
from tabane.search.engine import Collection
from tabane.search.models import Models
from tabane.search.pipeline import QueryVectors
from tabane.servers.labels import UNTRUSTED
from tabane.text.encodings import is_encoding


class FileReading(Protocol):
    """Turns the bytes of a file into text and file type. Raises TabaneError, without the file's name."""

    async def read(
        self, name: str, data: bytes, encoding: str | None = None, file_type: str | None = None
    ) -> tuple[FileText, str]:
        """Return the text of the bytes, and its file type."""
        ...


async def received(params: PutUpload, reading: FileReading) -> Draft:
    """Return the draft of a file that was sent. Raises BadArguments with the reason if it has no text."""
    filepath = checked_filepath(params.filepath)
    encoding = checked_encoding(params.encoding)
    name = params.name or filepath
    data = await asyncio.to_thread(_decode_upload, params.content, name)
    try:
        text, file_type = await reading.read(name, data, encoding, params.file_type or None)
    except TabaneError as error:
        raise BadArguments(
            say("{path} cannot be saved: {why}", path=name, why=error.message), "content"
        ) from None
    return Draft(
        filepath, text.text, file_type, metadata=params.metadata or {}, kind=text.kind, title=text.title
    )


def checked_encoding(encoding: str | None) -> str | None:
    """Return the encoding. Raises BadArguments if Python does not know it."""
    if encoding is not None and not is_encoding(encoding):
        raise BadArguments(
            say("Unknown encoding: {encoding}. Examples: shift_jis, euc_jp, latin-1", encoding=encoding),
            "encoding",
        )
    return encoding


def too_large(path: str, size: int, most: int) -> Message:
    """Return the message for a file with more than ``most`` bytes."""
    return say(
        "{path} is too large: {size} {size:byte|bytes}; the limit is {most}. Split it, or save its text "
        "in parts.",
        path=path,
        size=size,
        most=most,
    )


def _decode_upload(content: str, name: str) -> bytes:
    """Return the bytes. Raises BadArguments if they are too many or no base64."""
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise BadArguments(say("{parameter}: it is not base64", parameter="content"), "content") from None
    if len(data) > LARGEST_UPLOAD:
        raise BadArguments(too_large(name, len(data), LARGEST_UPLOAD), "content")
    return data


log = logging.getLogger(__name__)

_TOP_K, _BEGINNING = 5, 100

P = TypeVar("P", bound=msgspec.Struct)
Handler = Callable[["DocumentLibrary", Caller, P], Awaitable[Json]]


def answered(handler: Handler[P]) -> Handler[P]:
    """Return the handler, with its failures as answers and in the log, which never holds text or metadata."""

    @wraps(handler)
    async def guarded(self: DocumentLibrary, caller: Caller, params: P) -> Json:
        try:
            return await handler(self, caller, params)
        except TabaneError as error:
            log.warning("%s failed: %s", handler.__name__, _log_text(error))
            return document_answers.failure(error, caller.lang)

    return guarded


class DocumentLibrary:
    """The documents of one hub, put, found and read.

    ``vectors`` turns a query into vectors for spaces of the collection; ``wake`` is called when there is
    something to embed in the background. ``files`` reads an allowed file, for put_file, and ``uploads`` the
    bytes of a file, for put_upload: without them there are no such operations. ``changed`` are listeners,
    which are called with name and event.
    """

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        vectors: QueryVectors,
        wake: Callable[[], None],
        context: DocumentContext,
        *,
        files: Callable[[str], Awaitable[FileText]] | None = None,
        uploads: FileReading | None = None,
        labels: DocumentLabels | None = None,
    ) -> None:
        self._collection, self._files, self._uploads = collection, files, uploads
        self._answers, self._labels = DocumentAnswers(context.folder), labels or NoDocumentLabels()
        self.changed: list[DocumentListener] = []
        self.searching = DocumentSearch(collection, models, vectors, context, self._labels)
        self._folders = FolderListing()
        embedding = PutEmbedding(models, context)
        self._putting = DocumentWriter(collection, models, embedding, wake, context, self.changed)

    # For the rooms that put and read documents themselves

    async def put(self, drafts: Sequence[Draft]) -> list[PutOutcome | TabaneError]:
        """Put documents one by one. Return the outcome of each, or why it could not be put."""
        results = await self._putting.put(drafts)
        for draft, result in zip(drafts, results, strict=True):
            if isinstance(result, TabaneError):
                log.warning("%r was not put: %s", draft.filepath[:200], _log_text(result))
        return results

    async def delete(self, filepaths: Iterable[str]) -> int:
        """Delete documents. Return how many there were."""
        return await self._putting.delete(filepaths)

    async def known(self, filepaths: Sequence[str]) -> list[Document | None]:
        """Return the description of each, in their order; None if it does not exist."""
        return await (await self._reading()).documents(filepaths)

    async def all(self, prefix: str = "") -> AsyncIterator[Document]:
        """Yield every document whose name begins so, in order."""
        async for document in (await self._reading()).all(prefix):
            yield document

    async def page(self, after: str | None, limit: int) -> DocumentPage:
        """Return documents in order of their names, after the name ``after``; at most 1,000."""
        return await (await self._reading()).behind(after, limit)

    async def beginning(self, prefix: str, limit: int) -> list[str]:
        """Return names that begin so, in order; at most 1,000."""
        page = await (await self._reading()).listed(self.searching.heads(prefix, None, {}), limit)
        return [document.filepath for document in page.documents]

    async def text(self, filepath: str) -> tuple[Document, str] | None:
        """Return a document, whole; None if there is none."""
        return await (await self._reading()).text(filepath)

    # Operations

    async def put_document(self, caller: Caller, params: given.PutDocument) -> Json:
        """Store a document."""
        (answer,) = await self._put(caller, [_draft_of(params)])
        return answer

    async def put_documents(self, caller: Caller, params: given.PutDocuments) -> Json:
        """Store several documents. One that fails does not stop the others."""
        results: list[Json | None] = [None] * len(params.documents)
        drafts: dict[int, Draft] = {}
        for place, document in enumerate(params.documents):
            try:
                drafts[place] = _draft_of(_read_one(document))
            except BadArguments as error:
                name = document.get("filepath")
                named = {"filepath": name} if isinstance(name, str) else {}
                results[place] = document_answers.put_failure(error, caller.lang) | named
        for place, answer in zip(drafts, await self._put(caller, list(drafts.values())), strict=True):
            failed = document_answers.failed(answer)
            results[place] = answer | {"filepath": drafts[place].filepath} if failed else answer
        return document_answers.many([result for result in results if result is not None], caller.lang)

    @answered
    async def put_file(self, caller: Caller, params: given.PutFile) -> Json:
        """Store an allowed file as a document."""
        assert self._files is not None  # else there is no such operation
        read = await self._files(params.path)
        draft = Draft(
            params.path if params.filepath is None else params.filepath,
            read.text,
            params.file_type,
            bool(params.normalize),
            params.metadata or {},
            read.kind,
            read.title,
        )
        (answer,) = await self._put(caller, [draft])
        return answer

    @answered
    async def put_upload(self, caller: Caller, params: given.PutUpload) -> Json:
        """Store a file that was sent as a document."""
        assert self._uploads is not None  # else there is no such operation
        (answer,) = await self._put(caller, [await received(params, self._uploads)])
        return answer

    @answered
    async def delete_document(self, caller: Caller, params: given.DeleteDocument) -> Json:
        """Delete a document."""
        count = await self.delete([params.filepath])
        return self._answers.deleted(params.filepath, count, caller.lang)

    @answered
    async def search_documents(self, caller: Caller, params: given.SearchDocuments) -> Json:
        """Return the best passages of the best documents."""
        request = DocumentSearchRequest(
            params.query,
            params.top_k or _TOP_K,
            params.mode or "hybrid",
            params.file_type,
            params.filters or {},
        )
        collection = await self._collection()
        found = await self.searching.find(collection, request)
        documents = [hit.item.document for hit in found.hits]
        self._note(caller, documents)
        shown = await _shown_texts(
            DocumentReader(collection), documents, params.include_documents, params.max_content_length
        )
        space = space_of(collection)
        echoed = {
            "top_k": request.limit,
            "query_vector_dimension": space.dimension if space else None,
            "persist_directory": self._answers.folder,
        }
        form: PassageForm = "marked" if params.marks else "brief" if caller.face is Face.MCP else "whole"
        if form == "whole":
            return document_answers.found(found, shown, caller.lang, echoed)
        return await asyncio.to_thread(document_answers.found, found, shown, caller.lang, echoed, form)

    @answered
    async def get_document(self, caller: Caller, params: given.GetDocument) -> Json:
        """Return a document, or a part of it."""
        filepath = checked_filepath(params.filepath)
        length = params.length or given.DEFAULT_PART
        found = await read_part(await self._reading(), filepath, params.cursor, params.offset or 0, length)
        if found is None:
            return document_answers.not_there(filepath, caller.lang)
        self._note(caller, [found.document])
        answer = document_answers.part(found.document, found.text, found.start, found.cursor, caller.lang)
        return answer if caller.face is Face.MCP else answer | document_answers.version(found.document)

    @answered
    async def get_documents_by_prefix(self, caller: Caller, params: given.ByPrefix) -> Json:
        """Return the documents whose names begin with a prefix."""
        reading, where = await self._reading(), self.searching.heads(params.prefix, params.file_type, {})
        page = await reading.listed(where, params.top_k or _BEGINNING)
        self._note(caller, page.documents)
        shown = await _shown_texts(
            reading, page.documents, params.include_documents, params.max_content_length
        )
        echoed = {
            "prefix": params.prefix,
            "file_type": params.file_type,
            "include_documents": params.include_documents is not False,
            "top_k": params.top_k,
        }
        return document_answers.beginning(
            page.documents, shown, caller.lang, echoed, more=page.after is not None
        )

    @answered
    async def list_documents(self, caller: Caller, params: given.ListDocuments) -> Json:
        """Return a page of documents, in order of their names."""
        where = self.searching.heads(params.prefix or "", params.file_type, params.filters or {})
        page = await (await self._reading()).listed(where, params.limit or _BEGINNING, params.cursor)
        return document_answers.listed(page.documents, page.after, caller.lang)

    @answered
    async def list_document_folders(self, caller: Caller, params: given.ListDocumentFolders) -> Json:
        """Return one level of the names of documents."""
        prefix = normalized(params.prefix or "")
        where, limit = self.searching.heads(prefix, params.file_type, {}), params.limit or _BEGINNING
        page = await self._folders.page(await self._collection(), prefix, where, limit, params.cursor)
        return document_answers.level(page, prefix, caller.lang)

    @answered
    async def get_document_stats(self, caller: Caller, params: NoParameters) -> Json:
        """Return counts of documents, chunks and vectors."""
        counts = await counted(await self._collection())
        return self._answers.counted(counts, caller.lang)

    @answered
    async def hello(self, caller: Caller, params: given.DocumentHello) -> Json:
        """Greet the caller."""
        return {"status": "success", "message": f"Hello, {params.name or 'World'}!"}

    def _note(self, caller: Caller, documents: Iterable[Document]) -> None:
        """Note that the caller reads these documents."""
        note_labels(self._labels, caller, documents)

    async def _put(self, caller: Caller, drafts: Sequence[Draft]) -> list[Json]:
        if labels := self._labels.read_by(caller) & UNTRUSTED:
            drafts = [structs.replace(draft, labels=labels) for draft in drafts]
        return [
            self._answers.stored(result, caller.lang)
            if isinstance(result, PutOutcome)
            else document_answers.put_failure(result, caller.lang)
            for result in await self.put(drafts)
        ]

    async def _reading(self) -> DocumentReader:
        return DocumentReader(await self._collection())


async def _shown_texts(
    reading: DocumentReader, documents: Sequence[Document], wanted: bool | None, longest: int | None
) -> Mapping[str, str]:
    """Return texts by name, or nothing if they are not requested."""
    return {} if wanted is False else await read_beginnings(reading, documents, longest)


def _log_text(error: TabaneError) -> str:
    """Return a failure for the log: only a store's message, because others may repeat texts of the user."""
    kind = document_answers.type_of(error)
    return f"{kind}: {error}" if isinstance(error, StoreError) else kind


def _draft_of(params: given.PutDocument) -> Draft:
    metadata = params.metadata or {}
    return Draft(
        params.filepath, params.text, params.file_type, bool(params.normalize), metadata,
        replaces=params.replaces,
    )  # fmt: skip


def _read_one(document: dict[str, Any]) -> given.PutDocument:
    """Return the parameters of one of several documents. Raises BadArguments."""
    try:
        return msgspec.convert(document, given.PutDocument)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        name = "documents" + path.rstrip("`")
        raise BadArguments(say("{name}: {detail}", name=name, detail=decoder_message(detail))) from None
