"""Queries as vectors, and how vectors take part in a hybrid search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from tabane.messages import Message, say
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import cosine_weight, family_of, reads
from tabane.search.engine import LexicalQuery, VectorQuery
from tabane.search.fusion import CosineWeight
from tabane.search.hybrid import Fusion
from tabane.search.models import Models


class Incomplete(Struct, frozen=True):
    """A space in which some records have no vector. ``share`` in 0..1 have one; ``state`` is the message.

    ``tells``: the user should know. It is False for a few texts that the model cannot read. ``problem``
    prevents the rest from being embedded.
    """

    share: float
    state: Message
    tells: bool = True
    problem: Message | None = None

    @property
    def warning(self) -> Message | None:
        """Return the warning for results by keywords, or by keywords and vectors."""
        if not self.tells:
            return None
        if self.problem is not None and not self.share:
            return self.problem
        if self.share:
            return say("The rest is found by keywords only. {state}", state=self.state)
        return say("Results match keywords only. {state}", state=self.state)


class Meaning(NamedTuple):
    """A query as vectors.

    ``query`` is None if there is nothing to compare. ``usual`` is the cosine between unrelated texts, and
    ``noise`` the cosine below which a hit by vectors alone means nothing: None if nobody measured them for
    the model. ``incomplete``: not every record has a vector. ``weight`` is that of the cosine beside words.
    """

    query: VectorQuery | None
    usual: float | None = None
    noise: float | None = None
    incomplete: Incomplete | None = None
    weight: CosineWeight = CosineWeight()


class HybridQuery(NamedTuple):
    """A query by keywords and vectors. Without ``words`` or ``vectors``, the other one ranks alone.

    ``usual``, ``fusion`` and ``weight`` are parameters of :func:`~tabane.search.hybrid.hybrid`. ``warning``
    says why hits may be missing.
    """

    words: LexicalQuery | None
    vectors: VectorQuery | None = None
    usual: float | None = None
    fusion: Fusion = "scaled"
    warning: Message | None = None
    weight: CosineWeight = CosineWeight()


def hybrid_query(words: LexicalQuery, found: Meaning | NoModel) -> HybridQuery:
    """Return how vectors take part in a search by keywords and vectors.

    While some records have no vector, vectors only raise a record: see
    :data:`~tabane.search.hybrid.Fusion`. So no record falls behind because it has none yet.
    """
    if isinstance(found, NoModel):
        return HybridQuery(words, warning=found.reason)
    incomplete = found.incomplete
    if found.query is None or (incomplete is not None and not incomplete.share):
        return HybridQuery(words, warning=incomplete.warning if incomplete else None)
    query = structs.replace(found.query, threshold=found.noise)
    if incomplete is None:
        return HybridQuery(words, query, found.usual, weight=found.weight)
    return HybridQuery(words, query, found.usual, "partial", incomplete.warning, found.weight)


async def meaning_of(text: str, spaces: Mapping[str, str], models: Models) -> Meaning | NoModel:
    """Return the query as vectors for these spaces, each by the model of the space; or why there are none.

    ``spaces`` is name → model. A model that reads only English gets no query in another script: its vectors
    would be noise, which makes the results by words worse.
    """
    vectors: dict[str, bytes] = {}
    for name, model in spaces.items():
        if not reads(model, text):
            return words_alone(english_only(model))
        vector = await models.query(model, text)
        if isinstance(vector, NoModel):
            return words_alone(vector.reason)
        vectors[name] = vector
    baselines = {family.baseline for model in spaces.values() if (family := family_of(model))}
    baseline = baselines.pop() if len(baselines) == 1 else None
    found = Meaning(VectorQuery(vectors), weight=cosine_weight(spaces.values(), text))
    if baseline is None:
        return found
    return found._replace(usual=baseline.usual, noise=baseline.threshold)


def english_only(model: str) -> Message:
    """Return the warning that a model cannot read a query."""
    return say("{model} reads English only.", model=model.partition("#")[0])


def words_alone(reason: Message) -> NoModel:
    """Return the reason as a warning for results by keywords alone."""
    return NoModel(say("Results match keywords only: {reason}", reason=reason))
