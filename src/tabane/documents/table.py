"""Operations on documents: their parameters and declarations. Null means absent for every optional parameter.

Missing and mistyped parameters are answered with JSON, as other failures of these operations. A hub that only
forwards declares the operations too, so that assistants see them, and loads nothing else.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tabane.messages import Message, say
from tabane.operations import EVERYONE, PEOPLE, NoParameters, Opener, Operation, Privilege, Reference, bound
from tabane.operations.caller import Face

FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]
Pattern = Annotated[str, Meta(min_length=1, max_length=1000)]
Patterns = Annotated[list[Pattern], Meta(max_length=1000)]
GivenFileType = Annotated[str, Meta(min_length=1, max_length=100)]
IdPrefix = Annotated[str, Meta(max_length=500)]
Encoding = Annotated[str, Meta(min_length=1, max_length=40)]


class AddDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """Absolute paths on the hub's machine. A document is called by its file's path; ``relative``: by the path
    below the one given. ``since``: a date; older files are passed over. ``ignore``: patterns as in a
    .gitignore. ``prune`` removes documents of files of these folders that are gone. ``again`` puts files
    that are unchanged, too. ``encoding`` is that of texts that are not Unicode."""

    paths: Annotated[list[FilePath], Meta(min_length=1, max_length=1000)]
    id_prefix: IdPrefix = ""
    relative: bool = False
    file_type: GivenFileType | None = None
    since: Annotated[str, Meta(min_length=1, max_length=40)] | None = None
    ignore: Patterns = []
    encoding: Encoding | None = None
    prune: bool = False
    again: bool = False


class WatchDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """The folder at an absolute path. Files that are added, changed and removed are followed from then on."""

    path: FilePath
    id_prefix: IdPrefix = ""
    relative: bool = False
    file_type: GivenFileType | None = None
    ignore: Patterns = []
    encoding: Encoding | None = None


class UnwatchDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """``remove`` also deletes the documents of the folder's files."""

    path: FilePath
    remove: bool = False


class ImportChroma(Struct, frozen=True, forbid_unknown_fields=True):
    """``path`` is the folder of chroma.sqlite3, absolute. ``collection``: the only one, or ``documents``."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    collection: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    id_prefix: Annotated[str, Meta(max_length=500)] = ""


Mode = Literal["hybrid", "vector", "lexical"]

MOST_DOCUMENTS = 1_000
LARGEST_OFFSET = 2**53
LONGEST_PART = 200_000  # characters of a document in one answer
DEFAULT_PART = 10_000

Text = str
Filepath = Annotated[str, Meta(description="Such as notes/todo.md.")]
FileType = str
NewFileType = Annotated[
    str, Meta(description="Any name to filter by, such as note.", extra_json_schema={"seldom": True})
]
Metadata = Annotated[
    dict[str, Any],
    Meta(description="No secrets."),
]
Normalize = Annotated[
    bool,
    Meta(
        description="Has no effect: all vectors have length 1.",
        extra_json_schema={"default": False, "programs": True},
    ),
]

TopK = Annotated[int, Meta(ge=1, le=100, extra_json_schema={"default": 5})]
Query = Annotated[str, Meta(description='words, a question, "a phrase", -not')]
Filters = Annotated[
    dict[str, Any],
    Meta(
        description='By metadata: {"year": {"gte": 2020}, "tags": ["a", "b"]}; eq ne gt gte lt lte in nin '
        "prefix, $and $or $not; also of filepath, file_type, updated_at."
    ),
]
Longest = Annotated[int, Meta(ge=0, le=10_000_000, description="Characters of each document.")]
Include = Annotated[
    bool,
    Meta(description="Whole texts; false: the best passages alone.", extra_json_schema={"default": True}),
]
Cursor = Annotated[str, Meta(max_length=4096, description="next_cursor of the previous part.")]


class DocumentHello(Struct, frozen=True, forbid_unknown_fields=True):
    """The name to greet."""

    name: Annotated[str, Meta(max_length=100)] | None = None


NewMetadata = Annotated[
    dict[str, Any], Meta(description="To filter by. No secrets.", extra_json_schema={"seldom": True})
]


class PutDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """``replaces`` is the hash of the text that is replaced, as get_document returns it, empty if the name
    must be new. If another text is there, the answer is a ConflictError."""

    text: Text
    filepath: Filepath
    file_type: NewFileType | None = None
    normalize: Normalize | None = None
    metadata: NewMetadata | None = None
    replaces: Annotated[str, Meta(max_length=64, extra_json_schema={"hidden": True})] | None = None


_NAMED = {"type": "string"}
_ITEM = {
    "type": "object",
    "properties": {
        "text": _NAMED, "filepath": _NAMED, "file_type": _NAMED, "normalize": {"type": "boolean"},
        "metadata": {"type": "object"},
    },
    "required": ["text", "filepath"],
}  # fmt: skip


class PutDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """Several documents."""

    documents: Annotated[
        list[Annotated[dict[str, Any], Meta(extra_json_schema=_ITEM)]],
        Meta(min_length=1, max_length=MOST_DOCUMENTS, description="Each as put_document takes it."),
    ]


class PutFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file in an allowed folder."""

    path: Annotated[str, Meta(min_length=1, max_length=4096, description="Absolute, in an allowed folder.")]
    filepath: Annotated[str, Meta(description="Its key; the path where none is given.")] | None = None
    file_type: FileType | None = None
    normalize: Normalize | None = None
    metadata: Metadata | None = None


