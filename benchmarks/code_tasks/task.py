"""A task: a sentence, the calls that do it one by one, a script that does it, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.code_tasks.world import World
from benchmarks.code_tasks.world_hub import WorldHub


class DirectCalls(Protocol):
    """Calls tools one by one, as a model does in mode search."""

    def __call__(self, name: str, /, **arguments: Any) -> str:
        """Return the whole text of a result. Raises TaskFailed if the tool fails."""
        ...


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _unchanged(hub: WorldHub) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class CodeTask:
    """``direct`` makes the calls, and takes values from earlier results as a model reads them.

    ``scripts`` do the same; the result of the last one is the outcome. ``searches`` are what a model looks
    for first, and ``answer`` how it reads what the last script returned. ``outcome``
    computes from the data alone what must come out, and ``changed`` tells whether the task has changed what
    it should. In arguments and scripts, ``/NOTES``, ``/REPOSITORY`` and
    ``http://SITE`` stand for the places of the world.
    """

    id: str
    prompt: str
    servers: Sequence[str]
    searches: Sequence[str]
    direct: Callable[[DirectCalls], Any]
    scripts: Sequence[str]
    outcome: Callable[[World], Any]
    changed: Callable[[WorldHub], bool] = field(default=_unchanged)
    answer: Callable[[str], Any] = field(default=_value)

    @property
    def lang(self) -> str:
        return "ja" if any(ord(each) > 0x3000 for each in self.prompt) else "en"
