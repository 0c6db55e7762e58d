"""Tokens of what a model is sent: estimated from bytes, and counted where a tokenizer is at hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Count = Callable[[str], int]


class Tokens(NamedTuple):
    """``estimate`` is bytes/4; ``exact`` is o200k_base, None where it could not be counted."""

    estimate: float
    exact: float | None

    def __add__(self, other: object) -> Tokens:
        assert isinstance(other, Tokens)
        exact = None if self.exact is None or other.exact is None else self.exact + other.exact
        return Tokens(self.estimate + other.estimate, exact)

    def over(self, count: int) -> Tokens:
        """The mean of so many."""
        return Tokens(self.estimate / count, None if self.exact is None else self.exact / count)

    @property
    def best(self) -> float:
        return self.estimate if self.exact is None else self.exact


class Counter:
    """Counts texts and JSON values, the latter as they stand without spaces."""

    def __init__(self, exact: Count | None = None) -> None:
        self._exact = exact

    def __call__(self, value: Any) -> Tokens:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
        return Tokens(len(text.encode()) / 4, self._exact(text) if self._exact else None)


NOTHING = Tokens(0, 0)


def o200k(ranks: Path) -> Count:
    """The tokenizer o200k_base, from the file ``dist/ranks/o200k_base.js`` or ``.cjs`` of npm's js-tiktoken.

    Raises ImportError without the package tiktoken, ValueError where the file is not that.
    """
    import tiktoken  # type: ignore[import-not-found,unused-ignore]

    source = ranks.read_text(encoding="utf-8")
    table = json.loads(source[source.index('{"pat_str"') : source.rindex("}") + 1])
    encoding = tiktoken.Encoding(
        "o200k_base",
        pat_str=table["pat_str"],
        mergeable_ranks=_ranks(table["bpe_ranks"]),
        special_tokens=table["special_tokens"],
    )
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def _ranks(lines: str) -> dict[bytes, int]:
    """Each line reads ``! first token token …``: tokens in base64, numbered on from the first."""
    found: dict[bytes, int] = {}
    for line in lines.splitlines():
        _, first, *tokens = line.split(" ")
        found.update((base64.b64decode(token), int(first) + n) for n, token in enumerate(tokens))
    return found
