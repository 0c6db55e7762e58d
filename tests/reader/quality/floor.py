"""The floor under the quality of reading: what it is, what it was, and why it was ever lowered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "floor.json"
_STEP = 1000  # floors are in thousandths


class Step(msgspec.Struct, frozen=True):
    """F1 and structure kept, means over the pages of a corpus; ``reason``: why it is a step down."""

    corpus: str
    f1: float
    structure: float
    reason: str = ""

    def takes_back(self, before: Step) -> bool:
        return self.corpus != before.corpus or self.f1 < before.f1 or self.structure < before.structure


def read(path: Path = FILE) -> list[Step]:
    return msgspec.json.decode(path.read_bytes(), type=list[Step])


def write(steps: Sequence[Step], path: Path = FILE) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(steps), indent=1) + b"\n")


def faults(steps: Sequence[Step]) -> Iterator[str]:
    """What is wrong with a history: steps down that nobody gave a reason for."""
    for number, (before, step) in enumerate(pairwise(steps), 2):
        if step.takes_back(before) and not step.reason.strip():
            yield f"step {number} of floor.json is lower than the one before and says no reason"


def raised(steps: Sequence[Step], step: Step) -> list[Step]:
    """The history with a step up, if it is one. Raises ValueError for one that takes anything back."""
    if steps and step.takes_back(steps[-1]):
        raise ValueError("this is lower than the floor: python -m tests.reader.quality --lower REASON")
    level = steps and not steps[-1].takes_back(step)
    return [*steps] if level else [*steps, step]


def lowered(steps: Sequence[Step], step: Step, reason: str) -> list[Step]:
    """The history with a step that may go down. Raises ValueError where no reason is given."""
    if not reason.strip():
        raise ValueError("say why the floor has to be lower")
    return [*steps, msgspec.structs.replace(step, reason=reason)]


def floored(quality: float) -> float:
    """A floor that the quality just measured keeps."""
    return math.floor(quality * _STEP) / _STEP
