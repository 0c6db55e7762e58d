"""The records that the index does not hold yet: in memory, found and scored like those it holds.

Every one of them is in the truth already, so nothing is lost with a tail: at the next opening it is read
from there again. Postings are made at the first search that wants them; a bulk import makes none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tabane.search.analysis import GAP
from tabane.search.records import Record
from tabane.store.lexical.analysing import Analysis, Analyst
from tabane.store.lexical.bm25 import kept_length
from tabane.store.lexical.plans import PAIRS, Both, Either, Match, Phrase, Starts, Term

Postings = dict[str, dict[int, int]]  # token → row → how often


@dataclass(slots=True)
class Entry:
    """A record, its row, and its tokens once somebody made them."""

    row: int
    record: Record
    analysis: Analysis | None = None

    def analysed(self, analyst: Analyst) -> Analysis:
        if self.analysis is None:
            self.analysis = analyst.analysis(self.record.texts)
        return self.analysis


@dataclass(slots=True)
class Space:
    """One space of the tail: postings, places of tokens by row, kept lengths by row, tokens in all."""

    postings: Postings = field(default_factory=dict)
    places: dict[int, list[str]] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    total: int = 0


class Tail:
    """Records by row, in the order they came. For one thread at a time."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst
        self.entries: dict[int, Entry] = {}
        self._spaces: dict[str, Space] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.entries[entry.row] = entry

    def remove(self, rows: Iterable[int]) -> None:
        """Forget rows, those that are not here included."""
        for row in rows:
            entry = self.entries.pop(row, None)
            if entry is not None:
                for name, space in self._spaces.items():
                    self._withdraw(name, space, entry)

    def space(self, name: str) -> Space:
        """A space, brought up to date with all entries."""
        space = self._spaces.setdefault(name, Space())
        if len(space.places) < len(self.entries):
            for row, entry in self.entries.items():
                if row not in space.places:
                    self._post(name, space, entry)
        return space

    def _tokens(self, name: str, entry: Entry) -> list[str]:
        if name.startswith(f"{PAIRS}_"):
            return self._analyst.pairs(entry.record.texts.get(name[2:], ""))
        return entry.analysed(self._analyst).get(name, [])

    def _post(self, name: str, space: Space, entry: Entry) -> None:
        tokens = space.places[entry.row] = self._tokens(name, entry)
        counts = self._counted(name, tokens)
        for token, count in counts.items():
            space.postings.setdefault(token, {})[entry.row] = count
        length = counts.total()
        space.lengths[entry.row] = kept_length(length)
        space.total += length

    def _counted(self, name: str, tokens: list[str]) -> Counter[str]:
        counts = Counter(tokens)
        if not name.startswith(f"{PAIRS}_"):
            counts.pop(GAP, None)  # among pairs it is a character like any other
        return counts

    def _withdraw(self, name: str, space: Space, entry: Entry) -> None:
        for token in self._counted(name, space.places.pop(entry.row, [])):
            rows = space.postings[token]
            space.total -= rows.pop(entry.row)
            if not rows:
                del space.postings[token]
        space.lengths.pop(entry.row, None)

    def having(self, term: Term) -> Mapping[int, int]:
        """Rows that have the token, and how often."""
        return self.space(term.space).postings.get(term.token, {})

    def beginning(self, starts: Starts) -> dict[str, int]:
        """The tokens that begin so, and in how many rows each is."""
        postings = self.space(starts.space).postings
        return {token: len(rows) for token, rows in postings.items() if token.startswith(starts.beginning)}

    def rows(self, match: Match) -> set[int]:
        """The rows that match."""
        match match:
            case Term():
                return set(self.having(match))
            case Phrase(space, tokens):
                return self._phrase(self.space(space), tokens)
            case Starts(space, _):
                postings = self.space(space).postings
                return {row for token in self.beginning(match) for row in postings[token]}
            case Either(of):
                return set().union(*(self.rows(each) for each in of))
            case Both(of):
                return self._all(of)

    def _all(self, of: tuple[Match, ...]) -> set[int]:
        found = set(self.entries)
        for each in of:
            found &= self.rows(each)
            if not found:
                break
        return found

    def _phrase(self, space: Space, tokens: tuple[tuple[int, str], ...]) -> set[int]:
        held = [space.postings.get(token, {}) for _, token in tokens]
        rows = set(held[0]).intersection(*held[1:])
        return {row for row in rows if _side_by_side(space.places[row], tokens)}


def _side_by_side(places: list[str], tokens: tuple[tuple[int, str], ...]) -> bool:
    span, first = tokens[-1][0], tokens[0][1]
    starts = (at for at in range(len(places) - span) if places[at] == first)
    return any(all(places[at + by] == token for by, token in tokens) for at in starts)
