"""The files of the flow policy in the home: what is allowed for always, trails, and written texts.

``flow-pairs.json`` has what a person has allowed: tools with targets, and pairs of earlier versions.
``flow-written.jsonl`` has hashes of the texts that servers were given. ``flow-trails.jsonl`` gets a line
whenever a trail has read something new. The line is written before the answer goes out that brought it, so a
hub that crashes forgets nothing that was answered. It is not synced: if the machine fails, the last seconds
may be lost. The last line of a trail counts.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tabane.errors import CallerError, ConfigurationError, StoreError
from tabane.guard.flows.trails import MOST_SOURCES, Trail, TrailKey
from tabane.hub.people.flows import TRAIL_FILE, WRITTEN_FILE
from tabane.messages import say
from tabane.settings.files import read_trusted, write_private

log = logging.getLogger(__name__)


PAIR_FILE = "flow-pairs.json"
MOST_PAIRS = 1_000
LARGEST_PAIR_FILE = 4 << 20

_NONE: frozenset[str] = frozenset()
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class PairFile:
    """The allowed pairs. The file is read with the first question about one, and written with each change.

    Raises StoreError if it cannot be read or written.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / PAIR_FILE
        self._known: dict[str, frozenset[str]] | None = None

    def of(self, holder: str) -> frozenset[str]:
        """Return the pairs that a holder has allowed."""
        return self.all().get(holder, _NONE)

    def all(self) -> dict[str, frozenset[str]]:
        """Return all pairs by holder."""
        if self._known is None:
            try:
                self._known = msgspec.json.decode(
                    read_trusted(self._path, LARGEST_PAIR_FILE), type=dict[str, frozenset[str]]
                )
            except FileNotFoundError:
                self._known = {}
            except (OSError, msgspec.DecodeError) as error:
                raise StoreError(
                    say("{path} cannot be read: {detail}", path=str(self._path), detail=str(error))
                ) from None
        return self._known

    def allow(self, holder: str, pair: str) -> bool:
        """Allow a pair. Return whether it was not allowed before."""
        known = self.all()
        if pair in self.of(holder):
            return False
        if sum(map(len, known.values())) >= MOST_PAIRS:
            raise CallerError(
                say(
                    "{most} {most:pair is|pairs are} allowed, which is the maximum. Remove one with: tabane "
                    "policy disallow PAIR",
                    most=MOST_PAIRS,
                )
            )
        self._write({**known, holder: self.of(holder) | {pair}})
        return True

    def disallow(self, holder: str, pair: str) -> bool:
        """Take a pair back. Return whether it was allowed."""
        if pair not in self.of(holder):
            return False
        left = {**self.all(), holder: self.of(holder) - {pair}}
        self._write({each: pairs for each, pairs in left.items() if pairs})
        return True

    def forget(self) -> None:
        """Read the file again with the next question."""
        self._known = None

    def _write(self, pairs: dict[str, frozenset[str]]) -> None:
        body = msgspec.json.encode({holder: sorted(each) for holder, each in sorted(pairs.items())})
        try:
            write_private(self._path, body)
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=str(self._path), detail=str(error))
            ) from None
        self._known = pairs


class WrittenLine(msgspec.Struct, frozen=True):
    """Texts that a server was given after something untrusted was read: the hash of each, and labels."""

    server: str
    labels: int
    texts: list[int]


