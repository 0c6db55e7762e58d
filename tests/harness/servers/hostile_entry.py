"""A misbehavior: its name, how a call of the server ends, and what the hub shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Ends = Literal["result", "failure", "either"]


@dataclass(frozen=True)
class Entry:
    """One misbehavior.

    ``moment`` is when it misbehaves: start, initialize, list, call and others.
    ``ends`` is how a call of the tool `hit` ends: with the text of the tool, or with an error or a result
    that is marked as one, or either. ``shown`` says that status names a problem or skipped lines.
    ``calls`` are sent at once. ``through`` calls it through call_tool, where arguments are checked.
    ``timeout`` is that of the server in seconds.
    """

    name: str
    moment: str
    ends: Ends = "either"
    shown: bool = False
    calls: int = 1
    through: bool = False
    timeout: float = 60.0
    arguments: dict[str, Any] = field(default_factory=dict)
    bulk: int = 0
    """Characters of an argument that is sent with each call."""
