"""Digests of definitions that were read before: a list that is read again costs a hash of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from msgspec import Raw

from tabane.guard.definitions.definition import Kind, SeenDefinition, definition_digest, read_definitions


class DigestCache:
    """Digests by the hash of the bytes. Of each list of a server, those of its last reading are kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Kind], dict[bytes, bytes]] = {}

    def read(self, server: str, kind: Kind, items: Iterable[Raw]) -> tuple[SeenDefinition, ...]:
        """Return the definitions of a list with their digests. May run in a thread."""
        known = self._known.get((server, kind), {})
        found: dict[bytes, bytes] = {}

        def digest(kind: Kind, item: Raw) -> bytes:
            exact = hashlib.sha256(item).digest()
            return found.setdefault(exact, known.get(exact) or definition_digest(kind, item))

        seen = read_definitions(kind, items, digest)
        self._known[server, kind] = found
        return seen

    def forget(self, server: str) -> None:
        for key in [key for key in self._known if key[0] == server]:
            self._known.pop(key, None)
