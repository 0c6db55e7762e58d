"""Circumstances of the documents of a hub. Imported with the first request for a document."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

from tabane.documents.document_reader import DocumentContext
from tabane.settings import Settings
from tabane.text.time_zones import zone_of


class HubDocumentContext(DocumentContext):
    """The folder of a hub's documents, and the hub's settings as they are now."""

    def __init__(
        self, folder: str, settings: Callable[[], Settings], names_model: Callable[[], bool]
    ) -> None:
        super().__init__(folder)
        self._settings, self._names_model = settings, names_model

    @property
    def names_model(self) -> bool:
        """Return whether the settings name a model."""
        return self._names_model()

    @property
    def zone(self) -> tzinfo:
        """Return the time zone of dates without an offset."""
        return zone_of(self._settings().posts_zone)

    @property
    def largest(self) -> int:
        """Return the limit of a document's text, in bytes."""
        return self._settings().documents_size
