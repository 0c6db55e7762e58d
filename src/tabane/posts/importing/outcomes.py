"""What became of each post in one import: counted once, whatever number of rows is about it."""

from __future__ import annotations

from enum import IntEnum

from tabane.posts.importing.ids import PostIdTable
from tabane.posts.importing.report import PostsImportReport

_LEVEL = 3


class PostOutcome(IntEnum):
    """What became of a post; it stands above the two bits of its level."""

    NEW = 4
    CHANGED = 8
    UNCHANGED = 12


class PostOutcomes:
    """The posts that were seen. ``ids`` are all of them, also those that no row was about."""

    def __init__(self, report: PostsImportReport) -> None:
        self.ids = PostIdTable("B")
        self._report = report

    def level(self, post: int) -> int:
        """The largest log_type that a row gave the post so far, 0 before the first."""
        return self.ids.get(post, 0) & _LEVEL

    def give(self, post: int, log_type: int) -> None:
        """A row of that log_type is about the post."""
        state = self.ids.get(post, 0)
        self.ids[post] = state & ~_LEVEL | max(state & _LEVEL, log_type)

    def count(self, post: int, outcome: PostOutcome) -> None:
        """One that is new or changed stays so, even where a later row leaves it as it is."""
        state = self.ids.get(post, 0)
        before = state & ~_LEVEL
        if before in (0, PostOutcome.UNCHANGED) and before != outcome:
            self._report.unchanged += (outcome is PostOutcome.UNCHANGED) - (before == PostOutcome.UNCHANGED)
            self._report.changed += outcome is PostOutcome.CHANGED
            self._report.new += outcome is PostOutcome.NEW
            self.ids[post] = state & _LEVEL | outcome

    def remove(self, post: int) -> None:
        """The post is removed: no row was about it, though results or vectors may have been."""
        state = self.ids.get(post, 0)
        self._report.unchanged -= state == PostOutcome.UNCHANGED
        self._report.changed -= state == PostOutcome.CHANGED
        self._report.removed += 1
