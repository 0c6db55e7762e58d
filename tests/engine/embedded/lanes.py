"""What a process that is going to be killed writes: lanes of operations that anybody can work out again.

A lane has keys of its own and does one operation after the other, so that what is found afterwards
says how far it came. Several lanes at once make commits that hold several of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tabane.search.records import Record
from tests.engine.embedded.model import Model
from tests.engine.embedded.shapes import SHAPE

LANES = 3
_KEYS = 300
_PART = 100  # records that go in whole


@dataclass(frozen=True)
class Operation:
    """Records to be put, or keys to be deleted."""

    records: tuple[Record, ...] = ()
    keys: tuple[str, ...] = ()


def operations(seed: int, lane: int) -> Iterator[Operation]:
    """The lane's operations, without end, the same for the same seed: mostly small, some of many parts."""
    chance = random.Random(seed * LANES + lane)
    while True:
        count = chance.choice([1, 1, 1, 2, 5, 40, 450])
        numbers = [chance.randrange(_KEYS) for _ in range(count)]
        if chance.random() < 0.25:
            yield Operation(keys=tuple(dict.fromkeys(f"{lane}-{number}" for number in numbers)))
        else:
            yield Operation(records=tuple(_record(chance, lane, number) for number in numbers))


def _record(chance: random.Random, lane: int, number: int) -> Record:
    return Record(
        key=f"{lane}-{number}",
        texts={"body": f"東京 note {chance.randrange(1000)} " * chance.choice([1, 1, 30])},
        fields={
            "author": f"author {chance.randrange(40)}",
            "likes": chance.randrange(100),
            "tags": tuple(f"tag {chance.randrange(9)}" for _ in range(chance.randrange(3))),
        },
        payload=b'{"by": "%d"}' % chance.randrange(10**6),
    )


def outcomes(model: Model, operation: Operation) -> list[Model]:
    """What the lane may hold when the process died in the operation: before it, and after each part.

    Of more records than go in whole, any number of the first ones may be there.
    """
    found = [model]
    records = 1 if len(operation.records) > _PART else _PART
    for first in range(0, len(operation.records), records):
        found.append(found[-1] | {each.key: each for each in operation.records[first : first + records]})
    for first in range(0, len(operation.keys), _PART):
        part = dict(found[-1])
        for key in operation.keys[first : first + _PART]:
            part.pop(key, None)
        found.append(part)
    return found


def after(model: Model, operation: Operation) -> Model:
    return outcomes(model, operation)[-1]


__all__ = ["LANES", "SHAPE", "Operation", "after", "operations", "outcomes"]
