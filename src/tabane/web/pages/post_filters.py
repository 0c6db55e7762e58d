"""Filters of posts in the query of a page, and as parameters of operations; pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

MOST_NAMES = 100

_SEPARATOR = re.compile(r"[,、，\n]")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTH = re.compile(r"(\d{4})-(\d{2})")
TYPES = ("post", "like", "bookmark")


class PostFilterQuery(NamedTuple):
    """Filters as the address bar has them."""

    users: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> PostFilterQuery:
        """Return the filters in a query string. What is no date or type is left out."""
        types = tuple(name for name in _names(query.get("type", "")) if name in TYPES)
        return cls(
            tuple(name.removeprefix("@") for name in _names(query.get("user", ""))),
            _names(query.get("tag", "")),
            () if len(types) == len(TYPES) else types,
            _date(query.get("from", ""), last=False),
            _date(query.get("to", ""), last=True),
        )

    def __bool__(self) -> bool:
        return any(self)

    def parameters(self, *, dates: bool = True) -> dict[str, Any]:
        """Return the filters as parameters of an operation; without those that are not set."""
        found: dict[str, Any] = {}
        if self.users:
            found["user_filter"] = {"includes": list(self.users)}
        if self.tags:
            found["tags"] = list(self.tags)
        if self.types:
            found["log_type"] = list(self.types)
        span = {"from": self.since, "to": self.until}
        if dates and any(span.values()):
            found["date_filter"] = {name: day for name, day in span.items() if day}
        return found

    def query(self, *, dates: bool = True, **more: str) -> str:
        """Return the filters as a query string, together with other parameters."""
        found = {"user": ", ".join(self.users), "tag": ", ".join(self.tags), "type": ",".join(self.types)}
        if dates:
            found |= {"from": self.since, "to": self.until}
        return urlencode({name: value for name, value in {**found, **more}.items() if value})


def _names(text: str) -> tuple[str, ...]:
    names = (name.strip() for name in _SEPARATOR.split(text[:20_000]))
    return tuple(dict.fromkeys(name for name in names if name))[:MOST_NAMES]


def _date(text: str, *, last: bool) -> str:
    """Return a day, or the first or last day of a month, as YYYY-MM-DD; empty for anything else."""
    text = text.strip()
    if _DAY.fullmatch(text):
        return text
    month = _MONTH.fullmatch(text)
    if month is None or not 1 <= int(month[2]) <= 12 or int(month[1]) < 1:
        return ""
    day = calendar.monthrange(int(month[1]), int(month[2]))[1] if last else 1
    return f"{text}-{day:02}"
