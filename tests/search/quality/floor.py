"""The floor under search quality: what it is, what it was, and why it was ever lowered.

``floor.json`` is a history, newest last. Each step names its corpus by digest, so that making the questions
easier is a step too. A step that takes back anything says why.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "corpus.json"
FILE = FOLDER / "floor.json"
_STEP = 1000  # floors are in thousandths


class Step(msgspec.Struct, frozen=True):
    """nDCG@10 of lexical search alone and with the words of ``[ja]``; ``reason``: why it is a step down."""

    corpus: str
    lexical: float
    words: float
    reason: str = ""

    def takes_back(self, before: Step) -> bool:
        return self.corpus != before.corpus or self.lexical < before.lexical or self.words < before.words


def read(path: Path = FILE) -> list[Step]:
    return msgspec.json.decode(path.read_bytes(), type=list[Step])


def write(steps: list[Step], path: Path = FILE) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(steps), indent=1) + b"\n")


def faults(steps: list[Step]) -> Iterator[str]:
    """What is wrong with a history: steps down that nobody gave a reason for."""
    for number, (before, step) in enumerate(pairwise(steps), 2):
        if step.takes_back(before) and not step.reason.strip():
            yield f"step {number} of floor.json is lower than the one before and says no reason"


def raised(steps: list[Step], step: Step) -> list[Step]:
    """The history with a step up, if it is one. Raises ValueError for one that takes anything back."""
    if steps and step.takes_back(steps[-1]):
        raise ValueError("this is lower than the floor: python -m tests.search.quality --lower REASON")
    level = steps and not steps[-1].takes_back(step)
    return steps if level else [*steps, step]


def lowered(steps: list[Step], step: Step, reason: str) -> list[Step]:
    """The history with a step that may go down. Raises ValueError where no reason is given."""
    if not reason.strip():
        raise ValueError("say why the floor has to be lower")
    return [*steps, msgspec.structs.replace(step, reason=reason)]


def floored(quality: float) -> float:
    """A floor that the quality just measured keeps."""
    return math.floor(quality * _STEP) / _STEP


def digest(path: Path = CORPUS) -> str:
    """The corpus in sixteen digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