LARGEST_UPLOAD = 16_000_000
"""Bytes of a file that is sent."""


class PutUpload(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is sent: ``content`` is base64, at most 16 MB of file. ``name`` is the file's name, which
    says its format; the default is ``filepath``. ``encoding`` is that of a text that is not Unicode."""

    filepath: Annotated[str, Meta(description="Its key, as notes/report.pdf.")]
    content: Annotated[str, Meta(max_length=(LARGEST_UPLOAD + 2) // 3 * 4)]
    name: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    file_type: FileType | None = None
    encoding: Encoding | None = None
    metadata: Metadata | None = None


class SearchDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """``marks``: instead of whole passages, the part of each that matches best, and the spans that match."""

    query: Query
    top_k: TopK | None = None
    file_type: FileType | None = None
    filters: Filters | None = None
    include_documents: Include | None = None
    max_content_length: Longest | None = None
    mode: Mode | None = None
    marks: Annotated[bool, Meta(extra_json_schema={"hidden": True})] | None = None


class GetDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A document, and the part of it to return."""

    filepath: str
    offset: Annotated[int, Meta(ge=0, le=LARGEST_OFFSET, description="The first character.")] | None = None
    length: (
        Annotated[int, Meta(ge=1, le=LONGEST_PART, extra_json_schema={"default": DEFAULT_PART})] | None
    ) = None
    cursor: Cursor | None = None


class DeleteDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """The document to delete."""

    filepath: str


class ByPrefix(Struct, frozen=True, forbid_unknown_fields=True):
    """A search for documents whose names begin with a prefix."""

    prefix: str
    file_type: FileType | None = None
    include_documents: Include | None = None
    max_content_length: Longest | None = None
    top_k: Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 100})] | None = None


class ListDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of documents that match, in order of names; ``newest``: those changed last first."""

    prefix: str | None = None
    file_type: FileType | None = None
    filters: Filters | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 100})] | None = None
    cursor: Cursor | None = None
    newest: Annotated[bool, Meta(extra_json_schema={"hidden": True})] | None = None


class ListDocumentFolders(Struct, frozen=True, forbid_unknown_fields=True):
    """One level of names, divided at slashes. ``prefix`` is the folder above it, as ``notes/``."""

    prefix: str | None = None
    file_type: FileType | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 100})] | None = None
    cursor: Cursor | None = None


def _answer(name: str) -> Reference:
    """Return a function on answers. It is imported with the first answer."""
    return Reference(f"documents.operations:{name}")


_JSON = _answer("json_text")
_ANSWER: dict[str, Any] = {
    "faces": EVERYONE,
    "privilege": Privilege.READ,
    "structured": lambda value, lang: value,
    "failed": _answer("is_failure"),
    "refused": _answer("failure_answer"),
    "source": "documents",
}
_PUT = _ANSWER | {"privilege": Privilege.WRITE, "text": _JSON}
_REPLACE = _PUT | {"annotations": {"destructiveHint": True, "idempotentHint": True}}

_SEARCH = (
    "Search the user's documents and notes: what did I write about this? By meaning and keywords. "
    "Returns the best passages; get_document reads one in full."
)

_OPERATIONS = (
    Operation(
        "put_document",
        "Remember or save a note, memo or other content for later. Replaces the one at filepath.",
        PutDocument, "documents.operations:DocumentLibrary.put_document", label="Remember a note", **_REPLACE,
    ),
    Operation(
        "put_documents",
        "Save several documents at once, up to 1000. One that fails does not stop the others.",
        PutDocuments, "documents.operations:DocumentLibrary.put_documents", **_REPLACE,
    ),
    Operation(
        "delete_document",
        "Delete or forget a saved document or note, by its filepath. This cannot be undone.",
        DeleteDocument, "documents.operations:DocumentLibrary.delete_document", **_REPLACE,
    ),
    Operation(
        "search_documents", _SEARCH,
        SearchDocuments, "documents.operations:DocumentLibrary.search_documents",
        text=_answer("search_text"), label="Search saved notes", **_ANSWER,
    ),
    Operation(
        "search", _SEARCH, SearchDocuments, "documents.operations:DocumentLibrary.search_documents",
        text=_JSON, alias_of="search_documents", **_ANSWER | {"faces": frozenset({Face.RPC, Face.MCP})},
    ),
    Operation(
        "get_document", "Read a saved document or note in full, by its filepath; long ones in parts.",
        GetDocument, "documents.operations:DocumentLibrary.get_document",
        text=_answer("document_text"), label="Read a note", **_ANSWER,
    ),
    Operation(
        "get_documents_by_prefix",
        "Get the saved documents whose filepaths begin with a prefix, such as notes/2026/.",
        ByPrefix, "documents.operations:DocumentLibrary.get_documents_by_prefix", text=_JSON, **_ANSWER,
    ),
    Operation(
        "list_documents", "List the filepaths of saved documents and notes, in pages.",
        ListDocuments, "documents.operations:DocumentLibrary.list_documents",
        text=_answer("list_text"), **_ANSWER,
    ),
    Operation(
        "list_document_folders",
        "List one level of the filepaths of saved documents: folders with counts, then documents.",
        ListDocumentFolders, "documents.operations:DocumentLibrary.list_document_folders",
        text=_JSON, **_ANSWER | {"faces": PEOPLE},
    ),
    Operation(
        "get_document_stats", "Count how many documents are saved.",
        NoParameters, "documents.operations:DocumentLibrary.get_document_stats", text=_JSON, **_ANSWER,
    ),
    Operation(
        "hello", "Say hello, to test the connection.",
        DocumentHello, "documents.operations:DocumentLibrary.hello", text=_answer("message_text"), **_ANSWER,
    ),
)  # fmt: skip

_SENDING = (
    # Administration: it reads any file that the hub's user can read.
    Operation(
        "put_file",
        "Save a file on the disk of this machine as a document, by its path: text, code, HTML, PDF, DOCX.",
        PutFile, "documents.operations:DocumentLibrary.put_file", label="Save a file",
        **_REPLACE | {"source": "admin"},
    ),
    Operation(
        "put_upload",
        "Save a file that is sent in base64 as a document: text, code, HTML, PDF, DOCX, up to 16 MB.",
        PutUpload, "documents.operations:DocumentLibrary.put_upload", **_PUT | {"faces": PEOPLE},
    ),
)  # fmt: skip


def _watching_title(params: WatchDocuments) -> Message:
    return say("Watching {path}", path=os.path.basename(params.path.rstrip("/")) or params.path)


def _importing_title(params: ImportChroma) -> Message:
    return say("Importing {files}", files=os.path.basename(params.path))


def _adding_title(params: AddDocuments) -> Message:
    names = (os.path.basename(path) or path for path in params.paths[:3])
    return say("Adding {files}", files=", ".join(names))


_FILES = (
    Operation(
        "add_documents", "Add files and folders as documents, and update those that exist.",
        AddDocuments, "documents.files.file_operations:DocumentFiles.add_documents",
        kind="job", title=_adding_title,
    ),
    Operation(
        "watch_documents", "Add the files of a folder as documents, and follow its changes from then on.",
        WatchDocuments, "documents.files.file_operations:DocumentFiles.watch_documents",
        kind="job", title=_watching_title,
    ),
    Operation(
        "unwatch_documents", "Stop watching a folder. Its documents stay unless `remove` is set.",
        UnwatchDocuments, "documents.files.file_operations:DocumentFiles.unwatch_documents",
    ),
    Operation(
        "list_watched", "List the folders that are watched.",
        NoParameters, "documents.files.file_operations:DocumentFiles.list_watched",
        read_only=True,
    ),
    Operation(
        "import_chroma", "Import the documents of a Chroma collection, as semche made them.",
        ImportChroma, "documents.files.file_operations:DocumentFiles.import_chroma",
        kind="job", title=_importing_title,
    ),
)  # fmt: skip


def documents_table(documents: Opener, *, files: bool = True) -> list[Operation]:
    """Return the operations that put and find documents. ``files``: also those that put files."""
    return bound((*_OPERATIONS, *_SENDING) if files else _OPERATIONS, DocumentLibrary=documents)


def files_table(files: Opener) -> list[Operation]:
    """Return the operations by which a person adds and watches folders."""
    return bound(_FILES, DocumentFiles=files)
