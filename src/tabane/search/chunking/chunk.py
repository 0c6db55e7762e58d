"""Chunks of a text, and the measure of their length: a tokenizer, or an estimate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Kind = Literal["markdown", "text", "code"]
"""The structure of a text: by its headings and blocks, by its paragraphs, or by its indentation."""


class Chunk(NamedTuple):
    """A part of a text: code points ``start`` to ``end`` of it.

    ``headings`` are those that apply to all of it, the outermost first; only in Markdown.
    """

    start: int
    end: int
    headings: tuple[str, ...]


class Measure(Protocol):
    """The unit of length: tokens of a model, or an estimate of them. Several threads may use it.

    Failure policy: it always answers. Counting may need a process or a file, so it stays off event loops.
    """

    @property
    def capacity(self) -> int:
        """Return the tokens that a chunk and the headings above it may have together; at least one."""
        ...

    @property
    def name(self) -> str:
        """Return a name. Two measures of one name cut every text in the same places."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of a text, without those that a model adds itself."""
        ...


@runtime_checkable
class BatchMeasure(Protocol):
    """A measure that is faster with many texts at once."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return :meth:`Measure.count` of each."""
        ...


def counted(measure: Measure, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text."""
    if isinstance(measure, BatchMeasure):
        return measure.counts(texts)
    return [measure.count(text) for text in texts]


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
# One token each: up to six letters of a Latin word, two digits, two letters of another script, a sign.
_TOKENS = re.compile(rf"[A-Za-z]{{1,6}}|[0-9]{{1,2}}|[^\W\d_A-Za-z{_CJK}]{{1,2}}|[^\w\s]|[_\d]")
_IDEOGRAPHS = re.compile(rf"[{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts by scripts: three tokens for four characters of Chinese, Japanese and Korean.

    Two digits are one token: WordPiece has most pairs, and few longer numbers. With three, tables of
    measurements had 30 % more tokens than estimated. With two, years have 20 % fewer.

    Tokenizers of many languages make two to two and a half of these; those of English alone make four, but
    then their models read nothing in them either.
    """

    capacity: int
    name: str

    def count(self, text: str) -> int:
        tokens = len(_TOKENS.findall(text))
        if text.isascii():
            return tokens
        return tokens + (3 * sum(map(len, _IDEOGRAPHS.findall(text))) + 3) // 4

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]
