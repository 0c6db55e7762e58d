"""Texts are cut into chunks that a model can take, at borders that a reader would choose.

Pure: the same text, kind and measure are cut in the same places, and an edit moves the cuts around it alone.
"""

from __future__ import annotations

from tabane.search.chunking.cutting import Chunk, Kind, Measure, chunks

__all__ = ["Chunk", "Kind", "Measure", "chunks"]
