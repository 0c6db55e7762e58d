"""The file of allowed pairs, ``flow-pairs.json`` in the home: what a person has allowed for always."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabane.errors import CallerError, StoreError
from tabane.messages import say
from tabane.settings.files import read_trusted, write_private

FILE = "flow-pairs.json"
MOST_PAIRS = 1_000
LONGEST_PAIR = 512
LARGEST = 4 << 20

_NONE: frozenset[str] = frozenset()


class PairFile:
    """The allowed pairs. The file is read with the first question about one, and written with each change.

    Raises StoreError if it cannot be read or written.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._known: dict[str, frozenset[str]] | None = None

    def of(self, holder: str) -> frozenset[str]:
        """Return the pairs that a holder has allowed."""
        return self.all().get(holder, _NONE)

    def all(self) -> dict[str, frozenset[str]]:
        """Return all pairs by holder."""
        if self._known is None:
            self._known = self._read()
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

    def _read(self) -> dict[str, frozenset[str]]:
        try:
            return msgspec.json.decode(read_trusted(self._path, LARGEST), type=dict[str, frozenset[str]])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(
                say("{path} cannot be read: {detail}", path=str(self._path), detail=str(error))
            ) from None

    def _write(self, pairs: dict[str, frozenset[str]]) -> None:
        body = msgspec.json.encode({holder: sorted(each) for holder, each in sorted(pairs.items())})
        try:
            write_private(self._path, body)
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=str(self._path), detail=str(error))
            ) from None
        self._known = pairs
