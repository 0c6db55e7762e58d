"""Slots by the code of a string: finds the few records that have some strings, without a look at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabane.engine.embedded.columns import Array, ColumnSnapshot, Slots

LOOKED_THROUGH = 16_384
"""Slots that are looked through sooner than sorted."""

_SHARE = 8  # if more than an eighth of the sorted slots are new, all are sorted again


@dataclass(frozen=True, slots=True)
class _SortedSlots:
    """The first slots of a column, in order of their codes. They are valid for arrays of this origin."""

    origin: int
    slots: Array
    codes: Array


class CodeIndexes:
    """Indexes of columns with one code a slot, each made when it is first used. Any thread may use it.

    The code of a slot never changes. So an index holds from one write to the next, and newer slots are looked
    through. It takes 8 bytes a record.
    """

    def __init__(self) -> None:
        self._sorted: dict[str, _SortedSlots] = {}

    def slots(self, snapshot: ColumnSnapshot, field: str, codes: Array) -> Slots:
        """Return the slots, live or not, in order, that have one of the ``codes``, which are in order."""
        values = snapshot.columns[field].values
        known = self._sorted.get(field)
        if known is None or known.origin != snapshot.origin:
            known = _SortedSlots(snapshot.origin, values[:0], values[:0])
        if len(values) - len(known.slots) > max(LOOKED_THROUGH, len(known.slots) // _SHARE):
            known = self._sorted[field] = _sorted(snapshot.origin, values)
        lows = np.searchsorted(known.codes, codes, "left")
        highs = np.searchsorted(known.codes, codes, "right")
        inside = [known.slots[low:high] for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        newer = np.flatnonzero(_among(values[len(known.slots) :], codes)) + len(known.slots)
        found = np.sort(np.concatenate([*inside, newer]).astype(np.int64))
        return found[found < len(values)]  # an older snapshot has fewer slots than the index


def _sorted(origin: int, values: Array) -> _SortedSlots:
    slots = np.argsort(values)
    return _SortedSlots(origin, slots.astype(np.uint32), values[slots])


def _among(values: Array, codes: Array) -> Array:
    """Return which values are among the sorted codes."""
    if not len(codes):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.searchsorted(codes, values).clip(max=len(codes) - 1)
    return np.asarray(codes[places] == values)
