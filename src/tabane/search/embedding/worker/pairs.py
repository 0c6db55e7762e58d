"""Models that read a question and a text together: ONNX graphs of a classification of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from tabane.search.embedding.model_spec import ModelSpec
from tabane.search.embedding.worker.model import CHARACTERS, TokenizedText
from tabane.search.embedding.worker.onnx import GraphSession, tokenizer_of
from tabane.search.embedding.worker.pooling import Floats


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a text as tokens. ``kinds`` tells which of the two each is of."""

    ids: list[int]
    kinds: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class PairModel:
    """A graph that gives one logit a pair, or two of which the second is for what fits.

    The score of one logit is its sigmoid, that of two is the softmax's second. Only the text of a pair
    is cut to what the model takes; of a question, what leaves half of it to the text is read.
    """

    def __init__(self, spec: ModelSpec, graph: str) -> None:
        """Load the graph at that path. Raises ValueError where it wants or gives something else."""
        self._most = spec.max_tokens
        self._graph = GraphSession(spec, graph)
        names = [name for name, _ in self._graph.outputs]
        self._output = "logits" if "logits" in names else names[0]
        self._questions = tokenizer_of(spec)
        self._tokenizer = tokenizer_of(spec)
        self._tokenizer.enable_truncation(self._most, strategy="only_second")
        self.dimension = self.vectors(self.tokens(["a"], "a")).shape[1]

    def tokens(self, texts: Sequence[str], query: str = "") -> list[TokenizedText]:
        question = self._cut(query)
        pairs = [(question, text[: self._most * CHARACTERS]) for text in texts]
        found = self._tokenizer.encode_batch(pairs)
        return [cast(TokenizedText, Pair(each.ids, each.type_ids)) for each in found]

    def vectors(self, batch: Sequence[TokenizedText]) -> Floats:
        pairs = cast(Sequence[Pair], batch)
        logits, _ = self._graph.run(
            self._output, [pair.ids for pair in pairs], [pair.kinds for pair in pairs]
        )
        return scores(logits)

    def _cut(self, query: str) -> str:
        """The question, at most half as long as a pair may be."""
        query = query[: self._most * CHARACTERS]
        found = self._questions.encode(query, add_special_tokens=False)
        most = max(self._most // 2, 1)
        return query[: found.offsets[most - 1][1]] if len(found.ids) > most else query


def scores(logits: npt.NDArray[np.floating]) -> Floats:
    """Pairs × 1 in 0..1 of logits (pairs × one or two). Raises ValueError for others, or no numbers."""
    known = np.asarray(logits, np.float64).reshape(len(logits), -1)
    if known.shape[1] not in (1, 2):
        raise ValueError(f"the graph gives {known.shape[1]} logits a pair, not one or two")
    if not np.isfinite(known).all():
        raise ValueError("the model gave logits that are no finite numbers")
    # The softmax of two is the sigmoid of their difference.
    single = known[:, :1] if known.shape[1] == 1 else known[:, 1:] - known[:, :1]
    found: Floats = (1 / (1 + np.exp(-np.clip(single, -700, 700)))).astype("<f4")
    return found
