"""A queue in which those who wait take turns: one that has many entries delays only its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting", bound=Hashable)


class FairQueue(Generic[Waiting]):
    """Entries of several holders, in round robin between the holders, first in first out for each.

    All methods take constant time.
    """

    __slots__ = ("_lines", "count")

    def __init__(self) -> None:
        self._lines: OrderedDict[str, OrderedDict[Waiting, None]] = OrderedDict()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Waiting]:
        """Iterate over all entries, holder by holder."""
        for line in self._lines.values():
            yield from line

    def __contains__(self, entry: object) -> bool:
        return any(entry in line for line in self._lines.values())

    def add(self, holder: str, entry: Waiting) -> None:
        """Add an entry behind those of its holder."""
        line = self._lines.get(holder)
        if line is None:
            line = self._lines[holder] = OrderedDict()
        line[entry] = None
        self.count += 1

    def add_first(self, holder: str, entry: Waiting) -> None:
        """Add an entry that comes before all others."""
        line = self._lines.get(holder)
        if line is None:
            line = self._lines[holder] = OrderedDict()
        line[entry] = None
        line.move_to_end(entry, last=False)
        self._lines.move_to_end(holder, last=False)
        self.count += 1

    def waiting(self, holder: str) -> int:
        """Return the number of entries of a holder."""
        return len(self._lines.get(holder, ()))

    def is_full(self, holder: str, most: int) -> bool:
        """Return whether there is no room for another entry of a holder.

        There is room for ``most`` entries, and beyond them for a holder that has less than its share of them:
        so one that fills the queue keeps nobody else out.
        """
        return self.count >= most and self.waiting(holder) * len(self._lines) >= most

    def pop(self) -> Waiting:
        """Remove and return the first entry of the holder whose turn it is. Raises KeyError if empty."""
        holder, line = self._lines.popitem(last=False)
        entry, _ = line.popitem(last=False)
        self.count -= 1
        if line:
            self._lines[holder] = line  # behind all others
        return entry

    def discard(self, holder: str, entry: Waiting) -> bool:
        """Remove an entry if it is there. Return whether it was."""
        line = self._lines.get(holder)
        if line is None or entry not in line:
            return False
        del line[entry]
        self.count -= 1
        if not line:
            del self._lines[holder]
        return True
