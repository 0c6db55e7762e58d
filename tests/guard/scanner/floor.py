"""The floor under the scanner's quality: what it is, what it was, and why it was ever lowered.

``floor.json`` is a history, newest last. Each step names its collections by digest, so that making them
easier is a step too. A step that takes back anything says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
from benchmarks.scanning.quality import ATTACKS, COLLECTIONS, HELD_OUT, HONEST, REAL, share

FILE = Path(__file__).parent / "floor.json"


class Step(msgspec.Struct, frozen=True):
    """Shares in thousandths: attacks that are found at least, honest definitions that are at most."""

    collections: str
    held_out: int
    attacks: int
    real: int
    honest: int
    reason: str = ""

    def takes_back(self, before: Step) -> bool:
        return (
            self.collections != before.collections
            or self.held_out < before.held_out
            or self.attacks < before.attacks
            or self.real > before.real
            or self.honest > before.honest
        )


def read() -> list[Step]:
    return msgspec.json.decode(FILE.read_bytes(), type=list[Step])


def faults(steps: list[Step]) -> Iterator[str]:
    """What is wrong with a history: steps down that nobody gave a reason for."""
    for number, (before, step) in enumerate(pairwise(steps), 2):
        if step.takes_back(before) and not step.reason.strip():
            yield f"step {number} of floor.json is lower than the one before and gives no reason"


def reached() -> Step:
    """What is reached now."""
    return Step(
        digest(),
        int(share(HELD_OUT) * 1000),
        int(share(ATTACKS) * 1000),
        -int(-share(REAL) * 1000 // 1),
        -int(-share(HONEST) * 1000 // 1),
    )


def digest() -> str:
    """The collections in sixteen digits."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in COLLECTIONS)).hexdigest()[:16]


def add(step: Step) -> None:
    """Write a further step."""
    steps = [*read(), step] if FILE.exists() else [step]
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(steps), indent=1) + b"\n")
