"""The vectors of one collection: searchable at once, and written into mapped files in the background.

The table reports every commit. New vectors stay in memory, where they are compared one by one, until a
thread has put them into the files: every 2,048 vectors or 2 seconds. The same thread rebuilds lost files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import CollectionChange, CollectionSpaces, SpaceStorage
from tabane.engine.embedded.columns import ColumnSnapshot, Mask
from tabane.engine.embedded.vectors.space_index import FLUSHED, FLUSHED_AFTER, SpaceIndex, SpaceSnapshot
from tabane.engine.embedded.vectors.vector_truth import VectorTruth
from tabane.errors import StoreError

MOST_BEHIND = 8 * FLUSHED  # vectors in memory, of one space
_REMEMBERED = 8  # moments
_LONGEST_WAIT = 30.0  # seconds
_LONGEST_PAUSE = 60.0  # seconds, where the disk refuses again and again

Moment = Mapping[str, SpaceSnapshot]
Live = Callable[[], ColumnSnapshot]


class VectorIndex:
    """The data derived from the vectors of a table. Made by :meth:`open`."""

    def __init__(
        self, truth: VectorTruth, folder: str, spaces: Mapping[str, SpaceIndex], changes: int, live: Live
    ) -> None:
        """``live`` returns the columns: they say which rows are live when files are compacted."""
        self.truth = truth
        self._folder = folder
        self._spaces = spaces
        self._dropped: list[SpaceIndex] = []
        self._moments: OrderedDict[int, Moment] = OrderedDict()
        self._lock = threading.Lock()
        self._moved = threading.Condition()
        self._open = True
        self._live = live
        self._publish(changes)
        self._thread = threading.Thread(target=self._work, name="store-vectors", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        connection: sqlite3.Connection,
        folder: str,
        truth: VectorTruth,
        changes: int,
        live: Live,
        *,
        after_crash: bool,
    ) -> VectorIndex:
        """Map existing files; much missing data is made again in the background. Blocks; raises StoreError.

        ``after_crash``: the last process died, so its last writes are checked.
        """
        storages = truth.spaces(connection).storages
        try:
            spaces = {
                each.space.name: SpaceIndex.open(
                    _folder(folder, each),
                    each,
                    truth.file,
                    truth.placing(connection, each),
                    changes,
                    after_crash=after_crash,
                )
                for each in storages
            }
            _remove_others(folder, storages)
        except OSError as error:
            raise failures.from_system(error, folder) from error
        return cls(truth, folder, spaces, changes, live)

    def committed(self, change: CollectionChange) -> None:
        """The write is on the disk. Called in the writing thread, in order, before columns show it."""
        with self._lock:
            if change.spaces is not None:
                self._respace(change.spaces)
            for name, space in self._spaces.items():
                placed = [each for each in change.vectors if each.space == name]
                if placed:
                    space.apply(placed)
            self._publish(change.state.changes)
        if change.vectors or change.spaces is not None:
            with self._moved:
                self._moved.notify_all()

    def _respace(self, spaces: CollectionSpaces) -> None:
        there = {space.storage.birth: space for space in self._spaces.values()}
        self._spaces = {
            storage.space.name: self._kept_or_fresh(storage, there) for storage in spaces.storages
        }
        self._dropped += there.values()

    def _kept_or_fresh(self, storage: SpaceStorage, there: dict[int, SpaceIndex]) -> SpaceIndex:
        """Return the space of that birth, taken from those there are."""
        if storage.birth in there:
            return there.pop(storage.birth)
        return SpaceIndex.fresh(_folder(self._folder, storage), storage)

    def _publish(self, changes: int) -> None:
        self._moments[changes] = {name: space.view() for name, space in self._spaces.items()}
        while len(self._moments) > _REMEMBERED:
            self._moments.popitem(last=False)

    def moment(self, changes: int) -> Moment | None:
        """Return the spaces after that write, None if it is too long ago."""
        with self._lock:
            return self._moments.get(changes)

    def room(self) -> None:
        """Wait, half a minute at most, where too much is in memory. Blocks."""
        with self._moved:
            self._moved.wait_for(lambda: not self.full, _LONGEST_WAIT)

    @property
    def full(self) -> bool:
        return any(len(space) >= MOST_BEHIND for space in self._spaces.values())

    @property
    def whole(self) -> bool:
        """Return whether nothing is being rebuilt."""
        return all(space.whole for space in self._spaces.values())

    def wait_until_whole(self, timeout: float) -> bool:
        """Wait while something is being rebuilt. Blocks."""
        with self._moved:
            return self._moved.wait_for(lambda: self.whole or not self._open, timeout) and self.whole

    def settle(self) -> None:
        """Put all that is in memory into the files. Blocks; raises OSError."""
        for space in self._spaces.values():
            space.flush()

    def agrees(self, connection: sqlite3.Connection) -> bool:
        """Return whether the files hold what the truth holds. Reads everything."""
        for storage in self.truth.spaces(connection).storages:
            space = self._spaces.get(storage.space.name)
            numbers = sorted(number for number, _ in self.truth.places(connection, storage))
            if (
                space is None
                or space.storage.birth != storage.birth
                or not space.agrees(self.truth.file, numbers)
            ):
                return False
        return True

    def close(self) -> None:
        """End the thread, with everything in the files. Blocks."""
        with self._moved:
            self._open = False
            self._moved.notify_all()
        self._thread.join()
        with contextlib.suppress(OSError):
            self.settle()
            for space in self._spaces.values():
                space.keep_owners(next(reversed(self._moments)))

    # In the thread that keeps the files

    def _work(self) -> None:
        pause = 0.0
        while self._open:
            try:
                self._keep()
                pause = 0.0
            except (OSError, StoreError):  # it stays in memory, or behind, and what is there answers
                pause = min(_LONGEST_PAUSE, 2 * pause or FLUSHED_AFTER)
            with self._moved:
                self._moved.wait_for(lambda: not self._open, pause)
                self._moved.wait_for(lambda: self._waiting or not self._open)
                self._moved.wait_for(self._due, FLUSHED_AFTER)

    @property
    def _waiting(self) -> bool:
        return bool(self._dropped) or any(len(space) for space in self._spaces.values()) or not self.whole

    def _due(self) -> bool:
        spaces = self._spaces.values()
        return not (self._open and self.whole) or any(len(space) >= FLUSHED for space in spaces)

    def _keep(self) -> None:
        """Rebuild what is missing, move vectors from memory into the files, delete dropped spaces."""
        for space in list(self._spaces.values()):
            while self._open and space.catch_up(self.truth.file):
                self._show()
            space.recode()
            space.flush()
            space.tidy(lambda space=space: _living(self._live(), space))  # type: ignore[misc]
        self._show()
        while self._dropped:
            self._dropped[0].remove()
            del self._dropped[0]

    def _show(self) -> None:
        with self._lock:
            self._publish(next(reversed(self._moments)))
        with self._moved:
            self._moved.notify_all()


def _living(snapshot: ColumnSnapshot, space: SpaceIndex) -> Mask:
    """Return which slots belong to records, those that columns do not show yet included."""
    view = space.view()
    to_come = view.rows >= snapshot.origin + len(snapshot.alive)
    return np.asarray(view.within(snapshot.alive, snapshot.origin) | to_come)


def _folder(folder: str, storage: SpaceStorage) -> str:
    return os.path.join(folder, f"{storage.birth:016x}")


def _remove_others(folder: str, storages: Iterable[SpaceStorage]) -> None:
    """Delete what is of no space any more."""
    if os.path.isdir(folder):
        known = {os.path.basename(_folder(folder, each)) for each in storages}
        for name in set(os.listdir(folder)) - known:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
