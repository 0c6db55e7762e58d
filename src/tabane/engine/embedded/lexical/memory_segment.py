"""Records that the index does not contain yet: in memory, found and scored like indexed records.

They are in the database already, so nothing is lost with a memory segment: the next opening reads them
from there. Tokens are counted by the first search that needs them; a bulk import counts none.

BM25 is computed as tantivy computes it, so that records outside the index get exactly the scores that
they would get inside: Robertson and Zaragoza (2009), with idf = ln(1 + (N - n + 0.5) / (n + 0.5)), k1 =
1.2 and b = 0.75. The length of a field is kept in one byte: exact up to 40 tokens, then in eight steps an
octave.

The tokens of a record's texts in every space, for the index and for memory segments. The tokens of many
texts are coded as numbers before the texts are written, so that no search counts them. Counting the
tokens of 10 MB of texts one by one takes a second. As numbers in one array they take 4 bytes each, and
the texts that contain a token are found in a millisecond.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tabane.engine.embedded.columns import Array
from tabane.engine.query_plans import (
    PAIRS,
    AllOf,
    Analysis,
    AnyOf,
    JoinedAnalysis,
    Match,
    PhraseMatch,
    PrefixMatch,
    RecordAnalyzer,
    TermMatch,
    kept_length,
    pairs_spelling,
)
from tabane.search.analysis import GAP
from tabane.search.records import Record

if TYPE_CHECKING:
    from tabane.engine.embedded.collection_state import CollectionChange


@dataclass(frozen=True, slots=True)
class CodedTokens:
    """The tokens of some texts in one space. ``begins``: the start of each text's tokens in ``numbers``.

    ``vocabulary`` has no gap. ``lengths``: number of tokens of each text, without gaps.
    """

    vocabulary: Mapping[str, int]
    numbers: Array
    begins: Array
    lengths: list[int]

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> CodedTokens:
        """Code the tokens of texts, with gaps, as int32 numbers in order of first occurrence."""
        known: defaultdict[str, int] = defaultdict(count().__next__)
        numbers = np.fromiter(map(known.__getitem__, chain.from_iterable(texts)), dtype=np.int32)
        begins = np.cumsum([0, *map(len, texts)])
        vocabulary = dict(known)
        gap = vocabulary.pop(GAP, -1)
        gaps = np.concatenate([[0], np.cumsum(numbers == gap)])[begins]
        return cls(vocabulary, numbers, begins, (np.diff(begins) - np.diff(gaps)).tolist())

    def having(self, tokens: Iterable[str]) -> tuple[Array, Array]:
        """Return the positions of texts that contain one of these tokens, in order, and the counts."""
        wanted = [self.vocabulary[token] for token in tokens if token in self.vocabulary]
        if not wanted:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        meant = self.numbers == wanted[0] if len(wanted) == 1 else np.isin(self.numbers, wanted)
        places = np.searchsorted(self.begins, np.flatnonzero(meant), side="right") - 1
        return np.unique(places, return_counts=True)


class PreparedTokens(NamedTuple):
    """The analyzed texts of a record: their tokens, and their position among the coded texts."""

    analysis: Analysis | None = None
    coded: Mapping[str, CodedTokens] = {}
    place: int = 0


def prepare_tokens(analyses: Sequence[Analysis]) -> list[PreparedTokens]:
    """Code the tokens of several analyzed records together."""
    spaces = dict.fromkeys(chain.from_iterable(analyses))
    coded = {space: CodedTokens.of([each.get(space, []) for each in analyses]) for space in spaces}
    return [PreparedTokens(analysis, coded, place) for place, analysis in enumerate(analyses)]


@dataclass(slots=True)
class CodedRows:
    """Coded texts and the rows of their records; 0 for records that moved or were deleted."""

    coded: CodedTokens
    rows: Array = field(init=False)

    def __post_init__(self) -> None:
        self.rows = np.zeros(len(self.coded.lengths), dtype=np.int64)

    def having(self, tokens: Iterable[str]) -> dict[int, int]:
        """Return row → count, for rows that contain one of these tokens."""
        places, counts = self.coded.having(tokens)
        rows = self.rows[places]
        return dict(zip(rows[rows > 0].tolist(), counts[rows > 0].tolist(), strict=True))

    def beginning(self, beginning: str) -> list[str]:
        """Return the tokens with that prefix."""
        return [token for token in self.coded.vocabulary if token.startswith(beginning)]


_END = "\n"  # behind each text: a spelled text has no white space


class SpelledTexts:
    """Spelled texts, one after the other, as code points: pairs of characters are found without tokens.

    To count the pairs of 1.2 million characters takes four seconds, and as long again to look for the pairs
    that begin with a character. To compare as many code points takes half a millisecond. ``rows``: the row of
    each text; 0 if its record was deleted.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        codes = "".join(text + _END for text in texts.values()).encode("utf-32-le", "surrogatepass")
        self.codes = np.frombuffer(codes, dtype=np.uint32)
        self.rows = np.fromiter(texts, dtype=np.int64)
        self._begins = np.cumsum([0, *(len(text) + 1 for text in texts.values())])

    @classmethod
    def merged(cls, one: SpelledTexts, other: SpelledTexts) -> SpelledTexts:
        """Return the texts of both."""
        both = cls({})
        both.codes = np.concatenate([one.codes, other.codes])
        both.rows = np.concatenate([one.rows, other.rows])
        both._begins = np.concatenate([one._begins, other._begins[1:] + len(one.codes)])
        return both

    def remove(self, row: int) -> None:
        """Forget a row, one that is not here included."""
        self.rows[self.rows == row] = 0

    def having(self, characters: str) -> dict[int, int]:
        """Return row → count, for rows that contain these characters side by side."""
        return dict(zip(*self._counts(self._find(characters)), strict=True))

    def following(self, character: str) -> Iterator[tuple[str, int]]:
        """Yield the tokens that begin with a character, and the number of rows with each."""
        at = self._find(character)
        behind = self.codes[at + 1]
        for code in np.unique(behind).tolist():
            rows, _ = self._counts(at[behind == code])
            yield character + (chr(code) if chr(code) != _END else ""), len(rows)

    def _find(self, characters: str) -> Array:
        first, *others = map(ord, characters)
        at = np.flatnonzero(self.codes == first)
        for by, code in enumerate(others, 1):
            at = at[self.codes[at + by] == code]  # never behind the last text: nothing goes on after _END
        return at

    def _counts(self, at: Array) -> tuple[list[int], list[int]]:
        texts, counts = np.unique(np.searchsorted(self._begins, at, side="right") - 1, return_counts=True)
        rows = self.rows[texts]
        return rows[rows > 0].tolist(), counts[rows > 0].tolist()


