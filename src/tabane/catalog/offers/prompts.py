"""Catalog of all prompts of all upstreams under their public names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw, Struct

from tabane.catalog.tools.aliases import AliasMap, other_names
from tabane.catalog.tools.definition_repair import RepairReport
from tabane.catalog.tools.tool import by_key
from tabane.messages import Message
from tabane.servers.server import Server
from tabane.wire.json import fields, join, quote

MOST = 20_000
"""Prompts that are accepted from one server."""


class Prompt(Struct, frozen=True):
    """One prompt: ``name`` is its server's own, ``alias`` the public one, as in ``definition``.

    ``others`` are further names that patterns of permissions match.
    """

    server: str
    name: str
    alias: str
    definition: bytes
    others: tuple[str, ...] = ()


class PromptCatalog:
    """Prompts by alias, named as tools are. ``version`` changes whenever what a client sees has changed.

    The configuration's ``allow`` and ``deny`` are about tools: every prompt is offered.
    """

    def __init__(self, aliases: AliasMap) -> None:
        self.aliases = aliases
        self.version = 0
        self._by_server: dict[str, tuple[Prompt, ...]] = {}
        self._by_alias: dict[str, Prompt] = {}
        self._items: tuple[tuple[str, bytes], ...] | None = None
        self._reports: dict[str, RepairReport] = {}

    def put(self, server: Server, definitions: Iterable[Raw]) -> bool:
        """Store what a server listed; return whether anything changed.

        An invalid definition, or one with a repeated name, is left out and logged.
        """
        report = self._reports[server.name] = RepairReport("prompts/list")
        named = by_key(server.name, "prompt", definitions, report, MOST)
        self.aliases = self.aliases.with_names(server.name, server.namespace, named)
        prompts = []
        for name, definition in named.items():
            alias = self.aliases.alias_of(server.name, server.namespace, name)
            if alias is not None:
                renamed = join({**fields(definition), "name": Raw(quote(alias))})
                others = other_names(server.name, server.namespace, name, alias)
                prompts.append(Prompt(server.name, name, alias, renamed, others))
        return self._set(server.name, tuple(prompts))

    def remove(self, server: str) -> bool:
        """Remove the prompts of a server. Their names stay reserved."""
        self._reports.pop(server, None)
        return self._set(server, None)

    def repairs(self, server: str) -> list[Message]:
        """Return what was repaired and left out of the prompts of a server."""
        return self._reports[server].messages() if server in self._reports else []

    def has(self, server: str) -> bool:
        """Return whether the prompts of that server are known."""
        return server in self._by_server

    def of_server(self, server: str) -> tuple[Prompt, ...]:
        """Return the prompts of a server, as it lists them."""
        return self._by_server.get(server, ())

    def find(self, name: str) -> Prompt | None:
        """Return the prompt of that name: an alias, or ``server.prompt`` or ``server__prompt``."""
        return self._by_alias.get(name) or self._by_alias.get(self.aliases.resolve(name) or "")

    @property
    def names(self) -> list[str]:
        """Return the public names of all prompts."""
        return list(self._by_alias)

    def items(self) -> Sequence[tuple[str, bytes]]:
        """Return (alias, definition) of all, by server and then as their servers list them."""
        if self._items is None:
            prompts = (prompt for of_server in self._by_server.values() for prompt in of_server)
            self._items = tuple((prompt.alias, prompt.definition) for prompt in prompts)
        return self._items

    def _set(self, server: str, prompts: tuple[Prompt, ...] | None) -> bool:
        before = self._by_server.get(server)
        if before == prompts:
            return False
        for prompt in before or ():
            self._by_alias.pop(prompt.alias, None)
        if prompts is None:
            del self._by_server[server]
        else:
            # Servers in order of name: a list must not depend on which server started first.
            self._by_server = dict(sorted({**self._by_server, server: prompts}.items()))
        self._by_alias.update((prompt.alias, prompt) for prompt in prompts or ())
        self._items = None
        if not before and not prompts:
            return False
        self.version += 1
        return True
