"""Results of document operations as JSON and as text; pure.

Failures are results too: ``{"status": "error", "message", "error_type"}``, so that every reader of JSON
sees them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tabane.documents.document import Document
from tabane.documents.document_reader import FolderPage
from tabane.documents.document_writer import PutOutcome
from tabane.documents.searching import DocumentAnswer, DocumentMatch, DocumentPassage
from tabane.errors import CallerError, Conflict, Forbidden, ModelError, ReadError, StoreError, TabaneError
from tabane.messages import Lang, Message, say
from tabane.search.snippets import snippet
from tabane.search.source import SearchHit

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


def failed(value: Any) -> bool:
    """Return whether an answer is a failure."""
    return isinstance(value, dict) and value.get("status") == "error"


def type_of(error: TabaneError) -> str:
    """Return the name of an error's kind, as answers have it."""
    return next((name for kind, name in _KINDS if isinstance(error, kind)), "InternalError")


def failure(error: TabaneError, lang: Lang) -> Json:
    """Return a failure as an answer."""
    message = error.message
    if isinstance(error, ModelError):
        message = say("The text could not be embedded: {reason}", reason=message)
    return _failure(message, type_of(error), lang)


def put_failure(error: TabaneError, lang: Lang) -> Json:
    """Return why a document was not put, as an answer."""
    if isinstance(error, StoreError):
        message = say("The document could not be stored: {reason}", reason=error.message)
        return _failure(message, type_of(error), lang)
    return failure(error, lang)


def not_there(filepath: str, lang: Lang) -> Json:
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


def many(results: Sequence[Json], lang: Lang) -> Json:
    """Return the answers for several documents as one, an error if all of them are errors."""
    bad = sum(map(failed, results))
    if not bad:
        status, message = "success", say("Documents put: {count}", count=len(results))
    else:
        status = "partial" if bad < len(results) else "error"
        message = say(
            "{bad} of {count} {count:document|documents} could not be saved", bad=bad, count=len(results)
        )
    whole: Json = {"status": status, "message": message.render(lang), "results": list(results), "failed": bad}
    return whole if status != "error" else whole | {"error_type": results[0]["error_type"]}


def metadata(document: Document) -> Json:
    """Return the metadata of a document as answers show it."""
    shown: Json = {
        "filepath": document.filepath,
        "updated_at": document.updated,
        "file_type": document.file_type,
    }
    if document.title:
        shown["title"] = document.title
    return shown | document.metadata


def described(document: Document) -> Json:
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


def found(
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
        **_document_text(document, texts),
        "metadata": metadata(document),
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


def _document_text(document: Document, texts: Mapping[str, str]) -> Json:
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


def beginning(
    documents: Sequence[Document], texts: Mapping[str, str], lang: Lang, echoed: Json, *, more: bool
) -> Json:
    """Return documents whose names have the same prefix. ``echoed`` are members of the request."""
    results = [
        {
            **_identity(document),
            "updated_at": document.updated,
            **_document_text(document, texts),
            "metadata": metadata(document),
        }
        for document in documents
    ]
    message = say("Documents found: {count}", count=len(results))
    return _success(message, lang, **echoed, results=results, count=len(results), more=more)


def listed(documents: Sequence[Document], after: str | None, lang: Lang) -> Json:
    """Return a page of documents. ``after`` is the cursor of the next one."""
    message = say("Documents: {count}", count=len(documents))
    shown = [described(document) for document in documents]
    return _success(message, lang, documents=shown, count=len(shown), next_cursor=after)


def level(page: FolderPage, prefix: str, lang: Lang) -> Json:
    """Return one level of names: folders with the number of documents in them, then documents."""
    return _success(
        say("Documents: {count}", count=page.total),
        lang,
        prefix=prefix,
        folders=[folder._asdict() for folder in page.folders],
        documents=[described(document) for document in page.documents],
        total_folders=page.total_folders,
        total=page.total,
        next_cursor=page.after,
    )


def version(document: Document) -> Json:
    """Return the kind of the text and the hash of the whole text, for an editor."""
    return {"kind": document.kind, "hash": document.hash, "size": document.size}


def part(document: Document, text: str, start: int, cursor: str | None, lang: Lang) -> Json:
    """Return a document, or a part of it. ``cursor`` is that of the next part."""
    return _success(
        say("The document was found"),
        lang,
        filepath=document.filepath,
        document=text,
        start=start,
        end=start + len(text),
        length=document.length,
        metadata=metadata(document),
        chunks=len(document.chunks),
        next_cursor=cursor,
    )


def as_json(value: Any, lang: Lang) -> str:
    """Return the answer as semche printed it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def message(value: Mapping[str, Any], lang: Lang) -> str:
    """Return the message of an answer."""
    return str(value["message"])


def searched(value: DocumentSearchAnswer, lang: Lang) -> str:
    """Format numbered documents with their texts, or with the best passage if the texts are left out."""
    if failed(value):
        return as_json(value, lang)
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


def document(value: Mapping[str, Any], lang: Lang) -> str:
    """Return a document's text, and the cursor of the next part."""
    if failed(value):
        return as_json(value, lang)
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


def names(value: Mapping[str, Any], lang: Lang) -> str:
    """Return documents, one on a line."""
    if failed(value):
        return as_json(value, lang)
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
