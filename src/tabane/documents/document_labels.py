"""Flow labels of documents: what the writer of a document had read before, and whoever reads it reads too."""

from __future__ import annotations

from typing import Protocol

from tabane.operations import Caller


class DocumentLabels(Protocol):
    """Knows what a caller has read, and learns what it reads. Labels are bits of an int."""

    def read_by(self, caller: Caller) -> int:
        """Return the labels of what a caller has read."""
        ...

    def found(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        """Note that a caller reads something with these labels, of a source, with a tool."""
        ...


class NoDocumentLabels:
    """No labels: for documents that are not part of a hub."""

    def read_by(self, caller: Caller) -> int:
        return 0

    def found(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        return None
