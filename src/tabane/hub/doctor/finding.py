"""What a check found: how grave it is, what to do about it, and whether that can be done at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tabane.messages import Message

Level = Literal["ok", "note", "warning", "fault"]
"""``ok`` is in order, ``note`` good to know, ``warning`` will hurt some day, ``fault`` does not work now."""

Fix = Callable[[], None]
"""Mends what was found, without a loss to the user. May raise OSError."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One sentence of a check-up. ``mend`` says what the user can do, ``fix`` does it where that is safe."""

    level: Level
    title: Message
    mend: Message | None = None
    fix: Fix | None = None


def ok(title: Message) -> DoctorFinding:
    return DoctorFinding("ok", title)


def note(title: Message, mend: Message | None = None, fix: Fix | None = None) -> DoctorFinding:
    return DoctorFinding("note", title, mend, fix)


def warning(title: Message, mend: Message | None = None, fix: Fix | None = None) -> DoctorFinding:
    return DoctorFinding("warning", title, mend, fix)


def fault(title: Message, mend: Message | None = None, fix: Fix | None = None) -> DoctorFinding:
    return DoctorFinding("fault", title, mend, fix)
