"""Models that only sentence-transformers can run: an extra, and the slowest to start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tabane.search.embedding.model_spec import ModelSpec
from tabane.search.embedding.worker.model import CHARACTERS, Floats, TokenizedText, finished


@dataclass(frozen=True, slots=True)
class _CountedText:
    text: str
    tokens: int

    def __len__(self) -> int:
        return self.tokens


class SentenceModel:
    """A folder that sentence-transformers reads. Its own modules pool; prefixes are part of the texts."""

    def __init__(self, spec: ModelSpec) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(spec.threads)
        self._spec = spec
        self._model: Any = SentenceTransformer(spec.folder, device="cpu", local_files_only=True)
        self._model.max_seq_length = spec.max_tokens
        self.dimension = self.vectors(self.tokens(["a"])).shape[1]

    def tokens(self, texts: Sequence[str], query: str = "") -> list[TokenizedText]:
        most = self._spec.max_tokens
        cut = [text[: most * CHARACTERS] for text in texts]
        found = self._model.tokenizer(cut, truncation=True, max_length=most)["input_ids"]
        return [
            cast(TokenizedText, _CountedText(text, max(len(ids), 1)))
            for text, ids in zip(cut, found, strict=True)
        ]

    def vectors(self, batch: Sequence[TokenizedText]) -> Floats:
        texts = [counted.text for counted in cast(Sequence[_CountedText], batch)]
        found = self._model.encode(
            texts, prompt="", batch_size=len(texts), convert_to_numpy=True, show_progress_bar=False
        )
        return finished(np.asarray(found), self._spec.dimension)
