"""Operations on documents: under the names and with the answers that their users know.

Failures are results too: ``{"status": "error", "message", "error_type"}``, so that every reader of JSON
sees them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import structs

from tabane.documents import table as given
from tabane.documents.document import Document, Draft, FileText
from tabane.documents.document_reader import (
    DocumentContext,
    DocumentPart,
    DocumentReader,
    FolderListing,
    FolderPage,
    PutEmbedding,
    counted,
    space_of,
)
from tabane.documents.document_writer import DocumentListener, DocumentWriter, PutOutcome
from tabane.documents.metadata import checked_filepath
from tabane.documents.searching import (
    DocumentAnswer,
    DocumentLabels,
    DocumentMatch,
    DocumentPassage,
    DocumentSearch,
    DocumentSearchRequest,
    normalized,
    note_labels,
)
from tabane.documents.table import LARGEST_UPLOAD
from tabane.errors import (
    BadArguments,
    CallerError,
    Conflict,
    Forbidden,
    ModelError,
    ReadError,
    StoreError,
    TabaneError,
)
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Face, NoParameters
from tabane.operations.parameter_errors import decoder_message
from tabane.search.engine import Collection
from tabane.search.pipeline import QueryVectors
from tabane.search.snippets import snippet
from tabane.search.source import Models, SearchHit
from tabane.servers.labels import UNTRUSTED
from tabane.text.encodings import is_encoding

Json = dict[str, Any]

COLLECTION = "documents"

LONGEST_PASSAGE = 600
"""Characters of a passage that are shown if it is to be brief."""

LONGEST_SNIPPET = 280
"""Characters of a passage that are shown with marks."""

PassageForm = Literal["whole", "brief", "marked"]

_KINDS: tuple[tuple[type[TabaneError], str], ...] = (
    (ModelError, "EmbeddingError"),
    (StoreError, "StorageError"),
    (Conflict, "ConflictError"),
    (CallerError, "ValidationError"),
    (Forbidden, "ValidationError"),
    (ReadError, "ReadError"),
)


class DocumentSearchAnswer(Json):
    """An answer to a search, and the words to mark in its text."""

    def __init__(self, members: Json, words: Sequence[str]) -> None:
        super().__init__(members)
        self.words = list(words)


def is_failure(value: Any) -> bool:
    """Return whether an answer is a failure."""
    return isinstance(value, dict) and value.get("status") == "error"


def error_type(error: TabaneError) -> str:
    """Return the name of an error's kind, as answers have it."""
    return next((name for kind, name in _KINDS if isinstance(error, kind)), "InternalError")


def failure_answer(error: TabaneError, lang: Lang) -> Json:
    """Return a failure as an answer."""
    message = error.message
    if isinstance(error, ModelError):
        message = say("The text could not be embedded: {reason}", reason=message)
    return _failure(message, error_type(error), lang)


def put_failure_answer(error: TabaneError, lang: Lang) -> Json:
    """Return why a document was not put, as an answer."""
    if isinstance(error, StoreError):
        message = say("The document could not be stored: {reason}", reason=error.message)
        return _failure(message, error_type(error), lang)
    return failure_answer(error, lang)


def absence_answer(filepath: str, lang: Lang) -> Json:
    """Return the failure for a document that does not exist."""
    return _failure(say("There is no document {filepath}", filepath=filepath), "NotFoundError", lang)


def _failure(message: Message, kind: str, lang: Lang) -> Json:
    return {"status": "error", "message": message.render(lang), "error_type": kind}


def _success(message: Message, lang: Lang, **members: Any) -> Json:
    return {"status": "success", "message": message.render(lang), **members}


@dataclass(frozen=True, slots=True)
class DocumentAnswers:
    """The place of documents, as answers name it."""

    folder: str

    def stored(self, stored: PutOutcome, lang: Lang) -> Json:
        """Return the answer for a document that was put."""
        details: Json = {
            "count": 1,
            "collection": COLLECTION,
            "filepath": stored.document.filepath,
            "vector_dimension": stored.dimension,
            "persist_directory": self.folder,
            "normalized": stored.document.normalize,
            "chunks": len(stored.document.chunks),
            "updated": stored.existed and not stored.unchanged,
            "unchanged": stored.unchanged,
            "embedded": stored.embedded,
        }
        if stored.warning is not None:
            details["warning"] = stored.warning.render(lang)
        return _success(say("The document was put"), lang, details=details)

    def deleted(self, filepath: str, count: int, lang: Lang) -> Json:
        """Return the answer for a deletion. ``count`` is 0 if there was no such document."""
        message = say("The document was deleted") if count else say("There was no such document")
        return _success(
            message,
            lang,
            deleted_count=count,
            filepath=filepath,
            collection=COLLECTION,
            persist_directory=self.folder,
        )

    def counted(self, counts: Json, lang: Lang) -> Json:
        """Return the statistics as an answer."""
        message = say("Documents: {count}", count=counts["documents"])
        place = {"collection": COLLECTION, "persist_directory": self.folder}
        return _success(message, lang, **counts, **place)


