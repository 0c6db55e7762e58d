"""What became of the files that were added."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tabane.messages import Lang, Message

MOST_PROBLEMS = 200
"""Files that could not be used and are named; the others are counted."""


class FileProblem(NamedTuple):
    """A file that could not be used, and why."""

    path: str
    reason: Message


@dataclass(slots=True)
class FilesReport:
    """Counts of files by what became of them. ``older`` were not looked at for their age."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    older: int = 0
    bad: int = 0
    problems: list[FileProblem] = field(default_factory=list)
    warning: Message | None = None
    began: float = field(default_factory=time.monotonic)

    def refuse(self, path: str, reason: Message) -> None:
        self.bad += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(FileProblem(path, reason))

    def plain(self, lang: Lang) -> dict[str, Any]:
        """As JSON has it. ``bad`` files could not be used; ``problems`` says why of the first of them."""
        return {
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "removed": self.removed,
            "older": self.older,
            "bad": self.bad,
            "problems": [
                {"path": printable(path), "reason": reason.render(lang)} for path, reason in self.problems
            ],
            "warning": self.warning.render(lang) if self.warning else None,
            "seconds": round(time.monotonic() - self.began, 3),
        }


def printable(path: str) -> str:
    """A path that can be written as UTF-8, whatever bytes it is made of."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
