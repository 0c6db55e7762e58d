"""The steps that give a replica the embedding spaces of the truth, and where it stands if a step was cut off.

Spaces are known by their numbers in the truth, since names move: a new space takes the name of the one before
it. In the replica they have only names. So each step is noted before it is done. A process that starts again
finds out from the names whether it was done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec


class SpaceStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add, rename or drop one space. ``name``: the one it has afterwards, or had before it was dropped."""

    kind: Literal["add", "rename", "drop"]
    number: int
    name: str
    old: str = ""


def next_step(held: Mapping[int, str], wanted: Mapping[int, str]) -> SpaceStep | None:
    """Return what to do next so that ``held`` becomes ``wanted`` (number → name); None if nothing is left.

    No step overwrites a space: one that is gone is dropped before its name is taken. Where spaces exchange
    their names, one gets another name first.
    """
    for number in sorted(held.keys() - wanted.keys()):
        return SpaceStep(kind="drop", number=number, name=held[number])
    moving = sorted(number for number in held if held[number] != wanted[number])
    taken = set(held.values())
    for number in moving:
        if wanted[number] not in taken:
            return SpaceStep(kind="rename", number=number, name=wanted[number], old=held[number])
    if moving:
        number, free = moving[0], _free_name(taken | set(wanted.values()))
        return SpaceStep(kind="rename", number=number, name=free, old=held[number])
    for number in sorted(wanted.keys() - held.keys()):
        return SpaceStep(kind="add", number=number, name=wanted[number])
    return None


def after_step(held: Mapping[int, str], step: SpaceStep) -> dict[int, str]:
    """Return number → name after the step."""
    rest = {number: name for number, name in held.items() if number != step.number}
    return rest if step.kind == "drop" else {**rest, step.number: step.name}


def reached(held: Mapping[int, str], step: SpaceStep, names: Collection[str]) -> dict[int, str]:
    """Return number → name as it is, if the step was noted but perhaps not done. ``names``: what is there."""
    done = {
        "add": step.name in names,
        "drop": step.name not in names,
        "rename": step.old not in names,
    }
    return after_step(held, step) if done[step.kind] else dict(held)


def _free_name(taken: Collection[str]) -> str:
    return next(name for number in range(len(taken) + 1) if (name := f"moving{number}") not in taken)
