"""The recorded targets of the paths of sandboxes.

A server may put a link where one of its paths is: in a folder that it, or another server, can change. So a
hub records where each path leads when it first reads it from the servers file, and a server whose path leads
elsewhere later is not started. The record of a server is a JSON object of paths as written and real ones.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from tabane.guard.cages.cage import CageUnavailable
from tabane.messages import Message, say
from tabane.settings.files import write_private

MOST = 2_000
"""Paths of one server. A server that runs in the folders of its clients has some for each folder."""

log = logging.getLogger(__name__)


class PinnedPaths:
    """The records of a hub's servers, a file each. Everything here blocks, and may be used by threads."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[str, str]] = {}
        self._lock = threading.Lock()

    def pin(self, file: Path, paths: Iterable[str]) -> None:
        """Record where new paths of a server lead. The oldest are forgotten if there are too many."""
        with self._lock:
            before = self._read(file)
            after = before | {path: os.path.realpath(path) for path in paths if path not in before}
            after = dict(list(after.items())[-MOST:])
            self._known[file] = after
            if after == before:
                return
            try:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(file, json.dumps(after).encode())
            except OSError as error:
                log.warning("%s: where the paths of a sandbox lead cannot be recorded: %s", file, error)

    def problem(self, name: str, file: Path, paths: Iterable[str]) -> Message | None:
        """Return the sentence about a path that leads elsewhere than recorded; None if there is none."""
        with self._lock:
            pinned = self._read(file)
        for path in paths:
            before, now = pinned.get(path), os.path.realpath(path)
            if before is not None and before != now:
                return say(
                    "In the sandbox of {name!n}, {path} led to {before} when you wrote it, and now leads to "
                    "{now}: a link was put there. The server is not started. If you did that, run: "
                    "tabane servers sandbox {name!c} --accept-links",
                    name=name,
                    path=path,
                    before=before,
                    now=now,
                )
        return None

    def require(self, name: str, file: Path, paths: Iterable[str]) -> None:
        """Record new paths. Raises CageUnavailable if a path leads elsewhere than recorded."""
        paths = list(paths)
        self.pin(file, paths)
        if (problem := self.problem(name, file, paths)) is not None:
            raise CageUnavailable(problem)

    def _read(self, file: Path) -> dict[str, str]:
        """Return the record: the file's, because a person may have removed it to accept links."""
        try:
            found = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            return self._known.get(file, {})
        return {str(path): str(real) for path, real in found.items()} if isinstance(found, dict) else {}
