"""Reports of changed definitions, for the log, the audit log and open pages.

It is imported with the first change.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from tabane.guard.definitions.definition import DefinitionKey, Kind
from tabane.guard.definitions.pins import PinnedDefinition

log = logging.getLogger("tabane.guard.definitions")

MOST_LOGGED = 20
"""Definitions of a list that the log names."""

LONGEST_DETAIL = 1_000
LONGEST_NAME = 100


class DefinitionNews(NamedTuple):
    """Definitions of one list that changed or came, those that look like an attack, and those that went."""

    server: str
    kind: Kind
    opened: tuple[PinnedDefinition, ...] = ()
    suspicious: tuple[PinnedDefinition, ...] = ()
    removed: tuple[DefinitionKey, ...] = ()
    held: frozenset[str] = frozenset()

    @property
    def detail(self) -> str:
        """Return it in a line for the audit log."""
        parts = [
            (f"{each.pin.why} {shown(each.key)} {each.pin.digest.hex()[:16]}" for each in self.opened),
            (f"suspicious {shown(each.key)}" for each in self.suspicious),
            (f"removed {shown(key)}" for key in self.removed),
        ]
        text = f"{self.server}: " + ", ".join(each for part in parts for each in part)
        return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 2] + " …"


def log_news(news: DefinitionNews) -> None:
    """Log what changed, at most twenty definitions of each list."""
    for key, pin in news.opened[:MOST_LOGGED]:
        held = " and is held back" if key.name in news.held else ""
        what = "is new" if pin.why == "added" else "has changed"
        log.warning("%s: the definition of %s %s%s", news.server, shown(key), what, held)
    for key, pin in news.suspicious[:MOST_LOGGED]:
        rules = ", ".join(dict.fromkeys(each.rule for each in pin.findings or ()))
        log.warning("%s: the definition of %s looks like an attack: %s", news.server, shown(key), rules)
    for key in news.removed[:MOST_LOGGED]:
        log.info("%s no longer lists %s", news.server, shown(key))
    more = sum(max(0, len(part) - MOST_LOGGED) for part in (news.opened, news.suspicious, news.removed))
    if more:
        log.warning("%s: %d more definitions changed", news.server, more)


def shown(key: DefinitionKey) -> str:
    """Return a definition in a few words of one line."""
    name = key.name if len(key.name) <= LONGEST_NAME else key.name[:LONGEST_NAME] + "…"
    return f"the {key.kind} {name!r}" if name else f"the {key.kind}"
