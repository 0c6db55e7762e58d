"""Mode, filters and view of the prompt's next query, and the commands that change them; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tabane.cli.posts.post_options import KINDS, PRESETS, WEIGHING, Weights, limits, weights_name, weights_of
from tabane.cli.posts.view import VIEWS, View
from tabane.errors import CallerError
from tabane.messages import Message, say
from tabane.posts.query import MODES, Mode
from tabane.text.time_zones import Machine, bound

MOST = 100
"""Posts that one query finds at most."""

OFF = ("off", "-")
"""The words that remove a filter."""

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_THRESHOLD = re.compile(r"(>=|<=)(\d+)")
_DATES = re.compile(r"(.*?)\.\.(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Mode, filters and view of queries. ``top`` is the number of posts per page.

    If the mode is None, the hub chooses it.
    """

    mode: Mode | None = None
    weights: Weights | None = None
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    since: str | None = None
    until: str | None = None
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    top: int = 10
    view: View = "normal"

    def params(self, query: str) -> dict[str, Any]:
        """Return the parameters of search_similar."""
        narrowed = limits(
            users=self.includes,
            not_users=self.excludes,
            least=self.least,
            most=self.most,
            since=self.since,
            until=self.until,
            tags=self.tags,
            kinds=self.kinds,
        )
        weighing = self.weights is not None and self.mode in WEIGHING
        weights = {"weights": list(self.weights or ())} if weighing else {}
        mode = {"mode": self.mode} if self.mode else {}
        return {"query": query, **mode, "top_k": MOST, **weights, **narrowed}

    def summary(self) -> str:
        """Return the settings that differ from the defaults, for the prompt."""
        parts = [
            self.mode or "",
            weights_name(self.weights) if self.weights and self.mode in WEIGHING else "",
            *(f"@{name}" for name in self.includes),
            *(f"-@{name}" for name in self.excludes),
            f">={self.least}" if self.least is not None else "",
            f"<={self.most}" if self.most is not None else "",
            f"{self.since or ''}..{self.until or ''}" if self.since or self.until else "",
            *(f"#{tag}" for tag in self.tags),
            *self.kinds,
        ]
        return " ".join(part for part in parts if part)


