"""The index of vectors that the setting vector_index names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.engines.candidate_index import CandidateIndex


def opened_index(address: str) -> CandidateIndex:
    """Return the index at that URL. It connects with its first call. Raises ConfigurationError. Blocks."""
    if urlsplit(address).scheme == "milvus":
        importlib.import_module("tabane.milvus.index")
        from tabane.milvus.index import MilvusIndex
        from tabane.milvus.index_url import parsed

        return MilvusIndex(parsed(address))
    raise ConfigurationError(
        say(
            "vector_index must be empty or a URL such as milvus://user:${{MILVUS_PASSWORD}}@host:19530/database"
        )
    )
