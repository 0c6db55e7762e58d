"""What people decided about calls of a tool before: how often, when, and what their arguments were like.

The file ``approval-decisions.json`` in the home, mode 0600, has no argument in it: of each field of the call
that was approved last, only a hash. It is read when a person first looks, and written with each decision.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tabane.errors import ConfigurationError
from tabane.guard.approvals.approvals import Approval
from tabane.settings.files import read_private, write_private
from tabane.wire.json import InvalidJson, decode

log = logging.getLogger(__name__)

DECISION_FILE = "approval-decisions.json"
LARGEST = 4 << 20
"""Bytes of the file that are read."""

MOST_TOOLS = 256
"""Tools of which decisions are kept. The one decided about longest ago makes room."""

MOST_FIELDS = 64
"""Fields of a call that are compared with the next one."""

MOST_DEPTH = 4
LONGEST_FIELD = 200
"""Characters of a field's name."""


class ToolDecisions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Decisions about one tool. ``last`` and ``last_approved`` are seconds since 1970; 0: never.

    ``fields`` are hashes of the values of the call that was approved last, by the path of the field.
    """

    approved: int = 0
    refused: int = 0
    last: float = 0.0
    last_approved: float = 0.0
    fields: dict[str, str] = {}


NONE = ToolDecisions()


class PastDecisions:
    """Decisions by tool. :meth:`load` and :meth:`write` block."""

    def __init__(self, home: Path) -> None:
        self._path = home / DECISION_FILE
        self._by_tool: dict[str, ToolDecisions] | None = None

    @property
    def loaded(self) -> bool:
        return self._by_tool is not None

    def load(self) -> dict[str, ToolDecisions]:
        """Return all decisions. A file that cannot be read counts as none."""
        if self._by_tool is None:
            try:
                found = msgspec.json.decode(read_private(self._path, LARGEST), type=dict[str, ToolDecisions])
            except FileNotFoundError:
                found = {}
            except (ConfigurationError, msgspec.DecodeError) as error:
                log.warning("the decisions about earlier calls cannot be read: %s", error)
                found = {}
            self._by_tool = found
        return self._by_tool

    def of(self, tool: str) -> ToolDecisions:
        """Return the decisions about a tool."""
        return self.load().get(tool, NONE)

    def note(self, decided: Approval) -> None:
        """Count a decision."""
        known = self.load()
        before = known.pop(decided.binding.tool, NONE)
        now = decided.expires
        if decided.state == "approved":
            after = ToolDecisions(
                before.approved + 1, before.refused, now, now, field_hashes(decided.arguments)
            )
        else:
            after = msgspec.structs.replace(before, refused=before.refused + 1, last=now)
        known[decided.binding.tool] = after
        if len(known) > MOST_TOOLS:
            del known[next(iter(known))]

    def write(self) -> None:
        """Replace the file. A failure is logged: nothing depends on it."""
        try:
            write_private(self._path, msgspec.json.encode(self.load()))
        except OSError as error:
            log.warning("the decisions about calls cannot be written: %s", error)


def field_hashes(arguments: str) -> dict[str, str]:
    """Return a hash of the value of each field of arguments; none if they are no JSON object."""
    try:
        value = decode(arguments.encode())
    except (InvalidJson, UnicodeEncodeError):
        return {}
    if not isinstance(value, dict):
        return {}
    found: dict[str, str] = {}
    for path, leaf in _leaves(value, "", MOST_DEPTH):
        if len(found) >= MOST_FIELDS:
            break
        written = msgspec.json.encode(leaf, order="sorted")
        found[path] = hashlib.blake2b(written, digest_size=8).hexdigest()
    return found


def changed_fields(before: dict[str, str], arguments: str) -> list[str]:
    """Return the paths of fields that are new, gone, or have another value than at the approved call."""
    now = field_hashes(arguments)
    return [path for path in {**now, **before} if now.get(path) != before.get(path)]


def _leaves(value: dict[str, Any], start: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        path = f"{start}{name}"[:LONGEST_FIELD]
        if isinstance(part, dict) and part and depth > 1:
            yield from _leaves(part, f"{path}.", depth - 1)
        else:
            yield path, part
