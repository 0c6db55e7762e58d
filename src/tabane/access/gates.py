"""Gates: how many calls may run at the same time, and which one of those that wait comes next.

Those who wait take turns: one that has many entries delays only its own.
"""

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


class GatedCall:
    """A call on its way through gates. It holds a place of each gate that it has passed.

    It passes its gates one after the other. If all calls pass them in the same order, no two calls can wait
    for each other.
    """

    __slots__ = ("_gates", "_passed", "holder")

    def __init__(self, holder: str, gates: tuple[CallGate, ...]) -> None:
        self.holder = holder
        self._gates, self._passed = gates, 0

    @property
    def inside(self) -> bool:
        """Whether it has passed all gates."""
        return self._passed == len(self._gates)

    def advance(self) -> bool:
        """Pass as many gates as possible. If one is full, wait at it. Return whether all were passed."""
        while self._passed < len(self._gates):
            if not self._gates[self._passed].take(self):
                return False
            self._passed += 1
        return True

    def resume(self) -> None:
        """Go on: the gate at which the call waited has given it a place."""
        self._passed += 1
        if self.advance():
            self.entered()

    def leave(self) -> None:
        """Give back every place, or stop waiting. The call is not used any more."""
        if not self.inside:
            self._gates[self._passed].withdraw(self)
        passed, self._gates, self._passed = self._gates[: self._passed], (), 0
        for gate in reversed(passed):
            gate.free()

    def entered(self) -> None:
        """Note that the last gate was passed after a wait."""


class CallGate:
    """A number of places. Calls that find none wait, in round robin between their holders."""

    __slots__ = ("places", "taken", "waiting")

    def __init__(self, places: int) -> None:
        self.places, self.taken = places, 0
        self.waiting: FairQueue[GatedCall] = FairQueue()

    @property
    def full(self) -> bool:
        """Whether no place is free."""
        return self.taken >= self.places

    @property
    def idle(self) -> bool:
        """Whether no call holds a place or waits for one."""
        return not self.taken and not self.waiting

    def take(self, call: GatedCall) -> bool:
        """Give a place, or let the call wait. Return whether it has a place."""
        if self.full or self.waiting:
            self.waiting.add(call.holder, call)
            return False
        self.taken += 1
        return True

    def withdraw(self, call: GatedCall) -> None:
        """Let a call no longer wait."""
        self.waiting.discard(call.holder, call)

    def free(self) -> None:
        """Take a place back. Calls that wait get what is free, also after more places were allowed."""
        self.taken -= 1
        while self.waiting and not self.full:
            self.taken += 1
            self.waiting.pop().resume()


class GateTable:
    """Gates by name, created on first use. Those that nobody uses are dropped."""

    __slots__ = ("_gates", "_most")

    def __init__(self, most: int = 4096) -> None:
        self._gates: OrderedDict[str, CallGate] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._gates)

    def gate(self, name: str, places: int) -> CallGate:
        """Return the gate of that name, which has so many places from now on."""
        gate = self._gates.get(name)
        if gate is None:
            self._make_room()
            gate = self._gates[name] = CallGate(places)
        gate.places = places
        self._gates.move_to_end(name)
        return gate

    def find(self, name: str) -> CallGate | None:
        """Return the gate of that name if there is one."""
        return self._gates.get(name)

    def _make_room(self) -> None:
        # The oldest ones are checked, a few each time: one that is in use is kept.
        for _ in range(2):
            if len(self._gates) < self._most:
                return
            name, gate = self._gates.popitem(last=False)
            if not gate.idle:
                self._gates[name] = gate
