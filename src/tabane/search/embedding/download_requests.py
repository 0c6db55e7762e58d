"""Requests to the process that downloads models, and its results, in MessagePack.

The opening is a :class:`DownloadSettings`. The progress of a file is how many of its bytes are here, as eight
bytes, big-endian.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class DownloadSettings(msgspec.Struct, frozen=True):
    """Where models come from, and the folder of the cache. ``timeout`` is the seconds for the next bytes."""

    endpoint: str
    folder: str
    token: str | None
    timeout: float


class HubFile(msgspec.Struct, frozen=True):
    """A file of a model. ``checksum`` is SHA-256 for large files, else git's SHA-1 of the blob."""

    path: str
    size: int
    checksum: str


class ListRequest(msgspec.Struct, frozen=True, tag=True):
    """Asks for the files of a model, of a branch, tag or commit."""

    model: str
    revision: str


class FileRequest(msgspec.Struct, frozen=True, tag=True):
    """Asks for one file of a commit to be in the cache."""

    model: str
    commit: str
    file: HubFile


class ModelListing(msgspec.Struct, frozen=True, tag=True):
    """The files of a model at a commit."""

    commit: str
    files: list[HubFile]


class FileStored(msgspec.Struct, frozen=True, tag=True):
    """The file is in the cache, and its checksum is right."""


class DownloadFailure(msgspec.Struct, frozen=True, tag=True):
    """Why there is no result.

    ``again``: the server may answer later; ``pause`` is the seconds it asks to wait. ``declined``: it
    refuses, with this HTTP ``status``. ``listing``: the list of files is not valid. ``checksum``: the
    checksum of the file is wrong. ``long``: it is longer than the list says. ``disk``: the cache cannot be
    written.
    """

    kind: Literal["again", "declined", "listing", "checksum", "long", "disk"]
    reason: str = ""
    status: int = 0
    pause: float = 0.0


DownloadRequest = ListRequest | FileRequest
DownloadResult = ModelListing | FileStored | DownloadFailure
