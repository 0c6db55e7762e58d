"""The interface of a loaded model, and the pooling of token states into vectors."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tabane.search.embedding.model_families import Pooling

Floats = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int64]


def pooled(states: Floats, mask: Whole, pooling: Pooling) -> Floats:
    """Return texts × hidden from ``states`` (texts × tokens × hidden). ``mask`` is 1 for a real token.

    Every text must have a real token.
    """
    if pooling is Pooling.MEAN:
        # As a product of matrices, which makes no copy of the states.
        sums: Floats = np.matmul(mask[:, None, :].astype(np.float32), states)[:, 0]
        means: Floats = sums / mask.sum(axis=1, keepdims=True).astype(np.float32)
        return means
    real = mask.astype(bool)
    if pooling is Pooling.CLS:
        places = real.argmax(axis=1)  # padding may stand on the left
    else:
        places = mask.shape[1] - 1 - real[:, ::-1].argmax(axis=1)
    chosen: Floats = states[np.arange(len(states)), places]
    return chosen


def finished(vectors: npt.NDArray[Any], dimension: int) -> Floats:
    """Return the first ``dimension`` components (0: all), as float32 of length one. Zeros stay zeros.

    Raises ValueError if a component is not a finite number.
    """
    kept = np.ascontiguousarray(vectors[:, : dimension or None], "<f4")
    if not np.isfinite(kept).all():
        raise ValueError("the model gave components that are no finite numbers")
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    unit: Floats = (kept / np.where(norms > 0, norms, 1)).astype("<f4", copy=False)
    return unit


CHARACTERS = 64
"""Characters of a text that are looked at, for each token that the model takes: no language needs more."""


class LoadedModel(Protocol):
    """A model that is loaded. Several threads may call both methods at once.

    A text in the model's tokens has its own type in each; its length is the number of its tokens.
    """

    @property
    def pads(self) -> bool:
        """Return whether memory grows with the longest text of a batch times the number of its texts."""
        ...

    @property
    def dimension(self) -> int:
        """Return the number of components of a vector."""
        ...

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text, cut to what the model accepts; at least one each.

        A model that scores pairs puts those of ``query`` before each.
        """
        ...

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one vector for each text, float32 of length one;

        or one score. Raises ValueError, or as the runtime does.
        """
        ...
