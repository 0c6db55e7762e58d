"""What a text is cut into, and what it is measured with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Kind = Literal["markdown", "text", "code"]
"""How a text is read: by its headings and blocks, by its paragraphs, or by its indentation."""


class Chunk(NamedTuple):
    """A part of a text: code points ``start`` to ``end`` of it.

    ``headings`` are those that hold for all of it, the outermost first; of Markdown alone.
    """

    start: int
    end: int
    headings: tuple[str, ...]


class Measure(Protocol):
    """What is counted in: the tokens of a model, or an estimate of them. May be used by several threads.

    Failure policy: it always answers. Counting may take a process or a file, so it stays off event loops.
    """

    @property
    def capacity(self) -> int:
        """Tokens that a chunk and the headings above it may have together; at least one."""
        ...

    @property
    def name(self) -> str:
        """Two measures of one name cut every text in the same places."""
        ...

    def count(self, text: str) -> int:
        """The tokens of a text, without those that a model adds itself."""
        ...


@runtime_checkable
class BatchMeasure(Protocol):
    """A measure that is faster with many texts at once."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """:meth:`Measure.count` of each."""
        ...


def counted(measure: Measure, texts: Sequence[str]) -> list[int]:
    """The tokens of each text."""
    if isinstance(measure, BatchMeasure):
        return measure.counts(texts)
    return [measure.count(text) for text in texts]
