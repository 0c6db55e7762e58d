"""The vectors of one collection, searched at once and written into their files by and by.

Its table tells it of every commit; what came stays in memory, compared one by one, until a thread of its
own has put it into the files: each 2,048 vectors or 2 seconds.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tabane.store import failures
from tabane.store.columns import Mask, Snapshot
from tabane.store.vectors.space import FLUSHED, FLUSHED_AFTER, SpaceIndex, View
from tabane.store.vectors.truth import VectorTruth, spaces_of

if TYPE_CHECKING:
    from tabane.store.truth import Change

MOST_BEHIND = 8 * FLUSHED  # vectors in memory, of one space
_REMEMBERED = 8  # moments
_LONGEST_WAIT = 30.0  # seconds

Moment = Mapping[str, View]


class VectorIndex:
    """What is derived from the vectors of a table. Made by :meth:`open`."""

    def __init__(self, truth: VectorTruth, spaces: Mapping[str, SpaceIndex], changes: int) -> None:
        self.truth = truth
        self._spaces = spaces
        self._moments: OrderedDict[int, Moment] = OrderedDict()
        self._lock = threading.Lock()
        self._moved = threading.Condition()
        self._open = True
        self._live: Callable[[], Snapshot] | None = None
        self._publish(changes)
        self._thread = threading.Thread(target=self._work, name="store-vectors", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls, connection: sqlite3.Connection, folder: str, truth: VectorTruth, changes: int
    ) -> VectorIndex:
        """Map what there is and catch up, or make it anew. Blocks; raises StoreError."""
        try:
            spaces = {
                held.space.name: SpaceIndex.open(
                    os.path.join(folder, held.space.name), held, truth.file, truth.places(connection, held)
                )
                for held in spaces_of(truth)
            }
        except OSError as error:
            raise failures.from_system(error, folder) from error
        return cls(truth, spaces, changes)

    def follow(self, snapshot: Callable[[], Snapshot]) -> None:
        """Ask this which rows are live, when files are looked at for what is dead in them."""
        self._live = snapshot

    def committed(self, change: Change) -> None:
        """The write is on the disk. Called in the writing thread, in order, before columns show it."""
        with self._lock:
            for name, space in self._spaces.items():
                placed = [each for each in change.vectors if each.space == name]
                if placed:
                    space.apply(placed)
            self._publish(change.state.changes)
        if change.vectors:
            with self._moved:
                self._moved.notify_all()

    def _publish(self, changes: int) -> None:
        self._moments[changes] = {name: space.view() for name, space in self._spaces.items()}
        while len(self._moments) > _REMEMBERED:
            self._moments.popitem(last=False)

    def moment(self, changes: int) -> Moment | None:
        """The spaces after that write, None where it is too long ago."""
        with self._lock:
            return self._moments.get(changes)

    def room(self) -> None:
        """Wait, half a minute at most, where too much is in memory. Blocks."""
        with self._moved:
            self._moved.wait_for(lambda: not self.full, _LONGEST_WAIT)

    @property
    def full(self) -> bool:
        return any(len(space) >= MOST_BEHIND for space in self._spaces.values())

    def settle(self) -> None:
        """Put all that is in memory into the files. Blocks; raises OSError."""
        for space in self._spaces.values():
            space.flush()

    def agrees(self, connection: sqlite3.Connection) -> bool:
        """Whether the files hold what the truth holds. Reads everything."""
        return all(
            space.agrees(
                self.truth.file, sorted(number for number, _ in self.truth.places(connection, space.held))
            )
            for space in self._spaces.values()
        )

    def close(self) -> None:
        """End the thread, with everything in the files. Blocks."""
        with self._moved:
            self._open = False
            self._moved.notify_all()
        self._thread.join()
        with contextlib.suppress(OSError):
            self.settle()

    # In the thread that keeps the files

    def _work(self) -> None:
        while self._open:
            with self._moved:
                self._moved.wait_for(lambda: self._waiting or not self._open)
                self._moved.wait_for(self._due, FLUSHED_AFTER)
            if not self._flush():
                with self._moved:
                    self._moved.wait_for(lambda: not self._open, FLUSHED_AFTER)

    @property
    def _waiting(self) -> bool:
        return any(len(space) for space in self._spaces.values())

    def _due(self) -> bool:
        return not self._open or any(len(space) >= FLUSHED for space in self._spaces.values())

    def _flush(self) -> bool:
        """Put into the files what is in memory. False where the disk refuses: then it stays, and answers."""
        done = True
        for space in self._spaces.values():
            try:
                space.flush()
                self._tidy(space)
            except OSError:
                done = False
        with self._lock:
            self._publish(next(reversed(self._moments)))
        with self._moved:
            self._moved.notify_all()
        return done

    def _tidy(self, space: SpaceIndex) -> None:
        live = self._live
        if live is not None:
            space.tidy(lambda: _living(live(), space))


def _living(snapshot: Snapshot, space: SpaceIndex) -> Mask:
    """Which slots belong to records, those that columns do not show yet included."""
    view = space.view()
    to_come = view.rows >= snapshot.origin + len(snapshot.alive)
    return np.asarray(view.within(snapshot.alive, snapshot.origin) | to_come)
