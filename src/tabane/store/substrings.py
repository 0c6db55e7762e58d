"""Substrings where no index has them: the texts are read, those that lie together in one go."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tabane.search.analysis import normalise
from tabane.search.filters import Contains, contains
from tabane.store.columns import ColumnSnapshot, Mask, Slots
from tabane.store.read_thread import give_way
from tabane.store.truth import Truth


@dataclass(frozen=True, slots=True)
class SubstringCondition:
    """What a record's texts contain: all of ``includes`` and none of ``excludes``."""

    includes: tuple[Contains, ...] = ()
    excludes: tuple[Contains, ...] = ()


_LOOKED_AT = 32  # records between two pauses for others
_GAP = 8  # slots that are sooner read than left out


def slots_containing(
    truth: Truth,
    connection: sqlite3.Connection,
    snapshot: ColumnSnapshot,
    wanted: SubstringCondition,
    within: Mask,
) -> list[int]:
    """The slots among ``within`` whose texts contain what is wanted."""
    includes = [(each, normalise(each.text)) for each in wanted.includes]
    excludes = [(each, normalise(each.text)) for each in wanted.excludes]
    found = []
    for first, last in _stretches(np.flatnonzero(within)):
        rows = truth.texts_between(connection, first + snapshot.origin, last + snapshot.origin)
        for number, (row, texts) in enumerate(rows):
            if not number % _LOOKED_AT:
                give_way(connection)
            if all(_held(texts, *each) for each in includes) and not any(
                _held(texts, *each) for each in excludes
            ):
                found.append(row - snapshot.origin)
    return found


def _held(texts: Mapping[str, str], condition: Contains, needle: str) -> bool:
    names = texts if condition.fields is None else condition.fields
    return contains((texts.get(name, "") for name in names), needle)


def _stretches(slots: Slots) -> list[tuple[int, int]]:
    """Slots in stretches with small gaps, as first and last."""
    if not len(slots):
        return []
    breaks = np.flatnonzero(np.diff(slots) > _GAP)
    firsts = slots[np.concatenate([[0], breaks + 1])]
    lasts = slots[np.concatenate([breaks, [len(slots) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
