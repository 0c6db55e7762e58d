"""The declarations of the operations on documents. Their handlers are imported when the first is called.

A hub that only forwards declares them too, so that assistants see them, and loads nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tabane.documents import parameters as given
from tabane.errors import TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.documents.files.file_operations import DocumentFiles
    from tabane.documents.operations import DocumentLibrary

EVERYWHERE = frozenset({Face.MCP, Face.RPC, Face.CLI})
PERSON = frozenset({Face.RPC, Face.CLI})


def documents_table(documents: Callable[[], DocumentLibrary], *, files: bool = True) -> list[Operation]:
    """Return the operations that put and find documents. ``files``: also those that put files."""
    found = [*_putting(documents), *_finding(documents)]
    if files:
        what = (
            "Save a file on the disk of this machine as a document, by its path: text, code, HTML, PDF, DOCX."
        )
        putting = _put(
            "put_file", what, given.PutFile, lambda c, p: documents().put_file(c, p), "Save a file",
            destructiveHint=True, idempotentHint=True,
        )  # fmt: skip
        # It reads any file that the hub's user can read.
        found.append(structs.replace(putting, source="admin"))
        what = "Save a file that is sent in base64 as a document: text, code, HTML, PDF, DOCX, up to 16 MB."
        sending = _put("put_upload", what, given.PutUpload, lambda c, p: documents().put_upload(c, p))
        found.append(structs.replace(sending, faces=PERSON))
    return found


def _putting(documents: Callable[[], DocumentLibrary]) -> list[Operation]:
    return [
        _put(
            "put_document",
            "Remember or save a note, memo or other content for later. Replaces the one at filepath.",
            given.PutDocument, lambda c, p: documents().put_document(c, p), "Remember a note",
            destructiveHint=True, idempotentHint=True,
        ),
        _put(
            "put_documents",
            "Save several documents at once, up to 1000. One that fails does not stop the others.",
            given.PutDocuments, lambda c, p: documents().put_documents(c, p),
            destructiveHint=True, idempotentHint=True,
        ),
        _put(
            "delete_document",
            "Delete or forget a saved document or note, by its filepath. This cannot be undone.",
            given.DeleteDocument, lambda c, p: documents().delete_document(c, p),
            destructiveHint=True, idempotentHint=True,
        ),
    ]  # fmt: skip


def _finding(documents: Callable[[], DocumentLibrary]) -> list[Operation]:
    about = (
        "Search the user's documents and notes: what did I write about this? By meaning and keywords. "
        "Returns the best passages; get_document reads one in full."
    )
    return [
        _find(
            "search_documents", about, given.SearchDocuments,
            lambda c, p: documents().search_documents(c, p), label="Search saved notes",
        ),
        _find(
            "search", about, given.SearchDocuments, lambda c, p: documents().search_documents(c, p), _json,
            faces=frozenset({Face.RPC, Face.MCP}), alias_of="search_documents",
        ),
        _find(
            "get_document",
            "Read a saved document or note in full, by its filepath; long ones in parts.",
            given.GetDocument, lambda c, p: documents().get_document(c, p), _document, label="Read a note",
        ),
        _find(
            "get_documents_by_prefix",
            "Get the saved documents whose filepaths begin with a prefix, such as notes/2026/.",
            given.ByPrefix, lambda c, p: documents().get_documents_by_prefix(c, p), _json,
        ),
        _find(
            "list_documents",
            "List the filepaths of saved documents and notes, in pages.",
            given.ListDocuments, lambda c, p: documents().list_documents(c, p), _names,
        ),
        _find(
            "list_document_folders",
            "List one level of the filepaths of saved documents: folders with counts, then documents.",
            given.ListDocumentFolders, lambda c, p: documents().list_document_folders(c, p), _json,
            faces=PERSON,
        ),
        _find(
            "get_document_stats",
            "Count how many documents are saved.",
            given.NoDocumentParameters, lambda c, p: documents().get_document_stats(c, p), _json,
        ),
        _find(
            "hello", "Say hello, to test the connection.",
            given.DocumentHello, lambda c, p: documents().hello(c, p), _message,
        ),
    ]  # fmt: skip


def files_table(files: Callable[[], DocumentFiles]) -> list[Operation]:
    """Return the operations by which a person adds and watches folders."""
    return [
        Operation(
            "add_documents", "Add files and folders as documents, and update those that exist.",
            given.AddDocuments, lambda c, p, progress: files().add_documents(c, p, progress),
            PERSON, Privilege.ADMIN, kind="job", title=_adding,
        ),
        Operation(
            "watch_documents", "Add the files of a folder as documents, and follow its changes from then on.",
            given.WatchDocuments, lambda c, p, progress: files().watch_documents(c, p, progress),
            PERSON, Privilege.ADMIN, kind="job",
            title=lambda params: say(
                "Watching {path}", path=os.path.basename(params.path.rstrip("/")) or params.path
            ),
        ),
        Operation(
            "unwatch_documents",
            "Stop watching a folder. Its documents stay unless `remove` is set.",
            given.UnwatchDocuments, lambda c, p: files().unwatch_documents(c, p),
            PERSON, Privilege.ADMIN,
        ),
        Operation(
            "list_watched", "List the folders that are watched.",
            given.ListWatched, lambda c, p: files().list_watched(c, p),
            PERSON, Privilege.ADMIN, read_only=True,
        ),
        Operation(
            "import_chroma", "Import the documents of a Chroma collection, as semche made them.",
            given.ImportChroma, lambda c, p, progress: files().import_chroma(c, p, progress),
            PERSON, Privilege.ADMIN, kind="job",
            title=lambda params: say("Importing {files}", files=os.path.basename(params.path)),
        ),
    ]  # fmt: skip


def _put(
    name: str, description: str, params: Any, handler: Any, label: str | None = None, **marks: bool
) -> Operation:
    return Operation(
        name, description, params, handler, EVERYWHERE, Privilege.WRITE, text=_json,
        structured=_itself, failed=_failed, refused=_refused, annotations=marks, label=label,
    )  # fmt: skip


def _answers() -> Any:
    """Return the module of answers. It is imported with the first answer."""
    from tabane.documents import document_answers

    return document_answers


def _searched(value: Any, lang: Lang) -> Any:
    return _answers().searched(value, lang)


def _find(
    name: str,
    description: str,
    params: Any,
    handler: Any,
    text: Any = _searched,
    faces: Any = EVERYWHERE,
    alias_of: str = "",
    label: str | None = None,
) -> Operation:
    return Operation(
        name, description, params, handler, faces, Privilege.READ, text=text, read_only=True,
        structured=_itself, failed=_failed, refused=_refused, alias_of=alias_of, label=label,
    )  # fmt: skip


def _failed(value: Any) -> Any:
    return _answers().failed(value)


def _refused(error: TabaneError, lang: Lang) -> Any:
    return _answers().failure(error, lang)


def _itself(value: Any, lang: Lang) -> Any:
    return value


def _document(value: Any, lang: Lang) -> Any:
    return _answers().document(value, lang)


def _names(value: Any, lang: Lang) -> Any:
    return _answers().names(value, lang)


def _json(value: Any, lang: Lang) -> Any:
    return _answers().as_json(value, lang)


def _message(value: Any, lang: Lang) -> Any:
    return _answers().message(value, lang)


def _adding(params: given.AddDocuments) -> Message:
    names = (os.path.basename(path) or path for path in params.paths[:3])
    return say("Adding {files}", files=", ".join(names))
