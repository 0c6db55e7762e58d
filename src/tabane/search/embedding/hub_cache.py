"""The cache of models that all programs of a user share, in the layout of huggingface_hub.

``models--org--name/`` has ``refs/<revision>`` with a commit, ``blobs/<checksum>`` with contents, and
``snapshots/<commit>/<path>``, which are links to blobs. A file ``.no_exist/<commit>/<path>`` is empty and
says that the commit has no such file. The hub reads it without importing the library, which takes 25 MB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tabane.settings.files import home_folder

_ENDPOINT = "https://huggingface.co"
_TRUE = ("1", "on", "yes", "true")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Where models come from and where they are stored, from the variables that huggingface_hub reads.

    ``offline``: nothing is downloaded (HF_HUB_OFFLINE). ``token`` is for models that require a login
    (HF_TOKEN).
    """

    folder: str
    endpoint: str = _ENDPOINT
    offline: bool = False
    token: str | None = None

    def __repr__(self) -> str:
        return f"HubPlace({self.folder!r}, {self.endpoint!r}, offline={self.offline})"


def hub_place(environ: Mapping[str, str], token: str | None = None) -> HubPlace:
    """Return HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_ENDPOINT, HF_HUB_OFFLINE and HF_TOKEN, or their
    defaults.
    """
    caches = environ.get("XDG_CACHE_HOME") or os.path.join(home_folder(environ), ".cache")
    home = environ.get("HF_HOME") or os.path.join(caches, "huggingface")
    folder = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return HubPlace(
        os.path.expanduser(folder),
        (environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/"),
        environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE,
        token or environ.get("HF_TOKEN") or None,
    )


def is_model_id(name: str) -> bool:
    """Return whether it can be a model's id: one or two parts, which cannot lead out of the cache."""
    return _ID.fullmatch(name) is not None and ".." not in name and "--" not in name


class ModelCache:
    """The part of the cache that belongs to one model."""

    def __init__(self, folder: str, model: str) -> None:
        self.folder = os.path.join(folder, "models--" + model.replace("/", "--"))
        self.locks = os.path.join(folder, ".locks", "models--" + model.replace("/", "--"))

    def commit(self, revision: str) -> str | None:
        """Return the commit of a branch or tag when it was last requested. A commit is its own."""
        if _COMMIT.fullmatch(revision):
            return revision
        try:
            with open(os.path.join(self.folder, "refs", *revision.split("/")), encoding="ascii") as file:
                commit = file.read(100).strip()
        except (OSError, UnicodeDecodeError):
            return None
        return commit if _COMMIT.fullmatch(commit) else None

    def snapshot(self, commit: str) -> str:
        """Return the folder of a commit's files, whether it exists or not."""
        return os.path.join(self.folder, "snapshots", commit)

    def blob(self, checksum: str) -> str:
        """Return the path of the content with this checksum, whether it exists or not."""
        return os.path.join(self.folder, "blobs", checksum)

    def lacks(self, commit: str, path: str) -> bool:
        """Return whether the commit is known not to have this file."""
        return os.path.exists(os.path.join(self.folder, ".no_exist", commit, *path.split("/")))

    def note_lack(self, commit: str, path: str) -> None:
        """Note that the commit has no such file."""
        place = os.path.join(self.folder, ".no_exist", commit, *path.split("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "ab"):
            return

    def remember(self, revision: str, commit: str) -> None:
        """Note the commit of a branch or tag."""
        if revision == commit:
            return
        path = os.path.join(self.folder, "refs", *revision.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        with open(part, "w", encoding="ascii") as file:
            file.write(commit)
        os.replace(part, path)

    def link(self, commit: str, path: str, checksum: str) -> None:
        """Link a blob into a commit's folder under its path."""
        place = os.path.join(self.snapshot(commit), *path.split("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        target = os.path.relpath(self.blob(checksum), os.path.dirname(place))
        part = f"{place}.{os.getpid()}.part"
        os.symlink(target, part)
        os.replace(part, place)