def with_users(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse ``alice bob`` (only these), ``-alice`` (all others), ``>=10`` and ``<=500`` (number of posts)."""
    bounds: dict[str, int] = {}
    includes: list[str] = []
    excludes: list[str] = []
    for word in words:
        if threshold := _THRESHOLD.fullmatch(word):
            bounds[threshold[1]] = int(threshold[2])
        else:
            (excludes if word.startswith("-") else includes).append(word.lstrip("-").removeprefix("@"))
    if includes and excludes:
        raise CallerError(say("Give users to include, or users to exclude (-NAME), but not both."))
    return replace(
        wanted,
        includes=tuple(includes),
        excludes=tuple(excludes),
        least=bounds.get(">="),
        most=bounds.get("<="),
    )


def with_dates(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse ``FROM TO``, ``FROM..TO``, ``FROM..``, ``..TO``, or a single start."""
    if span := _DATES.fullmatch(" ".join(words)):
        since, until = span[1].strip(), span[2].strip()
    else:
        dates = _joined(words)
        if len(dates) > 2:
            raise CallerError(say("Give one or two dates: /date 2024-01-01 2024-12-31"))
        since, until = dates[0], dates[1] if len(dates) == 2 else ""
    for text, end in ((since, False), (until, True)):
        if text:
            bound(text, Machine(), "/date", end=end)
    return replace(wanted, since=since or None, until=until or None)


def with_top(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse the number of posts per page."""
    if len(words) != 1 or not words[0].isdecimal() or not 1 <= int(words[0]) <= MOST:
        raise CallerError(say("/top needs a number from 1 to {most}.", most=MOST))
    return replace(wanted, top=int(words[0]))


def with_mode(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse a mode. Modes average and weighted can be followed by weights."""
    mode = next((mode for mode in MODES if words[0] == mode), None)
    if mode is None:
        raise CallerError(
            say("There is no mode {mode}. Modes: {modes}", mode=words[0], modes=", ".join(MODES))
        )
    changed = replace(wanted, mode=mode)
    return with_weights(changed, words[1:]) if len(words) > 1 else changed


def with_weights(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse the name or number (from 1) of a preset, or three numbers. Sets a mode that uses weights."""
    given = " ".join(words)
    numbered = dict(enumerate(PRESETS.values(), 1))
    weights = numbered.get(int(given)) if given.isdecimal() else None
    mode: Mode | None = wanted.mode if wanted.mode in WEIGHING else "average"
    return replace(wanted, weights=weights or weights_of(given), mode=mode)


def with_view(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse a view: normal, list or detail."""
    view = next((view for view in VIEWS if words[0] == view), None)
    if view is None:
        raise CallerError(
            say("There is no view {view}. Views: {views}", view=words[0], views=", ".join(VIEWS))
        )
    return replace(wanted, view=view)


def with_tags(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse tags. Posts with one of them are found."""
    return replace(wanted, tags=tuple(word.removeprefix("#") for word in words))


def with_kinds(wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
    """Parse types of posts: post, like, bookmark."""
    for word in words:
        if word not in KINDS:
            raise CallerError(
                say("There is no type {kind}. Types: {kinds}", kind=word, kinds=", ".join(KINDS))
            )
    return replace(wanted, kinds=tuple(words))


def numbers(text: str, most: int) -> list[int]:
    """Parse ``1-3,7`` as 1, 2, 3, 7. Raises CallerError if a number is not from 1 to ``most``."""
    found: dict[int, None] = {}
    for part in text.replace(",", " ").split():
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else 0
        if not 1 <= first <= last <= most:
            raise CallerError(
                say("{text} is not a list of numbers from 1 to {most}, such as 1-3,7.", text=part, most=most)
            )
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


class SettingCommand(NamedTuple):
    """A command that changes the settings. ``off`` resets its ``fields`` of :class:`QuerySettings`."""

    usage: str
    about: Message
    change: Callable[[QuerySettings, Sequence[str]], QuerySettings]
    fields: tuple[str, ...]

    def apply(self, wanted: QuerySettings, words: Sequence[str]) -> QuerySettings:
        """Return the settings after the command. Raises CallerError that says what is wrong."""
        if len(words) == 1 and words[0] in OFF:
            plain = QuerySettings()
            return replace(wanted, **{name: getattr(plain, name) for name in self.fields})
        return self.change(wanted, words)


SETTINGS = {
    "/user": SettingCommand(
        "NAME… | -NAME… | >=N <=N | off",
        say("Only posts of these users; -NAME excludes a user; >=N keeps users with at least N posts."),
        with_users,
        ("includes", "excludes", "least", "most"),
    ),
    "/date": SettingCommand(
        "FROM TO | FROM.. | ..TO | off",
        say("Only posts of that period; a date without a time is the whole day."),
        with_dates,
        ("since", "until"),
    ),
    "/top": SettingCommand("N", say("Number of posts on a page."), with_top, ("top",)),
    "/mode": SettingCommand(
        "|".join(MODES) + " | off", say("What the query is compared with."), with_mode, ("mode", "weights")
    ),
    "/weights": SettingCommand(
        "PRESET | C/R/S | off",
        say("Weights of content, reasoning and summary, in modes average and weighted."),
        with_weights,
        ("weights",),
    ),
    "/view": SettingCommand("|".join(VIEWS), say("How posts are shown."), with_view, ("view",)),
    "/tag": SettingCommand("TAG… | off", say("Only posts with one of these tags."), with_tags, ("tags",)),
    "/type": SettingCommand(
        " ".join(KINDS) + " | off", say("Only posts, likes or bookmarks."), with_kinds, ("kinds",)
    ),
}


def _joined(words: Sequence[str]) -> list[str]:
    """Combine words into dates: a time belongs to the day before it."""
    dates: list[str] = []
    for word in words:
        if ":" in word and dates and ":" not in dates[-1]:
            dates[-1] += f" {word}"
        else:
            dates.append(word)
    return dates
