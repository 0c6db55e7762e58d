"""Shared types: folders that are added, the source of a document, and the report of a pass."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from tabane.documents.document import Document, Draft, TextKind
from tabane.documents.document_names import checked_filepath
from tabane.documents.document_writer import PutOutcome
from tabane.errors import BadArguments, TabaneError
from tabane.messages import Lang, Message, say

MOST_PROBLEMS = 200
"""Files that could not be used and are named; the others are counted."""


class FileProblem(NamedTuple):
    """A file that could not be used, and why."""

    path: str
    reason: Message


@dataclass(slots=True)
class FilesReport:
    """Counts of files by what became of them. ``older`` were not looked at for their age."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    older: int = 0
    bad: int = 0
    problems: list[FileProblem] = field(default_factory=list)
    warning: Message | None = None
    began: float = field(default_factory=time.monotonic)

    def refuse(self, path: str, reason: Message) -> None:
        self.bad += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(FileProblem(path, reason))

    def plain(self, lang: Lang) -> dict[str, Any]:
        """As JSON has it. ``bad`` files could not be used; ``problems`` says why of the first of them."""
        return {
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "removed": self.removed,
            "older": self.older,
            "bad": self.bad,
            "problems": [
                {"path": printable(path), "reason": reason.render(lang)} for path, reason in self.problems
            ],
            "warning": self.warning.render(lang) if self.warning else None,
            "seconds": round(time.monotonic() - self.began, 3),
        }


def printable(path: str) -> str:
    """Return a path that can be written as UTF-8, whatever bytes it is made of."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """A folder, or a file, to be kept in step. ``path`` is absolute.

    A document is called by the path of its file, or with ``relative`` by the path below the folder; before
    that stands ``prefix``. ``encoding`` is meant by texts that are not Unicode.
    """

    path: str
    prefix: str = ""
    relative: bool = False
    file_type: str | None = None
    ignore: tuple[str, ...] = ()
    encoding: str | None = None

    def key(self, name: str) -> str:
        """Return the name of the document of the file ``name`` below the folder ("" for the folder itself).

        Raises :class:`~tabane.errors.BadArguments` if that can be no name.
        """
        path = os.path.join(self.path, name) if name else self.path
        named = (name or os.path.basename(self.path)) if self.relative else path
        try:
            named.encode()
        except UnicodeEncodeError:
            raise BadArguments(say("its name is not UTF-8. Rename the file.")) from None
        return checked_filepath(joined(self.prefix, named))

    @property
    def common(self) -> str:
        """Return what the names of all of its documents begin with."""
        named = "" if self.relative else self.path
        return unicodedata.normalize("NFC", joined(self.prefix, named))


def joined(prefix: str, name: str) -> str:
    """Join a prefix and a name with a slash, unless the prefix ends with a separator.

    After a colon the name stays unchanged, as semche named documents: ``abc:/home/user/notes.md``.
    """
    if not prefix:
        return name
    if prefix[-1] == ":":
        return prefix + name
    return prefix + ("" if prefix[-1] == "/" else "/") + name.lstrip("/")


def with_colon(prefix: str) -> str:
    """Return a prefix in the form that semche put before a path."""
    return prefix if not prefix or prefix[-1] in "/:" else prefix + ":"


@dataclass(frozen=True, slots=True)
class PassOptions:
    """The additional work of a pass. ``since``: files older than that (seconds since 1970) are passed over.

    ``again``: files are put that are as they were. ``sure``: that a file looks the same is not enough.
    """

    since: float | None = None
    prune: bool = False
    again: bool = False
    sure: bool = False


class FileText(NamedTuple):
    """The content of a file, and the format for cutting it into chunks."""

    text: str
    kind: TextKind
    title: str | None = None


class FileSource(msgspec.Struct, frozen=True, array_like=True):
    """The file that a document was made of, as it was then.

    ``path`` is absolute; ``folder`` is the one that was added, or the file itself if that was named.
    ``size`` is in bytes, ``modified`` in nanoseconds since 1970 (0 if it may not be trusted), ``digest``
    is the hexadecimal BLAKE2b of the bytes, 128 bits.
    """

    path: str
    folder: str
    size: int
    modified: int
    digest: str


_SOURCE = msgspec.json.Decoder(FileSource)


def source_of(document: Document) -> FileSource | None:
    """Return the file that a document was made of; None if it was made of none."""
    try:
        return _SOURCE.decode(document.source) if document.source else None
    except msgspec.DecodeError:
        return None  # written by another program


def written(source: FileSource) -> str:
    """Return a source as a document keeps it."""
    return msgspec.json.encode(source).decode()


class ConvertedFile(Protocol):
    """A file of another format as Markdown."""

    @property
    def markdown(self) -> str: ...
    @property
    def title(self) -> str | None: ...


Converter = Callable[[bytes, str], Awaitable[ConvertedFile]]
"""Makes Markdown of the bytes of a file of that name. Raises TabaneError if it cannot."""


class DocumentWriting(Protocol):
    """Keeps documents: what files need of it."""

    async def put(self, drafts: Sequence[Draft]) -> list[PutOutcome | TabaneError]:
        """Put documents one by one. Return the outcome of each, or why it could not be put."""
        ...

    async def delete(self, filepaths: Iterable[str]) -> int:
        """Take documents out, and say how many there were."""
        ...

    async def known(self, filepaths: Sequence[str]) -> list[Document | None]:
        """Return what is known of each, in their order."""
        ...

    def all(self, prefix: str = "") -> AsyncIterator[Document]:
        """Return every document whose name begins so, in order of names."""
        ...
