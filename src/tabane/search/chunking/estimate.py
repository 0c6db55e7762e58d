"""Tokens without a tokenizer: about what models of many languages make of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
# One token each: up to six letters of a Latin word, three digits, two letters of another script, a sign.
_TOKENS = re.compile(rf"[A-Za-z]{{1,6}}|[0-9]{{1,3}}|[^\W\d_A-Za-z{_CJK}]{{1,2}}|[^\w\s]|[_\d]")
_IDEOGRAPHS = re.compile(rf"[{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts by scripts: three tokens for four characters of Chinese, Japanese and Korean.

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
