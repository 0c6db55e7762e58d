"""The index of vectors that the setting vector_index names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tabane.engines.candidate_index import CandidateIndex


def opened_index(address: str) -> CandidateIndex:
    """Return the index at that URL. It connects with its first call. Raises ConfigurationError. Blocks."""
    scheme = urlsplit(address).scheme
    if scheme.startswith("chroma"):
        return _chroma(address)
    if scheme == "milvus":
        importlib.import_module("tabane.milvus.index")
        from tabane.milvus.index import MilvusIndex
        from tabane.milvus.index_url import parsed

        return MilvusIndex(parsed(address))
    from tabane.engines.index_parameters import unreadable_index

    raise unreadable_index()


def _chroma(address: str) -> CandidateIndex:
    importlib.import_module("tabane.chroma.opening")
    from tabane.chroma.index_url import parsed
    from tabane.chroma.opening import chroma_index

    return chroma_index(parsed(address))
