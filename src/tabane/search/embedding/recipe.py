"""Embedding recipe: everything that a vector depends on, and its fingerprint. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.search.embedding.embedder import Kind
from tabane.search.embedding.model_families import ModelTraits, Pooling, family_of

Quantisation = Literal["none", "int8"]

MOST_TOKENS = 2048
"""Tokens of a text where nobody asks for more: memory grows with their square."""

_NOTHING = ModelTraits()
_DEFAULTS = ModelTraits(Pooling.MEAN, 512, "", "", "", output="")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps from a text to a vector. ``revision`` is the commit, or checksum, of the model's files.

    ``dimension`` 0 keeps all components; ``output`` "" is the graph's usual one. Vectors always have length
    one.
    """

    model: str
    revision: str = ""
    quantisation: Quantisation = "none"
    pooling: Pooling = Pooling.MEAN
    max_tokens: int = 512
    query: str = ""
    document: str = ""
    topic: str = ""
    dimension: int = 0
    output: str = ""

    def prefix(self, kind: Kind) -> str:
        """Return the prefix for a text of this kind."""
        return {"query": self.query, "document": self.document, "topic": self.topic}[kind]

    def fingerprint(self, dimension: int) -> str:
        """Return the model's id and 16 hexadecimal digits over everything else and the vectors' dimension."""
        facts = msgspec.json.encode({**asdict(self), "dimension": dimension}, order="sorted")
        return f"{self.model}#{hashlib.sha256(facts).hexdigest()[:16]}"


def settled(
    model: str,
    revision: str = "",
    *,
    overrides: ModelTraits = _NOTHING,
    own: ModelTraits = _NOTHING,
    quantisation: Quantisation = "none",
) -> Recipe:
    """Return the recipe of a model: from the overrides, else from its family, else from its own files.

    Lengths that were not requested are limited to :data:`MOST_TOKENS`. Raises ConfigurationError if a number
    is below one.
    """
    family = family_of(model)
    traits = overrides.over(family.traits if family else _NOTHING).over(own).over(_DEFAULTS)
    longest = traits.max_tokens or 0
    _check("max_tokens", overrides.max_tokens)
    _check("dimension", overrides.dimension)
    return Recipe(
        model,
        revision,
        quantisation,
        traits.pooling or Pooling.MEAN,
        longest if overrides.max_tokens else min(longest, MOST_TOKENS),
        traits.query or "",
        traits.document or "",
        traits.topic or "",
        traits.dimension or 0,
        traits.output or "",
    )


def _check(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ConfigurationError(say("{name} of the embedding model must be at least 1.", name=name))


def own_traits(files: Mapping[str, bytes]) -> ModelTraits:
    """Return the traits in a model's files: sentence-transformers' configuration, then the tokenizer's.

    ``files`` are the contents of those of :data:`DESCRIBING` that exist.
    """
    pooling = _object(files.get("1_Pooling/config.json"))
    prompts = _object(files.get("config_sentence_transformers.json")).get("prompts") or {}
    lengths = [
        _object(files.get("sentence_bert_config.json")).get("max_seq_length"),
        _object(files.get("tokenizer_config.json")).get("model_max_length"),
    ]
    return ModelTraits(
        pooling=next((pool for flag, pool in _POOLINGS.items() if pooling.get(flag)), None),
        max_tokens=next(filter(None, map(_length, lengths)), None),
        query=_prompt(prompts, "query", "search_query"),
        document=_prompt(prompts, "document", "passage", "search_document"),
        topic=_prompt(prompts, "topic", "clustering"),
    )


DESCRIBING = (
    "config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "1_Pooling/config.json",
)
"""Files that describe a model; any of them may be missing."""

_POOLINGS = {
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
    "pooling_mode_mean_tokens": Pooling.MEAN,
}


def _length(said: object) -> int | None:
    # Tokenizers without a limit write 1e30.
    return int(said) if isinstance(said, int | float) and 1 <= said <= 1_000_000 else None


def _prompt(prompts: Any, *names: str) -> str | None:
    found = (prompts.get(name) for name in names) if isinstance(prompts, dict) else ()
    return next((text for text in found if isinstance(text, str)), None)


def _object(content: bytes | None) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
