"""JSON files that a user gives: read, with errors that name the file and the place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from tabane.errors import CallerError
from tabane.messages import Message, say

Kind = TypeVar("Kind")

MOST_BYTES = 64 << 20
"""Limit of a file."""

_KINDS: Mapping[type, Message] = {
    str: say("a string"),
    list: say("an array"),
    dict: say("an object"),
}


class DataFileError(CallerError):
    """A file of a benchmark is missing or wrong. The message names the file and the place in it."""


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises DataFileError."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise wrong(file, say("it is larger than {count} {count:byte|bytes}", count=MOST_BYTES))
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise wrong(file, say("{reason}", reason=error.strerror or str(error))) from None
    except (ValueError, RecursionError) as error:
        raise wrong(file, say("it is not JSON: {reason}", reason=str(error))) from None
    if not isinstance(found, dict):
        raise wrong(file, say("it is not a JSON object"))
    return found


def wrong(file: Path, reason: Message) -> DataFileError:
    """Return the error for a file."""
    return DataFileError(say("{file}: {reason}", file=str(file), reason=reason))


class Entry:
    """An object in a file, with its place, such as ``tools[3]``. Members are checked when they are read."""

    def __init__(self, file: Path, place: str, value: Any) -> None:
        self.file, self.place = file, place
        if not isinstance(value, dict):
            raise self.error(say("{place} must be an object", place=place))
        self.value: dict[str, Any] = value

    def get(self, key: str, kind: type[Kind], default: Kind | None = None) -> Kind:
        """Return a member of that type. Raises DataFileError if it is missing or has another type."""
        found = self.value.get(key, default)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            wanted = _KINDS.get(kind, kind.__name__)
            raise self.error(say("{place}.{key} must be {kind}", place=self.place, key=key, kind=wanted))
        return found

    def text(self, key: str) -> str:
        """Return a string that is not empty."""
        found = self.get(key, str)
        if not found.strip():
            raise self.error(say("{place}.{key} must not be empty", place=self.place, key=key))
        return found

    def entries(self, key: str, *, least: int = 1) -> list[Entry]:
        """Return the objects of an array with at least that many."""
        found = self.get(key, list)
        if len(found) < least:
            raise self.error(say("{place}.{key} must not be empty", place=self.place, key=key))
        return [Entry(self.file, f"{self.place}.{key}[{n}]", value) for n, value in enumerate(found)]

    def strings(self, key: str, *, least: int = 1) -> list[str]:
        """Return the strings of an array with at least that many."""
        found: list[Any] = self.get(key, list)
        if len(found) < least or not all(isinstance(each, str) for each in found):
            raise self.error(say("{place}.{key} must be an array of strings", place=self.place, key=key))
        return found

    def error(self, reason: Message) -> DataFileError:
        return wrong(self.file, reason)
