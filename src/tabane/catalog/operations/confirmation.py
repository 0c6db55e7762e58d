"""The rule of `confirm`: tools of servers whose calls a person approves, each on its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

from msgspec import Raw

from tabane.catalog.tools.tool import Tool
from tabane.messages import say
from tabane.operations import Caller, CallTarget
from tabane.operations.guarding import CallVerdict
from tabane.servers.server import Server

RULE = "confirm"

MOST_REMEMBERED = 4096
"""Tools of which it is remembered whether a pattern matches; beyond it, the memory begins again."""


class ConfirmRule:
    """Asks for a person before calls of tools that ``confirm`` of their server names.

    A pattern matches the server's own name of a tool, the one that an override gives it, or the public one:
    a tool that is renamed does not get past it. ``find`` returns a tool by its public name.
    """

    def __init__(self, servers: Iterable[Server], find: Callable[[str], Tool | None]) -> None:
        self._find = find
        self._known: dict[str, tuple[Tool | None, bool]] = {}
        self._matches = {
            server.name: re.compile("|".join(map(translate, server.confirm))).match
            for server in servers
            if server.confirm
        }

    def _remember(self, name: str, tool: Tool | None, matched: bool) -> tuple[Tool | None, bool]:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[name] = found = (tool, matched)
        return found

    def __bool__(self) -> bool:
        """Return whether there is a tool that the rule may be about."""
        return bool(self._matches)

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        matches = self._matches.get(target.server)
        if matches is None or target.kind != "tool":
            return None
        tool = self._find(target.name)
        known = self._known.get(target.name)
        if known is None or known[0] is not tool:
            names = target.names if tool is None else (tool.name, tool.shown_name, *target.names)
            known = self._remember(target.name, tool, any(matches(name) for name in names))
        if not known[1]:
            return None
        reason = say("{server!n} wants each call of this tool to be confirmed.", server=target.server)
        return CallVerdict("ask", RULE, reason)

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes, result: bytes | Raw | None
    ) -> None:
        return None