COMMITTED_AFTER = 2.0  # seconds
_UNPREPARED = PreparedTokens()


@dataclass(slots=True)
class PendingGeneration:
    """The changes between two commits.

    ``waiting`` is not in the memory segment yet: the next search puts it there. The first ones of it are
    ``prepared``: their tokens are made.
    """

    segment: MemorySegment
    waiting: list[SegmentEntry] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    settled: int = 0  # how many of ``removed`` belong to what is in the memory segment
    buried: int = 0  # how many of ``removed`` the memory segments know of
    last: int = 0  # row
    tombstone: int = 0
    began: float = 0.0
    rows: int = 0
    prepared: int = 0

    def take(self, change: CollectionChange, ahead: Mapping[int, PreparedTokens]) -> None:
        """Note a write. ``ahead``: the tokens that were made before it, by the identity of the texts."""
        if not self.rows and not self.removed:
            self.began = time.monotonic()
        self.waiting.extend(
            SegmentEntry(row, record, *ahead.get(id(record.texts), _UNPREPARED))
            for row, record in change.upserted
        )
        self.removed.extend(change.deleted)
        self.last = change.state.next - 1
        self.tombstone = change.tombstone
        self.rows += len(change.upserted)

    def settle(self) -> None:
        """Put waiting records into the memory segment. Rows removed by the same writes count as removed."""
        entries, self.waiting, self.prepared = self.waiting, [], 0
        self.segment.add(entries)
        self.settled = len(self.removed)

    def follow(self, other: PendingGeneration) -> None:
        """Take over the changes of the generation before, whose commit failed."""
        other.settle()
        self.waiting = [*other.segment.entries.values(), *self.waiting]
        self.removed = [*other.removed, *self.removed]
        self.settled = self.buried = self.prepared = 0
        self.rows += other.rows
        self.last, self.tombstone = max(self.last, other.last), max(self.tombstone, other.tombstone)
        self.began = time.monotonic()

    @property
    def empty(self) -> bool:
        """Return whether nothing was written or deleted."""
        return not self.rows and not self.removed

    @property
    def size(self) -> int:
        """Return the number of rows that were written or deleted."""
        return self.rows + len(self.removed)

    @property
    def remaining(self) -> float:
        """Return seconds until it is to be committed."""
        return self.began + COMMITTED_AFTER - time.monotonic()