def batch_answer(results: Sequence[Json], lang: Lang) -> Json:
    """Return the answers for several documents as one, an error if all of them are errors."""
    bad = sum(map(is_failure, results))
    if not bad:
        status, message = "success", say("Documents put: {count}", count=len(results))
    else:
        status = "partial" if bad < len(results) else "error"
        message = say(
            "{bad} of {count} {count:document|documents} could not be saved", bad=bad, count=len(results)
        )
    whole: Json = {"status": status, "message": message.render(lang), "results": list(results), "failed": bad}
    return whole if status != "error" else whole | {"error_type": results[0]["error_type"]}


def shown_metadata(document: Document) -> Json:
    """Return the metadata of a document as answers show it."""
    shown: Json = {
        "filepath": document.filepath,
        "updated_at": document.updated,
        "file_type": document.file_type,
    }
    if document.title:
        shown["title"] = document.title
    return shown | document.metadata


def document_row(document: Document) -> Json:
    """Return a document in a list."""
    return {
        "filepath": document.filepath,
        "title": document.title or None,
        "file_type": document.file_type,
        "updated_at": document.updated,
        "size": document.size,
        "length": document.length,
        "chunks": len(document.chunks),
        "metadata": document.metadata,
    }


def search_answer(
    answer: DocumentAnswer, texts: Mapping[str, str], lang: Lang, echoed: Json, form: PassageForm = "whole"
) -> DocumentSearchAnswer:
    """Return the documents that a search found. ``texts`` by filepath are shown; ``echoed`` is added.

    ``brief``: return only the best part of the best passage of each document, because an assistant pays for
    every token. ``marked``: return the best part of each passage, and the spans of the words in it. Both take
    about a millisecond for each document, so call it in a thread.
    """
    results = [_hit_row(hit, texts, answer.terms, form) for hit in answer.hits]
    whole = _success(say("The search is complete"), lang, results=results, count=len(results), **echoed)
    if answer.warning is not None:
        whole["warning"] = answer.warning.render(lang)
    return DocumentSearchAnswer(whole, answer.terms)


def _hit_row(
    hit: SearchHit[DocumentMatch], texts: Mapping[str, str], words: Sequence[str], form: PassageForm
) -> Json:
    document, passages = hit.item
    shown = {
        **_identity(document),
        "score": round(hit.score, 4),
        **_text_members(document, texts),
        "metadata": shown_metadata(document),
    }
    best, *others = passages
    match form:
        case "marked":
            rows = []
            for each in passages:
                part, marks = _best_part(each, words, LONGEST_SNIPPET)
                rows.append(_passage(part) | {"marks": marks})
        case "brief":
            if len(best.text) > LONGEST_PASSAGE:
                best, _ = _best_part(best, words, LONGEST_PASSAGE)
            rows = [_passage(best), *(_passage(each, with_text=False) for each in others)]
        case _:
            rows = [_passage(each) for each in passages]
    return shown | {"passages": rows}


def _identity(document: Document) -> Json:
    """Return the members that identify a document: its name twice, as in the rows of semche."""
    return {"id": document.filepath, "filepath": document.filepath, "file_type": document.file_type}


def _text_members(document: Document, texts: Mapping[str, str]) -> Json:
    """Return the text as in the rows of semche, null if it is not shown; and whether it is cut."""
    text = texts.get(document.filepath)
    if text is None or len(text) == document.length:
        return {"document": text}
    return {"document": text, "truncated": True}


def _best_part(
    passage: DocumentPassage, words: Sequence[str], longest: int
) -> tuple[DocumentPassage, list[list[int]]]:
    """Return the part of a passage that has most of the words, and their spans in it."""
    part = snippet(passage.text, words, longest)
    cut = passage._replace(text=part.text, start=passage.start + part.start, end=passage.start + part.end)
    return cut, [list(mark) for mark in part.marks]


def _passage(passage: DocumentPassage, *, with_text: bool = True) -> Json:
    shown: Json = {"text": passage.text} if with_text else {}
    shown |= {
        "heading": list(passage.headings),
        "start": passage.start,
        "end": passage.end,
        "score": round(passage.score, 4),
    }
    return shown if passage.cosine is None else shown | {"cosine": round(passage.cosine, 4)}