class WrittenFile:
    """Hashes of texts that servers were given. A line is appended whenever one gets something new."""

    def __init__(self, home: Path) -> None:
        self._path = home / WRITTEN_FILE
        self._failed = False

    def read(self) -> Iterator[tuple[str, int, int]]:
        """Yield server, hash and labels of each text. A line that cannot be read is left out."""
        try:
            lines = read_trusted(self._path, LARGEST_TRAIL_FILE).splitlines()
        except FileNotFoundError:
            return
        except (ConfigurationError, OSError) as error:
            log.warning("the texts that servers were given cannot be read: %s", error)
            return
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):  # cut by a crash
                found = msgspec.json.decode(line, type=WrittenLine)
                yield from ((found.server, text, found.labels) for text in found.texts)

    def add(self, new: list[tuple[str, int, int]]) -> None:
        """Append the texts of one call."""
        server, _, labels = new[0]
        line = msgspec.json.encode(WrittenLine(server, labels, [text for _, text, _ in new])) + b"\n"
        self._append(line, os.O_APPEND)

    def write(self, texts: Iterable[tuple[str, int, int]]) -> None:
        """Write all texts, in place of the file. Without one, there is no file."""
        found: dict[tuple[str, int], list[int]] = {}
        for server, text, labels in texts:
            found.setdefault((server, labels), []).append(text)
        lines = [msgspec.json.encode(WrittenLine(*key, each)) + b"\n" for key, each in found.items()]
        if lines:
            self._append(b"".join(lines), os.O_TRUNC)

    def _append(self, body: bytes, flag: int) -> None:
        try:
            with open(os.open(self._path, _FLAGS | flag, 0o600), "wb") as file:
                file.write(body)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("the texts that servers were given cannot be written: %s", error)
            self._failed = True


LEAST_ROOM = 1 << 20
"""Bytes that are appended before the file is written again."""

LARGEST_TRAIL_FILE = 32 << 20
"""Bytes of a file that is read. A larger one is none of ours."""


class TrailLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A trail as a line of the file."""

    holder: str
    client: str
    folder: str
    labels: int
    used: float
    private: dict[str, str] = {}
    untrusted: dict[str, str] = {}
    passed: list[str] = []
    since: float = 0.0

    def trail(self) -> Trail:
        """Return the trail of this line."""
        return Trail(
            TrailKey(self.holder, self.client, self.folder),
            self.labels,
            dict(list(self.private.items())[: MOST_SOURCES + 1]),
            dict(list(self.untrusted.items())[: MOST_SOURCES + 1]),
            passed=set(self.passed),
            since=self.since or self.used,
            used=self.used,
            kept=self.used,
        )


def line_of(trail: Trail) -> bytes:
    """Return a trail as a line."""
    key = trail.key
    line = TrailLine(
        key.holder, key.client, key.folder, trail.labels, trail.used, trail.private, trail.untrusted,
        sorted(trail.passed), trail.since,
    )  # fmt: skip
    return msgspec.json.encode(line) + b"\n"


class TrailFile:
    """Reads and writes the file. It is created with the first trail that has read something."""

    def __init__(self, home: Path) -> None:
        self._path = home / TRAIL_FILE
        self._file: int | None = None
        self._room = LEAST_ROOM
        self._failed = False

    def read(self) -> list[Trail]:
        """Return the trails of the file. A line that cannot be read is left out."""
        try:
            lines = read_trusted(self._path, LARGEST_TRAIL_FILE).splitlines()
        except FileNotFoundError:
            return []
        except (ConfigurationError, OSError) as error:
            log.warning("the trails of the flow policy cannot be read: %s", error)
            return []
        found: dict[TrailKey, Trail] = {}
        for line in lines:
            try:
                trail = msgspec.json.decode(line, type=TrailLine).trail()
            except msgspec.DecodeError:
                continue  # cut by a crash
            found.pop(trail.key, None)
            found[trail.key] = trail
        return list(found.values())

    def add(self, trail: Trail, others: Iterable[Trail]) -> None:
        """Write a trail. ``others`` are all that are written again when the file has grown."""
        line = line_of(trail)
        try:
            self._room -= len(line)
            if self._room < 0:
                self.write(others)
            if self._file is None:
                self._file = os.open(self._path, _FLAGS | os.O_APPEND, 0o600)
            os.write(self._file, line)
            trail.kept, self._failed = trail.used, False
        except OSError as error:
            if not self._failed:  # once, and not with every call
                log.warning("the trails of the flow policy cannot be written: %s", error)
            self._failed = True

    def write(self, trails: Iterable[Trail]) -> None:
        """Write all trails, in place of the file. Raises OSError."""
        self.close()
        body = b"".join(map(line_of, trails))
        part = self._path.with_suffix(".part")
        with open(os.open(part, _FLAGS | os.O_TRUNC, 0o600), "wb") as file:
            file.write(body)
        os.replace(part, self._path)
        self._room = max(LEAST_ROOM, len(body))

    def remove(self) -> None:
        """Remove the file, because the policy is off."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file if it is open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
