"""Documents as resources of MCP: ``tabane://documents/<key>``, the key percent-encoded."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from tabane.operations import Caller, CallTarget
from tabane.wire import json

READING = CallTarget("get_document", source="documents", kind="operation", changes=False)
"""The operation that a caller has to be allowed to use, to read documents as resources."""

ROOT = "tabane://documents/"
TEMPLATE = ROOT + "{key}"

MOST_COMPLETED = 100  # values of one completion, by the specification


class ListedDocument(NamedTuple):
    """A document as a list shows it. ``size`` is its text in bytes, ``updated`` ISO 8601."""

    key: str
    title: str | None = None
    media_type: str = "text/plain"
    size: int | None = None
    updated: str | None = None


class ListedDocuments(Protocol):
    """The documents of a hub."""

    @property
    def there(self) -> bool:
        """Return whether any document was ever put."""
        ...

    async def page(self, after: str | None, limit: int) -> tuple[Sequence[ListedDocument], bool]:
        """Return at most ``limit`` documents after the key ``after``, by key, and whether there are more."""
        ...

    async def text(self, key: str, caller: Caller) -> tuple[ListedDocument, str] | None:
        """Return a document and its text, for a caller; None if there is none."""
        ...

    async def beginning(self, prefix: str, limit: int) -> Sequence[str]:
        """Return the keys that begin with a prefix, in order."""
        ...


def uri_of(key: str) -> str:
    """Return the URI of the resource for a document."""
    return ROOT + quote(key, safe="", errors="replace")


def key_of(uri: str) -> str | None:
    """Return the key in a URI; None if it is not a document's. ``/`` in it may be encoded or not.

    Keys are in NFC; a Mac decomposes the letters of file names, and so does a URI that it makes of one.
    """
    if uri[: len(ROOT)].lower() != ROOT:
        return None
    return unicodedata.normalize("NFC", unquote(uri[len(ROOT) :]))


def template() -> bytes:
    """Return the definition of the one template: any document by its key."""
    shown = {"uriTemplate": TEMPLATE, "name": "document", "title": "Document", "description": "By its key."}
    return json.encode(shown)


def definition(document: ListedDocument) -> bytes:
    """Return a document as a list of resources shows it."""
    shown: dict[str, Any] = {
        "uri": uri_of(document.key),
        "name": document.key.rsplit("/", 1)[-1] or document.key,
    }
    if document.title:
        shown["title"] = document.title
    shown["mimeType"] = document.media_type
    if document.size is not None:
        shown["size"] = document.size
    if document.updated:
        shown["annotations"] = {"lastModified": document.updated}
    return json.encode(shown)


def contents(uri: str, document: ListedDocument, text: str) -> bytes:
    """Return the result of resources/read: the document under the URI in the request."""
    return json.encode({"contents": [{"uri": uri, "mimeType": document.media_type, "text": text}]})


def completion(keys: Sequence[str]) -> bytes:
    """Return the result of completion/complete. One key more than the limit means that there are others."""
    shown = list(keys[:MOST_COMPLETED])
    return json.encode({"completion": {"values": shown, "hasMore": len(keys) > len(shown)}})
