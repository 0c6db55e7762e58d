"""The file of learned types, ``learned-types.jsonl`` in the home: a line whenever a type has changed.

It has names of properties and kinds of values, but no value. The last line of a tool counts. It is not
synced: if the machine fails, what was learned last may be lost. All methods block.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from tabane.code.result_types.learned_types import LearnedType, read_types
from tabane.errors import ConfigurationError
from tabane.hub.servers.result_types import TYPE_FILE
from tabane.settings.files import read_trusted

log = logging.getLogger(__name__)

BROKEN = ".broken"

LEAST_ROOM = 1 << 20
"""Bytes that are appended before the file is written again."""

LARGEST = 64 << 20
"""Bytes of a file that is read. A larger one is none of ours."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class TypeFile:
    """Reads and writes the file. It is created with the first type."""

    def __init__(self, home: Path) -> None:
        self._path = home / TYPE_FILE
        self._room = LEAST_ROOM

    def read(self) -> list[LearnedType]:
        """Return what the file says. One that is damaged is set aside, and what is readable of it is kept."""
        try:
            data = read_trusted(self._path, LARGEST)
        except FileNotFoundError:
            return []
        except (ConfigurationError, OSError) as error:
            self._set_aside(str(error))
            return []
        whole = data[: data.rfind(b"\n") + 1]  # the last line may be cut by a crash
        found, faults = read_types(whole.splitlines())
        if faults:
            self._set_aside(f"{faults} lines are unreadable")
            self.write(found)
        elif len(whole) < len(data):
            self.write(found)
        return found

    def add(self, types: Iterable[LearnedType]) -> bool:
        """Append types. Return whether the file has grown so much that it should be written again.

        Raises OSError.
        """
        body = _lines(types)
        with open(os.open(self._path, _FLAGS | os.O_APPEND, 0o600), "wb") as file:
            file.write(body)
        self._room -= len(body)
        return self._room < 0

    def write(self, types: Iterable[LearnedType]) -> None:
        """Write types in place of the file; without any, remove it. Raises OSError."""
        body = _lines(types)
        self._room = max(LEAST_ROOM, len(body))
        if not body:
            self._path.unlink(missing_ok=True)
            return
        part = self._path.with_suffix(".part")
        with open(os.open(part, _FLAGS | os.O_TRUNC, 0o600), "wb") as file:
            file.write(body)
        os.replace(part, self._path)

    def remove(self) -> None:
        """Remove the file, and one that was set aside. Raises OSError."""
        self._path.unlink(missing_ok=True)
        self._broken.unlink(missing_ok=True)

    @property
    def _broken(self) -> Path:
        return self._path.with_name(TYPE_FILE + BROKEN)

    def _set_aside(self, why: str) -> None:
        log.warning("the learned types of results are unreadable, and set aside as %s: %s", self._broken, why)
        try:
            os.replace(self._path, self._broken)
        except OSError as error:
            log.warning("%s cannot be renamed: %s", self._path, error)


def _lines(types: Iterable[LearnedType]) -> bytes:
    return b"".join(line for each in types if (line := each.line()) is not None)