def prefix_answer(
    documents: Sequence[Document], texts: Mapping[str, str], lang: Lang, echoed: Json, *, more: bool
) -> Json:
    """Return documents whose names have the same prefix. ``echoed`` are members of the request."""
    results = [
        {
            **_identity(document),
            "updated_at": document.updated,
            **_text_members(document, texts),
            "metadata": shown_metadata(document),
        }
        for document in documents
    ]
    message = say("Documents found: {count}", count=len(results))
    return _success(message, lang, **echoed, results=results, count=len(results), more=more)


def list_answer(documents: Sequence[Document], after: str | None, lang: Lang) -> Json:
    """Return a page of documents. ``after`` is the cursor of the next one."""
    message = say("Documents: {count}", count=len(documents))
    shown = [document_row(document) for document in documents]
    return _success(message, lang, documents=shown, count=len(shown), next_cursor=after)


def folder_answer(page: FolderPage, prefix: str, lang: Lang) -> Json:
    """Return one level of names: folders with the number of documents in them, then documents."""
    return _success(
        say("Documents: {count}", count=page.total),
        lang,
        prefix=prefix,
        folders=[folder._asdict() for folder in page.folders],
        documents=[document_row(document) for document in page.documents],
        total_folders=page.total_folders,
        total=page.total,
        next_cursor=page.after,
    )


def version_members(document: Document) -> Json:
    """Return the kind of the text and the hash of the whole text, for an editor."""
    return {"kind": document.kind, "hash": document.hash, "size": document.size}


def part_answer(part: DocumentPart, lang: Lang) -> Json:
    """Return a document, or a part of it."""
    document = part.document
    return _success(
        say("The document was found"),
        lang,
        filepath=document.filepath,
        document=part.text,
        start=part.start,
        end=part.start + len(part.text),
        length=document.length,
        metadata=shown_metadata(document),
        chunks=len(document.chunks),
        next_cursor=part.cursor,
    )


def json_text(value: Any, lang: Lang) -> str:
    """Return the answer as semche printed it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def message_text(value: Mapping[str, Any], lang: Lang) -> str:
    """Return the message of an answer."""
    return str(value["message"])


def search_text(value: DocumentSearchAnswer, lang: Lang) -> str:
    """Format numbered documents with their texts, or with the best passage if the texts are left out."""
    if is_failure(value):
        return json_text(value, lang)
    lines = [say("🔍 Documents found: {count}", count=value["count"]).render(lang), ""]
    if "warning" in value:
        lines += [f"⚠ {value['warning']}", ""]
    for place, result in enumerate(value["results"], 1):
        lines += [*_hit_lines(place, result, value.words), ""]
    return "\n".join(lines)


def _hit_lines(place: int, result: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    best = result["passages"][0]
    above = f" › {' › '.join(best['heading'])}" if best["heading"] else ""
    text = result["document"]
    if text is None:
        text = best["text"]
        if len(text) > LONGEST_PASSAGE:
            text = snippet(text, words, LONGEST_PASSAGE).text
    lines = [f"   {line.strip()}" for line in text.splitlines() if line.strip()]
    others = len(result["passages"]) - 1
    where = f"{best['start']}–{best['end']}" + (f" +{others}" if others else "")
    return [f"{place}. [{result['score']:.3f}] {result['filepath']}{above} ({where})", *lines]


def document_text(value: Mapping[str, Any], lang: Lang) -> str:
    """Return a document's text, and the cursor of the next part."""
    if is_failure(value):
        return json_text(value, lang)
    if value["next_cursor"] is None:
        return str(value["document"])
    more = say(
        "[{start}–{end} of {length} {length:character|characters}; the rest: cursor {cursor}]",
        start=value["start"],
        end=value["end"],
        length=value["length"],
        cursor=value["next_cursor"],
    )
    return f"{value['document']}\n\n{more.render(lang)}"


def list_text(value: Mapping[str, Any], lang: Lang) -> str:
    """Return documents, one on a line."""
    if is_failure(value):
        return json_text(value, lang)
    shown = value["documents"] if "documents" in value else value["results"]
    lines = [str(value["message"])]
    for each in shown:
        facts = each if "updated_at" in each else each["metadata"]
        parts = (each["filepath"], facts.get("title"), facts.get("file_type"), facts["updated_at"])
        lines.append("  ".join(str(part) for part in parts if part))
        if text := each.get("document"):
            lines.append(text)
    if value.get("next_cursor"):
        lines.append(say("Next part: cursor {cursor}", cursor=value["next_cursor"]).render(lang))
    return "\n".join(lines)