def bury(generations: Sequence[PendingGeneration]) -> set[int]:
    """Take removed rows out of all memory segments; the answer is every row that the index may still hold.

    As of when they were settled: what was removed since has its successors nowhere yet.
    """
    dead: set[int] = set()
    for generation in generations:
        unknown = generation.removed[generation.buried : generation.settled]
        generation.buried += len(unknown)
        for each in generations:
            each.segment.remove(unknown)
        dead.update(generation.removed[: generation.settled])
    return dead


_PAIRS = f"{PAIRS}_"
_MOST_ASKED = 2_000  # tokens of a space whose rows are kept
_CODED = 32  # rows that are coded together rather than counted one by one


@dataclass(slots=True)
class SegmentEntry:
    """A record, its row, and its tokens after they were made.

    ``coded``: its tokens among those of others, as numbers, at ``place``.
    """

    row: int
    record: Record
    analysis: Analysis | None = None
    coded: Mapping[str, CodedTokens] = field(default_factory=dict)
    place: int = 0
    joined: JoinedAnalysis | None = None

    def analyzed(self, analyst: RecordAnalyzer) -> Analysis:
        """Return the tokens of the record's texts without pairs, which the first call makes."""
        if self.analysis is None:
            if self.joined is None:
                self.analysis = analyst.analysis(self.record.texts)
            else:
                spaces = ((space, joined) for space, joined in self.joined.items() if space[:2] != _PAIRS)
                self.analysis = {space: joined.split() for space, joined in spaces}
        return self.analysis

    def joined_tokens(self, analyst: RecordAnalyzer) -> JoinedAnalysis:
        """Return the tokens of every space as the index takes them."""
        return self.joined or analyst.joined(self.record.texts, self.analyzed(analyst))


@dataclass(slots=True)
class SegmentSpace:
    """One space of the memory segment: by row the count of each token, their places, and the kept length.

    ``total`` is how many tokens there are in all. ``asked`` are the rows of tokens that somebody wanted:
    those are few, and to keep the rows of all takes five times as long as to count. Rows whose tokens are
    numbers are in ``blocks``, and have neither counts nor places: ``block`` and ``place``
    say by row if they are.
    """

    counts: dict[int, Counter[str]] = field(default_factory=dict)
    places: dict[int, list[str]] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    total: int = 0
    asked: dict[str, dict[int, int]] = field(default_factory=dict)
    blocks: dict[int, CodedRows] = field(default_factory=dict)  # by the identity of their contents
    block: dict[int, CodedRows] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)

    def put_coded(self, row: int, coded: CodedTokens, place: int) -> None:
        """Add a row whose tokens are numbers: those of text ``place`` of ``coded``."""
        block = self.blocks.get(id(coded))
        if block is None:
            block = self.blocks[id(coded)] = CodedRows(coded)
        self.asked.clear()
        block.rows[place] = row
        self.block[row], self.place[row] = block, place  # no pairs: thousands would wake the collector
        self.lengths[row] = kept_length(coded.lengths[place])
        self.total += coded.lengths[place]

    def put(self, row: int, places: list[str], counts: Counter[str]) -> None:
        """Add a row with its tokens, in order and with gaps, and their counts without gaps."""
        self.places[row], self.counts[row] = places, counts
        length = counts.total()
        self.lengths[row] = kept_length(length)
        self.total += length
        for token in self.asked.keys() & counts.keys():
            self.asked[token][row] = counts[token]

    def take_out(self, row: int) -> None:
        """Forget a row, one that is not here included."""
        counts = self.counts.pop(row, None)
        if row in self.block:
            block, place = self.block.pop(row), self.place.pop(row)
            block.rows[place] = 0
            del self.lengths[row]
            self.total -= block.coded.lengths[place]
            self.asked.clear()
        if counts is not None:
            del self.places[row], self.lengths[row]
            self.total -= counts.total()
            for token in self.asked.keys() & counts.keys():
                del self.asked[token][row]

    def having(self, token: str) -> Mapping[int, int]:
        """Return rows that have the token, and how often."""
        rows = self.asked.get(token)
        if rows is None:
            if len(self.asked) >= _MOST_ASKED:
                self.asked.clear()
            rows = {row: counts[token] for row, counts in self.counts.items() if token in counts}
            for block in self.blocks.values():
                rows |= block.having((token,))
            self.asked[token] = rows
        return rows

    def beginning(self, beginning: str) -> dict[str, int]:
        """Return the tokens with that prefix, and the number of rows with each."""
        found = Counter(
            token for counts in self.counts.values() for token in counts if token.startswith(beginning)
        )
        for block in self.blocks.values():
            for token in block.beginning(beginning):
                found[token] += len(block.having((token,)))
        return +found

    def starting(self, beginning: str) -> set[int]:
        """Return the rows with a token that has that prefix."""
        found = {row for row, of in self.counts.items() if any(token.startswith(beginning) for token in of)}
        return found.union(*(block.having(block.beginning(beginning)) for block in self.blocks.values()))


