"""The store with vectors in one space and nothing to be read: what is written then is vectors."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from benchmarks.search.vectors import ours
from benchmarks.search.vectors.corpus import Corpus

from tabane.search.records import Record


class Measured(ours.Measured):
    most = 50_000

    async def open(self, folder: Path, corpus: Corpus) -> None:
        await super().open(folder, dataclasses.replace(corpus, spaces=corpus.spaces[:1]))

    def _record(self, number: int, text: str) -> Record:
        return super()._record(number, "")
