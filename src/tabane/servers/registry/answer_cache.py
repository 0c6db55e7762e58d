"""Answers of a registry, kept in files for some minutes, and longer for when it cannot be reached."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.settings.files import private_folder, read_private, write_private

FRESH = 600.0
"""Seconds for which an answer is used without asking again."""

OLDEST = 30 * 86_400.0
"""Seconds after which an answer is of no use, even if the registry cannot be reached."""

MOST_FILES = 64
LARGEST = 8 << 20
"""Bytes of all kept answers together."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer, its age in seconds, and the ETag with which the registry is asked whether it changed."""

    body: bytes
    age: float
    etag: str = ""

    @property
    def is_fresh(self) -> bool:
        return self.age < FRESH


class AnswerCache:
    """Keeps answers by their URL. Blocks. Failures of the disk only mean that nothing is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, url: str) -> KeptAnswer | None:
        """Return the kept answer; None if there is none, or it is too old or damaged."""
        try:
            head, _, body = read_private(self._path(url), LARGEST).partition(b"\n")
            kept = json.loads(head)
            age = max(0.0, time.time() - float(kept["at"]))
            if kept["url"] != url or age > OLDEST:
                return None
            return KeptAnswer(body, age, str(kept.get("etag") or ""))
        except (OSError, ConfigurationError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, url: str, body: bytes, etag: str = "") -> None:
        """Keep an answer, and remove the oldest if there are too many."""
        head = json.dumps({"url": url, "at": time.time(), "etag": etag}).encode()
        with contextlib.suppress(OSError, ConfigurationError):
            private_folder(self._folder)
            write_private(self._path(url), head + b"\n" + body)
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        found = []
        with os.scandir(self._folder) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, file.path))
        size = 0
        for number, (_, length, path) in enumerate(sorted(found, reverse=True)):
            size += length
            if number >= MOST_FILES or size > LARGEST:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
