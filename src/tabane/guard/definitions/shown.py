"""What servers show at the moment: the digests of the last lists of each of their instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from tabane.guard.definitions.definition import DefinitionKey, Kind


class ListingSource(Protocol):
    """An instance that lists. One that is closed no longer counts."""

    @property
    def closed(self) -> bool: ...


class ShownDefinitions:
    """Digests by server, instance and kind. A list from disk counts until an instance has listed."""

    def __init__(self) -> None:
        self._lists: dict[str, dict[tuple[ListingSource | None, Kind], Mapping[str, bytes]]] = {}

    def put(
        self, server: str, source: ListingSource | None, kind: Kind, digests: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        """Take a list; return the list of that kind before, whichever instance gave it."""
        lists = self._lists.setdefault(server, {})
        for key in [key for key in lists if key[0] is not None and key[0].closed]:
            del lists[key]
        before = next((found for (_, listed), found in reversed(lists.items()) if listed == kind), {})
        if source is None and any(listed == kind and by is not None for by, listed in lists):
            return before
        if source is not None:
            lists.pop((None, kind), None)
        lists.pop((source, kind), None)
        lists[source, kind] = digests
        return before

    def remove(self, server: str) -> None:
        self._lists.pop(server, None)

    def of_kind(self, server: str, kind: Kind) -> Iterator[tuple[str, bytes]]:
        """Yield names and digests of all lists of a kind."""
        for (_, listed), digests in self._lists.get(server, {}).items():
            if listed == kind:
                yield from digests.items()

    def of_key(self, server: str, key: DefinitionKey) -> set[bytes]:
        """Return the digests that instances show of one definition."""
        lists = self._lists.get(server, {}).items()
        return {digests[key.name] for (_, kind), digests in lists if kind == key.kind and key.name in digests}
