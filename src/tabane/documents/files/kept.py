"""What of a file is kept with the document that was made of it, and who keeps documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from tabane.documents.batch import PutOutcome
from tabane.documents.document import Document, Draft, TextKind
from tabane.errors import TabaneError


class FileText(NamedTuple):
    """What a file says, and as what it is cut into chunks."""

    text: str
    kind: TextKind
    title: str | None = None


class FileSource(msgspec.Struct, frozen=True, array_like=True):
    """The file that a document was made of, as it was then.

    ``path`` is absolute; ``folder`` is the one that was added, or the file itself where that was named.
    ``size`` is in bytes, ``modified`` in nanoseconds since 1970 (0 where it may not be trusted), ``digest``
    is the hexadecimal BLAKE2b of the bytes, 128 bits.
    """

    path: str
    folder: str
    size: int
    modified: int
    digest: str


_SOURCE = msgspec.json.Decoder(FileSource)


def source_of(document: Document) -> FileSource | None:
    """The file that a document was made of; None where it was made of none."""
    try:
        return _SOURCE.decode(document.source) if document.source else None
    except msgspec.DecodeError:
        return None  # a word of somebody else's


def written(source: FileSource) -> str:
    """A source as a document keeps it."""
    return msgspec.json.encode(source).decode()


class ConvertedFile(Protocol):
    """A file of another format as Markdown."""

    @property
    def markdown(self) -> str: ...
    @property
    def title(self) -> str | None: ...


Converter = Callable[[bytes, str], Awaitable[ConvertedFile]]
"""Makes Markdown of the bytes of a file of that name. Raises TabaneError where it cannot."""


class DocumentWriting(Protocol):
    """Keeps documents: what files need of it."""

    async def put(self, drafts: Sequence[Draft]) -> list[PutOutcome | TabaneError]:
        """Put documents, each for itself: what became of each, or why it could not be put."""
        ...

    async def delete(self, filepaths: Iterable[str]) -> int:
        """Take documents out, and say how many there were."""
        ...

    async def known(self, filepaths: Sequence[str]) -> list[Document | None]:
        """What is known of each, in their order."""
        ...

    def all(self, prefix: str = "") -> AsyncIterator[Document]:
        """Every document whose name begins so, in order of names."""
        ...