class SegmentPairs:
    """One space of the memory segment that has the pairs of characters of a text.

    ``blocks`` grow as they are merged, so there are few of them.
    """

    def __init__(self) -> None:
        self.lengths: dict[int, int] = {}
        self.total = 0
        self.blocks: list[SpelledTexts] = []
        self._exact: dict[int, int] = {}
        self._asked: dict[str, Mapping[int, int]] = {}

    def put(self, texts: Mapping[int, str]) -> None:
        """Add rows with their texts as :func:`~tabane.engine.query_plans.pairs_spelling` spells them."""
        self._asked.clear()
        self._exact |= {row: len(text) for row, text in texts.items()}
        self.lengths |= {row: kept_length(len(text)) for row, text in texts.items()}
        self.total += sum(map(len, texts.values()))
        self.blocks.append(SpelledTexts(texts))
        while len(self.blocks) > 1 and len(self.blocks[-2].codes) < 2 * len(self.blocks[-1].codes):
            last = self.blocks.pop()
            self.blocks[-1] = SpelledTexts.merged(self.blocks[-1], last)

    def take_out(self, row: int) -> None:
        """Forget a row, one that is not here included."""
        if self.lengths.pop(row, None) is not None:
            self.total -= self._exact.pop(row)
            self._asked.clear()
            for block in self.blocks:
                block.remove(row)

    def having(self, token: str) -> Mapping[int, int]:
        """Return rows that have the token, and how often. The last character of a text is a token."""
        return self.holding(token if len(token) > 1 else token + _END)

    def holding(self, characters: str) -> Mapping[int, int]:
        """Return rows that have these characters side by side, and how often."""
        rows = self._asked.get(characters)
        if rows is None:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            rows = {row: many for block in self.blocks for row, many in block.having(characters).items()}
            self._asked[characters] = rows
        return rows

    def beginning(self, beginning: str) -> dict[str, int]:
        """Return the tokens that begin with a character, and the number of rows with each."""
        if len(beginning) != 1:
            return {}
        found = Counter[str]()
        for block in self.blocks:
            found.update(dict(block.following(beginning)))
        return +found

    def starting(self, beginning: str) -> set[int]:
        """Return the rows with a token that begins with a character."""
        return set(self.holding(beginning)) if len(beginning) == 1 else set()

    def phrase(self, tokens: tuple[tuple[int, str], ...]) -> set[int]:
        """Return the rows with pairs that overlap, each with the next one: a substring."""
        return set(self.holding("".join(token[0] for _, token in tokens) + tokens[-1][1][1:]))


SPELLED_AT_ONCE = 2_000_000
"""Characters that one search spells, a quarter of a second."""