class FileReading(Protocol):
    """Turns the bytes of a file into text and file type. Raises TabaneError, without the file's name."""

    async def read(
        self, name: str, data: bytes, encoding: str | None = None, file_type: str | None = None
    ) -> tuple[FileText, str]:
        """Return the text of the bytes, and its file type."""
        ...


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
            return failure_answer(error, caller.lang)

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
        labels: DocumentLabels,
    ) -> None:
        self._collection, self._files, self._uploads = collection, files, uploads
        self._answers, self._labels = DocumentAnswers(context.folder), labels
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

    async def beginning(self, prefix: str, limit: int) -> list[str]:
        """Return names that begin so, in order; at most 1,000."""
        page = await (await self.reading()).listed(self.searching.heads(prefix, None, {}), limit)
        return [document.filepath for document in page.documents]

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
                results[place] = put_failure_answer(error, caller.lang) | named
        for place, answer in zip(drafts, await self._put(caller, list(drafts.values())), strict=True):
            failed = is_failure(answer)
            results[place] = answer | {"filepath": drafts[place].filepath} if failed else answer
        return batch_answer([result for result in results if result is not None], caller.lang)

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
        filepath = checked_filepath(params.filepath)
        encoding = checked_encoding(params.encoding)
        name = params.name or filepath
        data = await asyncio.to_thread(_decode_upload, params.content, name)
        try:
            text, file_type = await self._uploads.read(name, data, encoding, params.file_type or None)
        except TabaneError as error:
            raise BadArguments(
                say("{path} cannot be saved: {why}", path=name, why=error.message), "content"
            ) from None
        metadata = params.metadata or {}
        draft = Draft(filepath, text.text, file_type, metadata=metadata, kind=text.kind, title=text.title)
        (answer,) = await self._put(caller, [draft])
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
        answer = await self.searching.find(collection, request)
        documents = [hit.item.document for hit in answer.hits]
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
            return search_answer(answer, shown, caller.lang, echoed)
        return await asyncio.to_thread(search_answer, answer, shown, caller.lang, echoed, form)

    @answered
    async def get_document(self, caller: Caller, params: given.GetDocument) -> Json:
        """Return a document, or a part of it."""
        filepath = checked_filepath(params.filepath)
        length = params.length or given.DEFAULT_PART
        reading = await self.reading()
        part = await reading.answer_part(filepath, params.cursor, params.offset or 0, length)
        if part is None:
            return absence_answer(filepath, caller.lang)
        self._note(caller, [part.document])
        answer = part_answer(part, caller.lang)
        return answer if caller.face is Face.MCP else answer | version_members(part.document)

    @answered
    async def get_documents_by_prefix(self, caller: Caller, params: given.ByPrefix) -> Json:
        """Return the documents whose names begin with a prefix."""
        reading, where = await self.reading(), self.searching.heads(params.prefix, params.file_type, {})
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
        return prefix_answer(page.documents, shown, caller.lang, echoed, more=page.after is not None)

    @answered
    async def list_documents(self, caller: Caller, params: given.ListDocuments) -> Json:
        """Return a page of documents, in order of their names or those changed last first."""
        where = self.searching.heads(params.prefix or "", params.file_type, params.filters or {})
        reading, limit = await self.reading(), params.limit or _BEGINNING
        page = await reading.listed(where, limit, params.cursor, newest=bool(params.newest))
        return list_answer(page.documents, page.after, caller.lang)

    @answered
    async def list_document_folders(self, caller: Caller, params: given.ListDocumentFolders) -> Json:
        """Return one level of the names of documents."""
        prefix = normalized(params.prefix or "")
        where, limit = self.searching.heads(prefix, params.file_type, {}), params.limit or _BEGINNING
        page = await self._folders.page(await self._collection(), prefix, where, limit, params.cursor)
        return folder_answer(page, prefix, caller.lang)

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
            else put_failure_answer(result, caller.lang)
            for result in await self.put(drafts)
        ]

    async def reading(self) -> DocumentReader:
        """Return what reads the documents of the collection that is open now."""
        return DocumentReader(await self._collection())


async def _shown_texts(
    reading: DocumentReader, documents: Sequence[Document], include: bool | None, longest: int | None
) -> Mapping[str, str]:
    """Return texts by name, or nothing if they are not requested."""
    return {} if include is False else await reading.beginnings(documents, longest)


def _log_text(error: TabaneError) -> str:
    """Return a failure for the log: only a store's message, because others may repeat texts of the user."""
    kind = error_type(error)
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
