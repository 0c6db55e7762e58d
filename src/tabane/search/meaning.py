"""What a question means, as vectors that a collection can be asked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tabane.messages import Message, say
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.families import family_of, reads
from tabane.search.engine import VectorQuery
from tabane.search.models import Models


class Meaning(NamedTuple):
    """A question as vectors.

    ``usual`` is the cosine between strangers, and ``noise`` the one below which a hit by meaning alone says
    nothing: None where nobody measured them for the model.
    """

    query: VectorQuery
    usual: float | None = None
    noise: float | None = None


async def meaning_of(text: str, spaces: Mapping[str, str], models: Models) -> Meaning | NoModel:
    """The question for each of these spaces, by the model whose vectors they hold; or why there is none.

    ``spaces`` is name → model. A model that reads English alone is not asked about other scripts: what it
    would answer is noise, and noise spoils what the words find.
    """
    vectors: dict[str, bytes] = {}
    for name, model in spaces.items():
        if not reads(model, text):
            return _words_alone(say("{model} reads English only.", model=model.partition("#")[0]))
        vector = await models.query(model, text)
        if isinstance(vector, NoModel):
            return _words_alone(vector.reason)
        vectors[name] = vector
    known = {family.strangers for model in spaces.values() if (family := family_of(model))}
    strangers = known.pop() if len(known) == 1 else None
    if strangers is None:
        return Meaning(VectorQuery(vectors))
    return Meaning(VectorQuery(vectors), strangers.usual, strangers.threshold)


def _words_alone(reason: Message) -> NoModel:
    return NoModel(say("Found by words alone: {reason}", reason=reason))
