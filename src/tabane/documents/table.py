"""The operations on documents, declared. What they do is imported when the first of them is called.

A hub that only forwards declares them too, so that assistants see them, and pays for no more than that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tabane.documents import parameters as given
from tabane.messages import Lang, Message, say
from tabane.operations import Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.documents.files.file_operations import DocumentFiles
    from tabane.documents.operations import DocumentLibrary

EVERYWHERE = frozenset({Face.MCP, Face.RPC, Face.CLI})
PERSON = frozenset({Face.RPC, Face.CLI})


def documents_table(documents: Callable[[], DocumentLibrary], *, files: bool = True) -> list[Operation]:
    """Return those that put and find documents. ``files``: assistants may name files that are put."""
    found = [*_putting(documents), *_finding(documents)]
    if files:
        what = "Keep what a file on this machine says (text, code, HTML, PDF, DOCX)."
        putting = _put("put_file", what, given.PutFile, lambda c, p: documents().put_file(c, p))
        # It reads any file that the hub's user can read.
        found.append(replace(putting, source="admin"))
    return found


def _putting(documents: Callable[[], DocumentLibrary]) -> list[Operation]:
    return [
        _put(
            "put_document", "Keep a text under a filepath, replacing what was there.",
            given.PutDocument, lambda c, p: documents().put_document(c, p),
        ),
        _put(
            "put_documents", "Keep up to 1000 texts; one that fails does not keep the others out.",
            given.PutDocuments, lambda c, p: documents().put_documents(c, p),
        ),
        _put(
            "delete_document", "Delete a kept document.",
            given.DeleteDocument, lambda c, p: documents().delete_document(c, p),
            destructiveHint=True, idempotentHint=True,
        ),
    ]  # fmt: skip


def _finding(documents: Callable[[], DocumentLibrary]) -> list[Operation]:
    about = "Search the kept documents by words and meaning; passages with where they stand."
    return [
        _find(
            "search_documents", about, given.SearchDocuments,
            lambda c, p: documents().search_documents(c, p),
        ),
        _find(
            "search", about, given.SearchDocuments, lambda c, p: documents().search_documents(c, p), _json,
            faces=frozenset({Face.RPC, Face.MCP}), alias_of="search_documents",
        ),
        _find(
            "get_document", "The text of a kept document, in parts.",
            given.GetDocument, lambda c, p: documents().get_document(c, p), _document,
        ),
        _find(
            "get_documents_by_prefix", "Kept documents whose filepaths begin so.",
            given.ByPrefix, lambda c, p: documents().get_documents_by_prefix(c, p), _json,
        ),
        _find(
            "list_documents", "Kept documents by filepath, in pages.",
            given.ListDocuments, lambda c, p: documents().list_documents(c, p), _names,
        ),
        _find(
            "get_document_stats", "How many documents are kept.",
            given.NoDocumentParameters, lambda c, p: documents().get_document_stats(c, p), _json,
        ),
        _find("hello", "Says hello.", given.DocumentHello, lambda c, p: documents().hello(c, p), _message),
    ]  # fmt: skip


def files_table(files: Callable[[], DocumentFiles]) -> list[Operation]:
    """Return those by which a person has folders searched."""
    return [
        Operation(
            "add_documents", "Make documents of files and folders, and bring those in step that are there.",
            given.AddDocuments, lambda c, p, progress: files().add_documents(c, p, progress),
            PERSON, Privilege.ADMIN, kind="job", title=_adding,
        ),
        Operation(
            "watch_documents", "Make documents of a folder's files, and keep them in step from then on.",
            given.WatchDocuments, lambda c, p, progress: files().watch_documents(c, p, progress),
            PERSON, Privilege.ADMIN, kind="job", title=_watching,
        ),
        Operation(
            "unwatch_documents",
            "Watch a folder no longer. Its documents stay, unless they are to be removed.",
            given.UnwatchDocuments, lambda c, p: files().unwatch_documents(c, p),
            PERSON, Privilege.ADMIN,
        ),
        Operation(
            "list_watched", "The folders that are watched.",
            given.ListWatched, lambda c, p: files().list_watched(c, p),
            PERSON, Privilege.ADMIN, read_only=True,
        ),
        Operation(
            "import_chroma", "Take over the documents of a Chroma collection, as semche made them.",
            given.ImportChroma, lambda c, p, progress: files().import_chroma(c, p, progress),
            PERSON, Privilege.ADMIN, kind="job",
            title=lambda params: say("Importing {files}", files=os.path.basename(params.path)),
        ),
    ]  # fmt: skip


def _put(name: str, description: str, params: Any, handler: Any, **marks: bool) -> Operation:
    return Operation(
        name, description, params, handler, EVERYWHERE, Privilege.WRITE, text=_json,
        structured=_itself, failed=_failed, annotations=marks,
    )  # fmt: skip


def _searched(value: Any, lang: Lang) -> str:
    from tabane.documents.rendered_text import searched

    return searched(value, lang)


def _find(
    name: str,
    description: str,
    params: Any,
    handler: Any,
    text: Any = _searched,
    faces: Any = EVERYWHERE,
    alias_of: str = "",
) -> Operation:
    return Operation(
        name, description, params, handler, faces, Privilege.READ, text=text, read_only=True,
        structured=_itself, failed=_failed, alias_of=alias_of,
    )  # fmt: skip


def _failed(value: Any) -> bool:
    from tabane.documents.document_answers import failed

    return failed(value)


def _itself(value: Any, lang: Lang) -> Any:
    return value


def _document(value: Any, lang: Lang) -> str:
    from tabane.documents.rendered_text import document

    return document(value, lang)


def _names(value: Any, lang: Lang) -> str:
    from tabane.documents.rendered_text import names

    return names(value, lang)


def _json(value: Any, lang: Lang) -> str:
    from tabane.documents.rendered_text import as_json

    return as_json(value, lang)


def _message(value: Any, lang: Lang) -> str:
    from tabane.documents.rendered_text import message

    return message(value, lang)


def _adding(params: given.AddDocuments) -> Message:
    names = (os.path.basename(path) or path for path in params.paths[:3])
    return say("Adding {files}", files=", ".join(names))


def _watching(params: given.WatchDocuments) -> Message:
    return say("Watching {path}", path=os.path.basename(params.path.rstrip("/")) or params.path)
