"""Earlier decisions about the calls of each tool: how many, when, and hashes of approved arguments.

The file ``approval-decisions.json`` in the home, mode 0600, has no argument in it: of each field of the call
that was approved last, only a hash. Values are short, and could be guessed, so the hash needs a key: that of
the tool's entry, which is new with each approved call, so that equal values of two calls or tools have other
hashes. Values that a person is not shown, because they look secret, have none. The file is read when a person
first looks, and written with each decision.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tabane.errors import ConfigurationError
from tabane.guard.approvals.approvals import Approval
from tabane.settings.files import read_private, write_private
from tabane.text.secret_values import HIDDEN

log = logging.getLogger(__name__)

DECISION_FILE = "approval-decisions.json"
LARGEST = 16 << 20
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

    ``fields`` are hashes of the values of the call that was approved last, by the path of the field, and
    ``key`` is what they need. Without a key, that call cannot be compared with another one.
    """

    approved: int = 0
    refused: int = 0
    last: float = 0.0
    last_approved: float = 0.0
    fields: dict[str, str] = {}
    key: str = ""


NONE = ToolDecisions()


class PastDecisions:
    """Decisions by tool. :meth:`load` and :meth:`write` block."""

    def __init__(self, home: Path) -> None:
        self._path = home / DECISION_FILE
        self._by_tool: dict[str, ToolDecisions] | None = None
        self._loading = threading.Lock()

    def load(self) -> dict[str, ToolDecisions]:
        """Return all decisions. A file that cannot be read counts as none."""
        with self._loading:
            if self._by_tool is None:
                self._by_tool = self._read()
            return self._by_tool

    def _read(self) -> dict[str, ToolDecisions]:
        try:
            return msgspec.json.decode(read_private(self._path, LARGEST), type=dict[str, ToolDecisions])
        except FileNotFoundError:
            return {}
        except (ConfigurationError, ValueError) as error:  # damaged, also within a character
            log.warning("the decisions about earlier calls cannot be read: %s", error)
            return {}

    def of(self, tool: str) -> ToolDecisions:
        """Return the decisions about a tool."""
        return self.load().get(tool, NONE)

    def note(self, decided: Approval, now: float) -> None:
        """Count a decision; ``now`` is in seconds since 1970."""
        known = self.load()
        before = known.pop(decided.binding.tool, NONE)
        if decided.state == "approved":
            key = os.urandom(16)
            fields = field_hashes(decided.arguments, key)
            after = ToolDecisions(
                before.approved + 1,
                before.refused,
                now,
                now,
                fields or {},
                "" if fields is None else key.hex(),
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


def field_hashes(arguments: str, key: bytes) -> dict[str, str] | None:
    """Return a hash of the value of each field of arguments.

    None if some of them would be left out: they are no JSON object or only its beginning, have a field twice
    or too many fields, or a value that is not shown.
    """
    try:
        value = json.loads(arguments or "{}", object_pairs_hook=_once)
        if not isinstance(value, dict):
            return None
        found: dict[str, str] = {}
        for path, leaf in _leaves(value, "", MOST_DEPTH):
            written = json.dumps(leaf, sort_keys=True)
            if path in found or len(found) >= MOST_FIELDS or HIDDEN in written:
                return None
            found[path] = hashlib.blake2b(written.encode(), digest_size=8, key=key).hexdigest()
    except (ValueError, RecursionError):
        return None
    return found


def changed_fields(before: ToolDecisions, arguments: str) -> list[str] | None:
    """Return the paths of fields that are new, gone, or have another value than at the approved call.

    None if the calls cannot be compared as a whole.
    """
    try:
        key = bytes.fromhex(before.key)
    except ValueError:  # damaged
        return None
    now = field_hashes(arguments, key[:64]) if key else None
    if now is None:
        return None
    return [path for path in {**now, **before.fields} if now.get(path) != before.fields.get(path)]


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises ValueError if a name is given twice."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a field is given twice")
    return found


def _leaves(value: dict[str, Any], start: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        path = f"{start}{name}"[:LONGEST_FIELD]
        if isinstance(part, dict) and part and depth > 1:
            yield from _leaves(part, f"{path}.", depth - 1)
        else:
            yield path, part
