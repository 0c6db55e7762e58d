"""From the states of tokens to one vector of length one, for a batch of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tabane.search.embedding.model_families import Pooling

Floats = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int64]


def pooled(states: Floats, mask: Whole, pooling: Pooling) -> Floats:
    """Texts × hidden from ``states`` (texts × tokens × hidden); ``mask`` is 1 where a token is real.

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
    """The first ``dimension`` components (0: all), as float32 of length one; a vector of zeros stays one.

    Raises ValueError where a component is no finite number.
    """
    kept = np.ascontiguousarray(vectors[:, : dimension or None], "<f4")
    if not np.isfinite(kept).all():
        raise ValueError("the model gave components that are no finite numbers")
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    unit: Floats = (kept / np.where(norms > 0, norms, 1)).astype("<f4", copy=False)
    return unit
