"""Learned types of results, separate for each caller: which results are looked at, and their schemas.

Pure. Results come as values, and the clock is the number of calls.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from tabane.code.result_types.kept_shapes import KeptType, line_of, read_line
from tabane.code.result_types.observing import shape_of
from tabane.code.result_types.schemas import schema_of
from tabane.code.result_types.settling import settled
from tabane.code.result_types.shapes import SEVERAL, ResultShape, bounded, merged

MOST_TOOLS = 1_000
"""Pairs of caller and tool. Beyond it, the one that was called longest ago is forgotten."""

ALL = 6
"""Results of a tool of which each is looked at. Of later ones fewer are, until one shows something new."""

RAREST = 256
"""Calls of which one is looked at, if nothing new was seen for long."""

_REMEMBERED = 8
"""Results of a tool whose content is remembered, to know a repetition."""


class ToolKey(NamedTuple):
    """A caller, and a tool with its server and the digest of its definition."""

    holder: str
    tool: str
    server: str
    digest: str


class LearnedType:
    """The learned type of one tool for one caller."""

    def __init__(self, key: ToolKey, results: int = 0, shape: ResultShape | None = None) -> None:
        self.key, self.results = key, results
        self._shape = shape
        self._schema: dict[str, Any] | None = None
        self._step = self._skipped = 0
        self._contents: OrderedDict[int, int] = OrderedDict()

    def is_due(self) -> bool:
        """Count a call, and return whether its result should be looked at."""
        self._skipped += 1
        if self.results >= ALL and self._skipped < self._step:
            return False
        self._skipped = 0
        return True

    def observed(self, value: Any, content: int) -> ResultShape:
        """Return the shape of a result. ``content`` is a digest of its content. It may run in a thread."""
        return shape_of(value, self.results + 1, self._contents.get(content))

    def learn(self, shape: ResultShape, content: int) -> None:
        """Add the shape of a result."""
        self.results += 1
        self._contents.setdefault(content, self.results)
        if len(self._contents) > _REMEMBERED:
            self._contents.popitem(last=False)
        self._shape = bounded(merged(self._shape, shape) or shape)
        known, self._schema = self._schema, None
        if self.results > ALL:
            is_new = self.schema != known and known is not None
            self._step = 1 if is_new else min(RAREST, max(1, self._step) * 2)

    @property
    def schema(self) -> dict[str, Any] | None:
        """Return the schema of the results; None if too few were seen, or nothing can be said."""
        if self._shape is None or self.results < SEVERAL:
            return None
        if self._schema is None:
            self._schema = schema_of(settled(self._shape))
        return self._schema or None

    def line(self) -> bytes | None:
        """Return the line that is stored; None before anything was learned."""
        kept = KeptType(*self.key, results=self.results)
        return None if self._shape is None else line_of(kept, self._shape)


def read_types(lines: Iterable[bytes]) -> tuple[list[LearnedType], int]:
    """Return what lines of a file say, and how many are unreadable. The last line of a tool counts."""
    found: dict[tuple[str, str], LearnedType] = {}
    faults = 0
    for line in lines:
        read = read_line(line)
        if read is None:
            faults += 1
            continue
        kept, shape = read
        key = ToolKey(kept.holder, kept.tool, kept.server, kept.digest)
        found.pop(key[:2], None)
        found[key[:2]] = LearnedType(key, kept.results, shape)
    return list(found.values()), faults


class LearnedTypes:
    """The types of all tools. ``fresh`` are those that have changed since they were written."""

    def __init__(self) -> None:
        self._types: OrderedDict[tuple[str, str], LearnedType] = OrderedDict()
        self.fresh: dict[tuple[str, str], LearnedType] = {}

    def __len__(self) -> int:
        return len(self._types)

    def restore(self, found: Iterable[LearnedType]) -> None:
        """Take what was learned earlier, the longest unused first."""
        for each in found:
            self._put(each)

    def of_call(self, key: ToolKey) -> LearnedType:
        """Return the type to which a call belongs. A tool whose definition has changed starts afresh."""
        known = self._types.get(key[:2])
        if known is None or known.key != key:
            known = LearnedType(key)
            self._put(known)
        else:
            self._types.move_to_end(key[:2])
        return known

    def find(self, key: ToolKey) -> LearnedType | None:
        """Return what was learned of this definition of a tool."""
        known = self._types.get(key[:2])
        return known if known is not None and known.key == key else None

    def learn(self, learned: LearnedType, shape: ResultShape, content: int) -> None:
        """Add the shape of a result, unless the tool was forgotten meanwhile."""
        if self._types.get(learned.key[:2]) is learned:
            learned.learn(shape, content)
            self.fresh[learned.key[:2]] = learned

    def forget(self, name: str = "") -> int:
        """Forget a tool, the tools of a server, or all; for every caller. Return how many were forgotten."""
        gone = [
            key for key, each in self._types.items()
            if not name or name in (each.key.tool, each.key.server)
        ]  # fmt: skip
        found = sum(self._types.pop(key).results > 0 for key in gone)
        for key in gone:
            self.fresh.pop(key, None)
        return found

    def take_fresh(self) -> list[LearnedType]:
        """Return what has changed since the last call."""
        fresh, self.fresh = list(self.fresh.values()), {}
        return fresh

    def all(self) -> list[LearnedType]:
        """Return everything, the longest unused first."""
        return list(self._types.values())

    def _put(self, learned: LearnedType) -> None:
        place = learned.key[:2]
        self._types.pop(place, None)
        self._types[place] = learned
        if len(self._types) > MOST_TOOLS:
            gone, _ = self._types.popitem(last=False)
            self.fresh.pop(gone, None)
