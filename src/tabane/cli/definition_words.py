"""Words about definitions that have to be reviewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabane.messages import Message, say

KIND_WORDS: Mapping[str, Message] = {
    "tool": say("tool"),
    "prompt": say("prompt"),
    "resource": say("resource"),
    "template": say("resource template"),
    "skill": say("skill"),
    "instructions": say("instructions"),
}

CHANGE_WORDS: Mapping[str, Message] = {
    "added": say("new"),
    "changed": say("changed"),
    "suspicious": say("suspicious"),
    "rejected": say("rejected"),
}


def definition_remark(row: Mapping[str, Any]) -> Message | None:
    """Return what waits at a server, in a few words and with the command; None if nothing does."""
    found = row.get("definition_changes") or {}
    waiting, held = found.get("waiting", 0), found.get("held", 0)
    if held and found.get("suspicious"):
        return say(
            "{held} {held:definition looks|definitions look} like an attack and {held:is|are} held back. "
            "See: tabane servers diff {name!c}",
            held=held,
            name=row["name"],
        )
    if held:
        return say(
            "{held} {held:definition is|definitions are} held back. See: tabane servers diff {name!c}",
            held=held,
            name=row["name"],
        )
    if waiting:
        return say(
            "{waiting} {waiting:definition has|definitions have} to be reviewed. See: tabane servers diff "
            "{name!c}",
            waiting=waiting,
            name=row["name"],
        )
    return None
