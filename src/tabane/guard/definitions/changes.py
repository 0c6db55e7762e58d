"""Definitions that wait for a person, as values and rows, and the error about those that are held back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from tabane.errors import Forbidden
from tabane.guard.definitions.definition import DefinitionKey, Kind
from tabane.guard.definitions.pins import Pin, PinState
from tabane.messages import Lang, Message, say

KIND_NAMES = {
    "tool": say("tool"),
    "prompt": say("prompt"),
    "resource": say("resource"),
    "template": say("resource template"),
    "skill": say("skill"),
    "instructions": say("instructions"),
}


class DefinitionChange(Struct, frozen=True):
    """A definition that was not accepted. ``held``: it is not offered. ``current``: the server lists it now.

    ``before`` is the digest that is trusted; None for a new definition.
    """

    server: str
    key: DefinitionKey
    pin: Pin
    held: bool
    current: bool
    before: bytes | None

    @property
    def why(self) -> str:
        """Return the reason in one word: added, changed, suspicious or rejected."""
        if self.pin.state is PinState.REJECTED:
            return "rejected"
        return "suspicious" if self.pin.is_trusted else self.pin.why

    def row(self, lang: Lang) -> dict[str, Any]:
        """Return it for people and programs."""
        return {
            "server": self.server,
            "kind": self.key.kind,
            "name": self.key.name,
            "change": self.why,
            "digest": self.pin.digest.hex(),
            "accepted_digest": self.before.hex() if self.before else None,
            "held": self.held,
            "current": self.current,
            "seen": datetime.fromtimestamp(self.pin.seen, UTC).isoformat(timespec="seconds"),
            "findings": [finding.row(lang) for finding in self.pin.findings or ()],
        }


class DefinitionHeld(Forbidden):
    """A definition is held back until a person accepts it."""

    def __init__(self, server: str, kind: Kind, name: str, why: str) -> None:
        super().__init__(_held(server, kind, name, why))
        self.server = server


_REASONS: Mapping[str, Message] = {
    "added": say("it is new, and nobody has accepted it yet."),
    "changed": say("its definition has changed, and nobody has accepted the change yet."),
    "suspicious": say("its definition looks like an attack."),
    "rejected": say("its definition was rejected."),
}


def _held(server: str, kind: Kind, name: str, why: str) -> Message:
    return say(
        "The {kind} {name} of {server!n} is held back: {why} The user can look at it with: tabane servers "
        "diff {server!c} {name!c}. To use it: tabane servers accept {server!c} {name!c}",
        kind=KIND_NAMES[kind],
        name=name,
        server=server,
        why=_REASONS[why],
    )