class MemorySegment:
    """Records by row, in the order they came. For one thread at a time."""

    def __init__(self, analyst: RecordAnalyzer) -> None:
        self._analyst = analyst
        self.entries: dict[int, SegmentEntry] = {}
        self._spaces: dict[str, SegmentSpace] = {}
        self._pairs: dict[str, SegmentPairs] = {}
        self._left = SPELLED_AT_ONCE

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entries: Iterable[SegmentEntry]) -> None:
        """Add entries. Their tokens are counted when they are first needed."""
        for entry in entries:
            self.entries[entry.row] = entry

    def remove(self, rows: Iterable[int]) -> None:
        """Forget rows, those that are not here included."""
        for row in rows:
            entry = self.entries.pop(row, None)
            if entry is not None:
                for space in self._spaces.values():
                    space.take_out(row)
                for pairs in self._pairs.values():
                    pairs.take_out(row)

    def begin_search(self) -> None:
        """Allow another :data:`SPELLED_AT_ONCE` characters to be spelled."""
        self._left = SPELLED_AT_ONCE

    @property
    def whole(self) -> bool:
        """Return whether no space that was searched lacks entries, because there are too many at once."""
        return all(len(pairs.lengths) == len(self.entries) for pairs in self._pairs.values())

    def space(self, name: str) -> SegmentSpace | SegmentPairs:
        """Return a space, brought up to date with all entries; see :attr:`whole`."""
        return self._spell_pairs(name) if name.startswith(_PAIRS) else self._count_tokens(name)

    def _spell_pairs(self, name: str) -> SegmentPairs:
        pairs = self._pairs.setdefault(name, SegmentPairs())
        if len(pairs.lengths) == len(self.entries) or self._left <= 0:
            return pairs
        texts: dict[int, str] = {}
        for row, entry in self.entries.items():
            if row not in pairs.lengths:
                texts[row] = pairs_spelling(entry.record.texts.get(name[len(_PAIRS) :], ""))
                self._left -= len(texts[row])
                if self._left <= 0:
                    break
        pairs.put(texts)
        return pairs

    def _count_tokens(self, name: str) -> SegmentSpace:
        space = self._spaces.setdefault(name, SegmentSpace())
        if len(space.lengths) == len(self.entries):
            return space
        single: list[SegmentEntry] = []
        for row, entry in self.entries.items():
            if row not in space.lengths:
                if name in entry.coded:
                    space.put_coded(row, entry.coded[name], entry.place)
                else:
                    single.append(entry)
        if len(single) >= _CODED:
            coded = CodedTokens.of([self._tokens(name, entry) for entry in single])
            for place, entry in enumerate(single):
                space.put_coded(entry.row, coded, place)
            return space
        for entry in single:
            tokens = self._tokens(name, entry)
            counts = Counter(tokens)
            counts.pop(GAP, None)
            space.put(entry.row, tokens, counts)
        return space

    def _tokens(self, name: str, entry: SegmentEntry) -> list[str]:
        return entry.analyzed(self._analyst).get(name, [])

    def having(self, term: TermMatch) -> Mapping[int, int]:
        """Return rows that have the token, and how often."""
        return self.space(term.space).having(term.token)

    def beginning(self, starts: PrefixMatch) -> dict[str, int]:
        """Return the tokens that begin so, and in how many rows each is."""
        return self.space(starts.space).beginning(starts.beginning)

    def rows(self, match: Match) -> set[int]:
        """Return the rows that match."""
        match match:
            case TermMatch():
                return set(self.having(match))
            case PhraseMatch(space, tokens):
                return self._phrase(space, tokens)
            case PrefixMatch(space, beginning):
                return self.space(space).starting(beginning)
            case AnyOf(of):
                return set().union(*(self.rows(each) for each in of))
            case AllOf(of):
                found = set(self.entries)
                for each in of:
                    found &= self.rows(each) if found else set()
                return found

    def _phrase(self, name: str, tokens: tuple[tuple[int, str], ...]) -> set[int]:
        space = self.space(name)
        if isinstance(space, SegmentPairs):
            return space.phrase(tokens)
        held = [space.having(token) for _, token in tokens]
        rows = set(held[0]).intersection(*held[1:])

        def places(row: int) -> list[str]:
            return space.places[row] if row in space.places else self._tokens(name, self.entries[row])

        return {row for row in rows if _side_by_side(places(row), tokens)}


def _side_by_side(places: list[str], tokens: tuple[tuple[int, str], ...]) -> bool:
    span, first = tokens[-1][0], tokens[0][1]
    starts = (at for at in range(len(places) - span) if places[at] == first)
    return any(all(places[at + by] == token for by, token in tokens) for at in starts)
