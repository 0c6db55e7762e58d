"""Trails: what was read lately by one caller, with one client, in one folder.

A trail only gains labels. It ends after 30 minutes without a call, and not with a connection, so that a
client that connects again keeps what it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tabane.guard.flows.trail_addresses import TrailAddresses
from tabane.servers.labels import PRIVATE, READ_LABELS, UNTRUSTED

IDLE = 1800.0
"""Seconds without a call after which a trail ends."""

STALE = 30.0
"""Seconds that the time on disk may lag behind."""

MOST_TRAILS = 1_024
MOST_SOURCES = 16
"""Sources of one label in a trail. Further ones are :data:`OTHERS`."""

LONGEST_KEY = 512
"""Characters of a client's name or folder. Longer ones are cut, and share a trail if they begin alike."""

OTHERS = "…"


class TrailKey(NamedTuple):
    """Whose trail it is: the holder, the name of the client, and its working folder."""

    holder: str
    client: str
    folder: str


SPILLED = TrailKey("", "", "")
"""The trail of all that had to make room. It counts for everybody, so that making room washes nothing off."""


@dataclass(slots=True)
class Trail:
    """The labels that one conversation has read. Its sources name the server and tool that brought a label.

    ``asked`` are pairs that a person was asked about, and ``passed`` those that one has let pass. Times are
    in seconds since 1970: ``since`` of the first label (0: it has none), ``used`` of the last call, ``kept``
    of the last call that is on disk. ``addresses`` is what is known of addresses. It ends with the hub.
    """

    key: TrailKey
    labels: int = 0
    private: dict[str, str] = field(default_factory=dict)
    untrusted: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    addresses: TrailAddresses = field(default_factory=TrailAddresses)
    since: float = 0.0
    used: float = 0.0
    kept: float = 0.0

    def add(self, labels: int, source: str, tool: str) -> bool:
        """Add the labels of a result. Return whether the trail knows more than before."""
        news = False
        if labels & PRIVATE:
            news = _note(self.private, source, tool)
        if labels & UNTRUSTED:
            news = _note(self.untrusted, source, tool) or news
        self.labels |= labels & READ_LABELS
        if self.labels and not self.since:
            self.since = self.used
        return news

    def take(self, other: Trail) -> None:
        """Add all that another trail has read. What a person let pass there is not taken."""
        self.addresses.whole = self.addresses.whole and not other.labels & PRIVATE
        self.labels |= other.labels
        for sources, others in ((self.private, other.private), (self.untrusted, other.untrusted)):
            for source, tool in others.items():
                _note(sources, source, tool)
        self.since = min(self.since or other.since, other.since or self.since)
        self.used = max(self.used, other.used)

    @property
    def is_stale(self) -> bool:
        """Return whether the time on disk is so old that the trail would end too early after a restart."""
        return self.used - self.kept > STALE

    def over(self, now: float) -> bool:
        """Return whether it has ended. A clock that was set back ends nothing."""
        return now - self.used > IDLE


def _note(sources: dict[str, str], source: str, tool: str) -> bool:
    if source in sources or OTHERS in sources:
        return False
    sources[source if len(sources) < MOST_SOURCES else OTHERS] = tool
    return True


class Trails:
    """The trails of a hub. At the limit, the oldest is joined to :data:`SPILLED`.

    ``clock`` returns seconds since 1970, because trails outlive the hub.
    """

    def __init__(self, clock: Callable[[], float], most: int = MOST_TRAILS) -> None:
        self.clock, self._most = clock, most
        self._trails: dict[TrailKey, Trail] = {}

    def __iter__(self) -> Iterator[Trail]:
        now = self.clock()
        return iter([trail for trail in self._trails.values() if not trail.over(now)])

    def find(self, key: TrailKey) -> Trail | None:
        """Return the trail of a caller; None if there is none."""
        trail = self._trails.get(key)
        return None if trail is None or trail.over(self.clock()) else trail

    def spilled(self) -> Trail | None:
        """Return what counts for every caller."""
        return self.find(SPILLED)

    def use(self, key: TrailKey) -> Trail:
        """Return the trail of a caller that makes a call now; a new one if there is none."""
        now = self.clock()
        trail = self._trails.pop(key, None)
        if trail is None or trail.over(now):
            trail = Trail(key)
            self._make_room(now)
        trail.used = max(now, trail.used) if now - trail.used > -IDLE else now
        self._trails[key] = trail
        return trail

    def restore(self, trail: Trail) -> None:
        """Add a trail of an earlier run, unless it has ended."""
        if not trail.over(self.clock()):
            trail.addresses.whole = not trail.labels & PRIVATE
            self._trails[trail.key] = trail

    def forget(self, fits: Callable[[TrailKey], bool]) -> int:
        """Remove the trails that fit. Return the number of those that had labels and had not ended."""
        now = self.clock()
        gone = [self._trails.pop(key) for key in list(self._trails) if fits(key)]
        return sum(1 for trail in gone if trail.labels and not trail.over(now))

    def _make_room(self, now: float) -> None:
        while len(self._trails) >= self._most:
            oldest = self._trails.pop(next(key for key in self._trails if key != SPILLED))
            if not oldest.over(now) and oldest.labels:
                spilled = self._trails.pop(SPILLED, None) or Trail(SPILLED)
                spilled.take(oldest)
                self._trails[SPILLED] = spilled
