"""Circumstances of the documents of a hub. Imported with the first request for a document."""

from __future__ import annotations

from datetime import tzinfo

from tabane.documents.document_reader import DocumentContext
from tabane.hub.context import HubContext
from tabane.hub.stores.domain_stores import FOLDER
from tabane.text.time_zones import zone_of


class HubDocumentContext(DocumentContext):
    """The folder of a hub's documents, and the hub's settings as they are now."""

    def __init__(self, context: HubContext) -> None:
        super().__init__(str(context.home / FOLDER))
        self._context = context

    @property
    def names_model(self) -> bool:
        """Whether the settings name a model."""
        return self._context.names_model

    @property
    def zone(self) -> tzinfo:
        """The time zone of dates without an offset."""
        return zone_of(self._context.settings.posts_zone)

    @property
    def largest(self) -> int:
        """The limit of a document's text, in bytes."""
        return self._context.settings.documents_size
