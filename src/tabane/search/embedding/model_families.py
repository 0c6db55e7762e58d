"""What is known of families of models, as data: prefixes, pooling, lengths.

From the models' own cards. A field that is None is left to what the model's files say of themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum


class Pooling(Enum):
    """How the states of a text's tokens become its one vector."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What a model wants done around it. None: not said here.

    ``max_tokens`` counts special tokens. ``dimension`` keeps the first components alone, for models
    trained so that these suffice. ``output`` names the graph's output that is the vector already, or
    holds the states; None takes the usual ones.
    """

    pooling: Pooling | None = None
    max_tokens: int | None = None
    query: str | None = None
    document: str | None = None
    topic: str | None = None
    dimension: int | None = None
    output: str | None = None

    def over(self, other: ModelTraits) -> ModelTraits:
        """These, and ``other`` where they say nothing."""
        said = {name: getattr(self, name) for name in ModelTraits.__slots__}
        return replace(other, **{name: value for name, value in said.items() if value is not None})


@dataclass(frozen=True, slots=True)
class CosineBaseline:
    """The cosines of questions with texts that have nothing to do with them.

    Models differ: the same number is likeness to one and nothing to another. ``usual`` is the median within
    one collection: what counts as no likeness at all. ``threshold`` is the 99th percentile between questions
    of one collection and texts of another: a hit below it is noise. Both are medians over several
    collections, measured by ``python -m benchmarks.search.strangers`` and never guessed.
    """

    usual: float
    threshold: float


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that want the same. ``pattern`` matches the start of an id's last part, in lower case.

    ``strangers`` is None where nobody has measured them.
    """

    name: str
    pattern: str
    traits: ModelTraits
    strangers: CosineBaseline | None = None


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
    """The family of a model, by its id: ``org/name``, or ``name:tag`` as Ollama has it."""
    name = _name(model)
    return next((family for family in FAMILIES if re.match(family.pattern, name)), None)


def reads(model: str, text: str) -> bool:
    """Whether the model makes anything of a question in this script; True where nothing else is known.

    False for a model of English alone where more than a third of the letters are not Latin. Its vectors are
    noise then, and noise spoils a ranking by words: of 150 Japanese questions .99 to .54 nDCG@10 by RRF.
    """
    if not _ENGLISH.match(_name(model)):
        return True
    letters = [character for character in text if character.isalpha()]
    latin = sum(letter <= _FURTHEST_LATIN for letter in letters)
    return 3 * latin >= 2 * len(letters)


def _name(model: str) -> str:
    """The last part of an id or fingerprint, without what is behind ``#``."""
    return model.partition("#")[0].rstrip("/").rpartition("/")[2].lower()
