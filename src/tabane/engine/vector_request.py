"""A validated query over vectors: how several similarities become one, and its upper bound.

Vectors of length 1, whose products are cosines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import Combination, VectorQuery
from tabane.search.records import Shape, checked_vector

Array = NDArray[Any]
Matrix = NDArray[np.float32]


def normalized(vectors: bytes, dimension: int) -> Matrix:
    """Return the vectors of records, given one after the other, as a matrix of unit vectors."""
    given = np.frombuffer(vectors, dtype="<f4").reshape(-1, dimension).astype(np.float64)
    given /= np.abs(given).max(axis=1, keepdims=True)  # the squares of very small numbers would be 0
    return np.asarray(given / np.sqrt((given * given).sum(axis=1, keepdims=True)), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """A query, ready: unit vectors by space, and a factor for each.

    ``proven``: how many of the best hits have to be exact; None: all requested ones.
    """

    vectors: Mapping[str, Matrix]
    combination: Combination
    weights: Mapping[str, float]
    threshold: float | None
    whole: bool = False
    proven: int | None = None

    def combined(self, similarities: list[Array]) -> Array:
        """Return one similarity of several; NaN if a record lacks all spaces, or one of a whole."""
        if len(similarities) == 1:
            return similarities[0]
        stacked = np.stack(similarities)
        lacking = np.isnan(stacked)
        if not lacking.any():
            return self._combined(stacked)
        none = lacking.any(axis=0) if self.whole else lacking.all(axis=0)
        zeroed = np.where(lacking, -np.inf if self.combination is Combination.MAXIMUM else 0.0, stacked)
        return np.where(none, np.nan, self._combined(zeroed))

    @property
    def strict(self) -> bool:
        """Return whether one low similarity makes the combination low: nearness in one space tells little."""
        return self.combination is Combination.MINIMUM

    @property
    def multiplied(self) -> bool:
        """Return whether cosines of several spaces are multiplied.

        Two negative cosines also give a high product, and estimates are least certain there: so all records
        are compared.
        """
        return self.combination is Combination.PRODUCT and len(self.vectors) > 1

    def margin(self, errors: list[float]) -> float | None:
        """Return the error of a combination of estimates with such errors; None if it differs by record."""
        factors = self.factors
        return None if factors is None else float(np.sqrt(np.sum((factors * errors) ** 2)))

    @property
    def factors(self) -> Array | None:
        """Return by what each similarity is multiplied before all are added; None if they are not added."""
        if self.combination not in (Combination.AVERAGE, Combination.WEIGHTED):
            return None
        weights = np.array([self.weights[name] for name in self.vectors])
        return weights / weights.sum() if self.combination is Combination.AVERAGE else weights

    def highest(self, estimates: list[Array], errors: list[float]) -> Array:
        """Return upper bounds of the combined similarity, from estimates with such errors."""
        if self.combination is Combination.PRODUCT and len(estimates) > 1:
            return self._highest_product(estimates, errors)
        margin = self.margin(errors)
        if margin is not None:
            return np.asarray(self.combined(estimates) + np.float32(margin))
        return self.combined(
            [each + np.float32(error) for each, error in zip(estimates, errors, strict=True)]
        )

    def _highest_product(self, estimates: list[Array], errors: list[float]) -> Array:
        """Return the largest product within the errors: two negative factors make a positive one."""
        stacked = np.stack(estimates)
        lacking = np.isnan(stacked)
        low = high = np.ones(stacked.shape[1], dtype=stacked.dtype)
        for each, without, error in zip(stacked, lacking, errors, strict=True):
            least = np.where(without, 0, each - np.float32(error))
            most = np.where(without, 0, each + np.float32(error))
            corners = np.stack([low * least, low * most, high * least, high * most])
            low, high = corners.min(axis=0), corners.max(axis=0)
        none = lacking.any(axis=0) if self.whole else lacking.all(axis=0)
        return np.where(none, np.nan, high)

    def _combined(self, stacked: Array) -> Array:
        weights = np.array([self.weights[name] for name in self.vectors], dtype=stacked.dtype)
        match self.combination:
            case Combination.MAXIMUM:
                return np.asarray(stacked.max(axis=0))
            case Combination.MINIMUM:
                return np.asarray(stacked.min(axis=0))
            case Combination.PRODUCT:
                return np.asarray(stacked.prod(axis=0))
            case Combination.WEIGHTED:
                return np.asarray(np.einsum("s,sr->r", weights, stacked))
            case Combination.AVERAGE:
                return np.asarray(np.einsum("s,sr->r", weights / weights.sum(), stacked))


def checked_request(query: VectorQuery, shape: Shape) -> VectorRequest:
    """Return the query, ready to be asked. Raises :class:`BadArguments`."""
    if not query.vectors:
        raise BadArguments(say("a vector query needs at least one vector"), "vectors")
    vectors = {}
    for name, vector in query.vectors.items():
        space = shape.space(name)
        vectors[name] = normalized(checked_vector(vector, space), space.dimension)[0]
    weights = {name: float(query.weights.get(name, 1.0)) for name in vectors}
    unknown = query.weights.keys() - vectors.keys()
    average = query.combination is Combination.AVERAGE
    if unknown or not all(map(math.isfinite, weights.values())):
        raise BadArguments(say("weights must be finite numbers, for spaces of the query"), "weights")
    if average and (min(weights.values()) < 0 or not sum(weights.values())):
        raise BadArguments(say("weights of an average must be at least 0, and not all 0"), "weights")
    return VectorRequest(vectors, query.combination, weights, query.threshold, query.whole, query.proven)
