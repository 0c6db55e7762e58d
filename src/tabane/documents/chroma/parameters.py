"""What the import from Chroma takes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class ImportChroma(Struct, frozen=True, forbid_unknown_fields=True):
    """``path`` is the folder of chroma.sqlite3, absolute. ``collection``: the only one, or ``documents``."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    collection: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    id_prefix: Annotated[str, Meta(max_length=500)] = ""
