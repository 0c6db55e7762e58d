"""What an engine is to these measurements. Each has a module of its own, run in a process of its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol

from benchmarks.search.vectors.corpus import Corpus, Question

MODULES = {
    "tabane": "ours",
    "numpy, float32": "exact",
}
NO_TEXTS = "tabane without texts"  # for a figure of its own


class Engine(Protocol):
    """An engine over one folder. What it cannot do at all raises NotImplementedError."""

    version: str
    batch: int  # records of one call while filling
    most: int  # records that it is filled with

    async def open(self, folder: Path, corpus: Corpus) -> None:
        """Open what the folder holds, or begin there. What has to be imported is so already."""
        ...

    async def fill(self, first: int, last: int) -> None:
        """Put in the records of the corpus from ``first`` to before ``last``."""
        ...

    async def filled(self) -> None:
        """Whatever has to be done after the last of them, for searches to be quick."""
        ...

    async def nearest(self, question: Question) -> list[int]:
        """The numbers of the best records, of all spaces that the question has vectors for."""
        ...

    async def hybrid(self, question: Question) -> list[int]:
        """The best by words and by vectors together."""
        ...

    async def scan(self, question: Question) -> tuple[float, float]:
        """All similarities: seconds until the first of them, until the last."""
        ...

    async def close(self) -> None: ...


def module(name: str) -> str:
    return "bare" if name == NO_TEXTS else MODULES[name]


def engine(name: str) -> Engine:
    made: Engine = importlib.import_module(f"benchmarks.search.vectors.{module(name)}").Measured()
    return made


class Plain:
    """An engine that looks into one space and knows no words."""

    most = 10**9

    async def filled(self) -> None:
        pass

    async def hybrid(self, question: Question) -> list[int]:
        raise NotImplementedError

    async def scan(self, question: Question) -> tuple[float, float]:
        raise NotImplementedError

    async def close(self) -> None:
        pass
