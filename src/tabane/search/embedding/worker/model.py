"""What the embedding process runs, whoever made it: texts become tokens, and batches of them vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tabane.search.embedding.worker.pooling import Floats

CHARACTERS = 64
"""Characters of a text that are looked at, for each token that the model takes: no language needs more."""


class TokenizedText(Protocol):
    """One text, in the model's tokens."""

    def __len__(self) -> int: ...


class LoadedModel(Protocol):
    """A model that is loaded. Both methods may be called by several threads at once."""

    @property
    def dimension(self) -> int: ...

    def tokens(self, texts: Sequence[str], query: str = "") -> list[TokenizedText]:
        """The tokens of each text, cut to what the model takes; at least one each.

        A model that scores pairs has those of ``query`` before each.
        """
        ...

    def vectors(self, batch: Sequence[TokenizedText]) -> Floats:
        """One vector a text, float32 of length one; or one score. Raises ValueError, or as the runtime."""
        ...
