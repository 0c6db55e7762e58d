"""An index on Chroma by its URL."""

from __future__ import annotations

from tabane.engine.team.chroma.folder import ChromaFolder
from tabane.engine.team.chroma.index import ChromaIndex
from tabane.engine.team.chroma.index_url import ChromaUrl
from tabane.engine.team.chroma.server import ChromaServer


def chroma_index(url: ChromaUrl) -> ChromaIndex:
    """Return the index at that URL. It connects with its first call."""
    return ChromaIndex(url, ChromaFolder(url) if url.folder else ChromaServer(url))
