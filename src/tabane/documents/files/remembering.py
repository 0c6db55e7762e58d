"""The watched folders as a small JSON file, so that they are watched again after a restart. Blocks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tabane.documents.files.folder import DocumentFolder
from tabane.settings.files import write_private

log = logging.getLogger(__name__)


class _WatchedFolder(msgspec.Struct, frozen=True):
    path: str
    prefix: str = ""
    relative: bool = False
    file_type: str | None = None
    ignore: tuple[str, ...] = ()
    encoding: str | None = None


class _WatchedFolders(msgspec.Struct, frozen=True):
    folders: list[_WatchedFolder] = []


class WatchedFoldersFile:
    """The file. One that is damaged is put aside, and nothing is watched."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[DocumentFolder]:
        try:
            entries = msgspec.json.decode(self._path.read_bytes(), type=_WatchedFolders).folders
        except FileNotFoundError:
            return []
        except (msgspec.DecodeError, UnicodeError) as error:
            broken = self._path.with_suffix(".broken")
            os.replace(self._path, broken)
            log.error("%s is damaged (%s) and was renamed to %s", self._path, error, broken.name)
            return []
        return [DocumentFolder(**msgspec.structs.asdict(entry)) for entry in entries]

    def write(self, folders: Iterable[DocumentFolder]) -> None:
        """Replace the file, or raise OSError and leave it as it was."""
        entries = [
            _WatchedFolder(each.path, each.prefix, each.relative, each.file_type, each.ignore, each.encoding)
            for each in folders
        ]
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(
            self._path, msgspec.json.format(msgspec.json.encode(_WatchedFolders(entries)), indent=2)
        )
