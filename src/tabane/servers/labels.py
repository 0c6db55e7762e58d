"""Flow labels: what a call's result is, and what a call does with what it is given.

Labels are bits of an int, because they are joined and compared for every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, structs

PRIVATE = 1
"""The result is the user's own."""

UNTRUSTED = 2
"""Strangers can write what the result says."""

EXTERNAL = 4
"""The arguments leave the machine, to a place that others can read."""

DESTRUCTIVE = 8
"""The call deletes, spends, sends in the user's name, or does something else that cannot be undone."""

READ_LABELS = PRIVATE | UNTRUSTED
"""The labels of results. A trail keeps them."""

SINK_LABELS = EXTERNAL | DESTRUCTIVE
"""The labels of calls. They decide whether a call may follow what was read."""

LABELS_BY_NAME = {
    "private": PRIVATE,
    "untrusted": UNTRUSTED,
    "external": EXTERNAL,
    "destructive": DESTRUCTIVE,
}

LabelOrigin = Literal["settings", "annotation", "table", "name", "built-in"]
"""Where a label comes from: the servers file, the server's own annotations, the shipped table of well-known
servers, the tool's name and description, or Tabane's own tools."""


class CallLabels(Struct, frozen=True):
    """The labels of one tool, and where each comes from.

    ``if_given`` are parameters: the call is external only if one of them is not empty, such as the guests of
    an event. Without names it always is.
    """

    bits: int = 0
    origins: tuple[tuple[int, LabelOrigin], ...] = ()
    if_given: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return label_names(self.bits)

    def origin(self, label: int) -> LabelOrigin | None:
        """Return where a label comes from; None if the tool does not have it."""
        return next((origin for bit, origin in self.origins if bit == label), None)

    def with_labels(self, bits: int, origin: LabelOrigin, if_given: tuple[str, ...] = ()) -> CallLabels:
        """Return these and further labels. What an earlier source said of a label stays."""
        new = bits & ~self.bits
        if not new:
            return self
        origins = (*self.origins, *((bit, origin) for bit in LABELS_BY_NAME.values() if bit & new))
        return CallLabels(self.bits | new, origins, if_given if new & EXTERNAL else self.if_given)

    def without(self, bits: int) -> CallLabels:
        """Return these labels without some of them."""
        kept = tuple((bit, origin) for bit, origin in self.origins if not bit & bits)
        return structs.replace(self, bits=self.bits & ~bits, origins=kept)


NO_LABELS = CallLabels()


class LabelChange(Struct, frozen=True):
    """Labels that the user gives and removes."""

    added: int = 0
    removed: int = 0

    def then(self, later: LabelChange) -> LabelChange:
        """Return this change and a later one, which wins."""
        return LabelChange(
            self.added & ~later.removed | later.added, self.removed & ~later.added | later.removed
        )


NO_CHANGE = LabelChange()


def label_names(bits: int) -> list[str]:
    """Return the names of labels, in a fixed order."""
    return [name for name, bit in LABELS_BY_NAME.items() if bits & bit]


def label_bits(names: Iterable[str]) -> int:
    """Return the labels of these names. Raises KeyError for an unknown one."""
    bits = 0
    for name in names:
        bits |= LABELS_BY_NAME[name]
    return bits


def label_change(names: Iterable[str]) -> LabelChange:
    """Return what names such as ``private`` and ``-external`` say. Raises KeyError for an unknown one."""
    change = NO_CHANGE
    for name in names:
        bit = LABELS_BY_NAME[name.removeprefix("-")]
        change = change.then(LabelChange(removed=bit) if name.startswith("-") else LabelChange(added=bit))
    return change
