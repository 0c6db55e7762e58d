"""What texts are measured with that are cut for a model: its own tokenizer, or an estimate of it."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from tabane.search.chunking.estimate import Estimate
from tabane.search.embedding.counting import TokenCounter
from tabane.search.embedding.model_families import reads
from tabane.search.embedding.recipe import Recipe

log = logging.getLogger(__name__)

TARGET = 512
"""Tokens of a chunk where the model takes more, or nothing is known of one.

500 questions to 3,000 paragraphs of Japanese Wikipedia (JaQuAD), searched by words, nDCG@10: .951 where the
paragraphs are whole and in chunks of so many tokens by the estimate; .941 where they have a third of that.
"""

_SPECIAL = 2  # tokens that models put around a text
_TITLE = 16  # for the name of what it is from, which is embedded with it
_FAR = 4  # capacities: what is estimated to have more is cut anyway, and not worth counting

_RULES = 1
"""Counts up when texts are counted or cut in another way: part of every measure's name."""


@dataclass(frozen=True, slots=True)
class TokenizerMeasure:
    """A :class:`~tabane.search.chunking.Measure` with a model's own tokenizer.

    Text that the model cannot read is measured by the estimate, on the scale of :data:`TARGET`: there is
    nothing to lose at the model's end, and short chunks are found worse by words. Where the tokenizer
    fails, the estimate answers too, and the log says so.
    """

    capacity: int
    name: str
    model: str
    counter: TokenCounter
    estimate: Estimate

    def count(self, text: str) -> int:
        return self.counts([text])[0]

    def counts(self, texts: Sequence[str]) -> list[int]:
        found = self.estimate.counts(texts)
        exact = []
        for place, text in enumerate(texts):
            if not reads(self.model, text):
                found[place] = -(-found[place] * self.capacity // TARGET)
            elif found[place] <= self.capacity * _FAR:
                exact.append(place)
        try:
            tokens = self.counter.counts([texts[place] for place in exact])
        except OSError as error:
            log.warning("tokens of %s are estimated: %s", self.model, error)
            return found
        for place, size in zip(exact, tokens, strict=True):
            found[place] = size
        return found


def room_of(recipe: Recipe) -> int:
    """The tokens of a text that a model takes beside what is put before and around it: at most the target."""
    prefix = Estimate(1, "").count(recipe.document)
    longest = recipe.max_tokens - _SPECIAL - prefix
    return max(min(TARGET, longest - min(_TITLE, longest // 8)), 1)


def estimated(recipe: Recipe | None) -> Estimate:
    """The estimate for a model whose tokenizer is not here; for words alone where there is no model."""
    capacity = room_of(recipe) if recipe else TARGET
    return Estimate(capacity, f"{_RULES}:estimate/{capacity}")


def tokenizer_in(folder: str) -> str | None:
    """The tokenizer beside a model; None where it is only in a form that needs the model's own code."""
    path = os.path.join(folder, "tokenizer.json")
    return path if os.path.isfile(path) else None


def exact(recipe: Recipe, counter: TokenCounter) -> TokenizerMeasure:
    """The measure of a model whose tokenizer is here."""
    estimate = estimated(recipe)
    files = hashlib.sha256(recipe.revision.encode()).hexdigest()[:12]
    name = f"{_RULES}:{recipe.model}@{files}/{estimate.capacity}"
    return TokenizerMeasure(estimate.capacity, name, recipe.model, counter, estimate)
