"""How far a replica is, in a small file beside it. It is written after the records that it counts.

If the process dies in between, the same changes are applied once more, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from tabane.engine.replica_spaces import SpaceStep
from tabane.errors import ConfigurationError
from tabane.settings.files import read_private, write_private


class ReplicaMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """``source``: which collection of which database this is a copy of.

    ``name``, ``token``: what the replica is for the truth, and what it holds. ``complete``: the first copy is
    done. ``spaces``: number → name. ``step``: what was about to be done with one of them.
    """

    source: str
    name: str
    token: str
    complete: bool = False
    spaces: Mapping[int, str] = {}
    step: SpaceStep | None = None


class ReplicaMarkFile:
    """The file of one replica."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, source: str) -> ReplicaMark | None:
        """Return the mark; None if there is none, or that of another source."""
        try:
            found = msgspec.json.decode(read_private(self._path), type=ReplicaMark)
        except (OSError, msgspec.MsgspecError, ConfigurationError):
            return None
        return found if found.source == source else None

    def write(self, mark: ReplicaMark) -> None:
        write_private(self._path, msgspec.json.encode(mark))

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
