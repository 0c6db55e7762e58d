"""The index of vectors that the setting vector_index names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tabane.engine.candidate_index import CandidateIndex


def opened_index(address: str) -> CandidateIndex:
    """Return the index at that URL. It connects with its first call. Raises ConfigurationError. Blocks."""
    scheme = urlsplit(address).scheme
    if scheme.startswith("chroma"):
        return _chroma(address)
    if scheme == "milvus":
        importlib.import_module("tabane.engine.team.milvus.index")
        from tabane.engine.team.milvus.index import MilvusIndex
        from tabane.engine.team.milvus.index_url import parsed

        return MilvusIndex(parsed(address))
    from tabane.engine.index_parameters import unreadable_index

    raise unreadable_index()


def _chroma(address: str) -> CandidateIndex:
    importlib.import_module("tabane.engine.team.chroma.opening")
    from tabane.engine.team.chroma.index_url import parsed
    from tabane.engine.team.chroma.opening import chroma_index

    return chroma_index(parsed(address))
