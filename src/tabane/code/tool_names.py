"""Tools by the names that scripts give them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from tabane.code.identifiers import identifier, identifiers
from tabane.code.source_checks import ScriptSource

SANDBOX_MODULES = frozenset(
    {
        "asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime",
        "decimal", "functools", "gc", "hashlib", "itertools", "json", "math", "os", "pathlib", "posixpath",
        "random", "re", "sys", "time", "tomllib", "typing", "unicodedata",
    }
)  # fmt: skip
"""Modules that the sandbox has itself. It refuses a server of such a name, and a script may need both."""


def module_name(server: str) -> str:
    """Return the name of a server as a module, with an underscore if the sandbox has one: ``time_``."""
    found = identifier(server, "server")
    return f"{found}_" if found in SANDBOX_MODULES else found


class NamedTool(Struct, frozen=True):
    """A tool of a server under its public name, and the function that it is in a script."""

    name: str
    module: str
    function: str


class ToolNames:
    """The functions of all tools. Whoever may call only some of them uses the same names.

    ``tools`` has the server (empty for the hub's own), the tool's name there, and its public name.
    """

    def __init__(self, tools: Iterable[tuple[str, str, str]]) -> None:
        by_server: dict[str, dict[str, str]] = {}
        for server, name, public in tools:
            by_server.setdefault(server, {})[name] = public
        own = identifiers(by_server.pop("", {}), "tool")
        modules = identifiers(by_server, "server", own.values(), SANDBOX_MODULES)
        self.by_name: Mapping[str, NamedTool] = {each.name: each for each in _named(by_server, modules, own)}
        self._by_module: dict[str, list[NamedTool]] = {}
        for each in self.by_name.values():
            self._by_module.setdefault(each.module or each.function, []).append(each)

    def used(self, source: ScriptSource) -> list[NamedTool]:
        """Return the tools that a script may use: those of the modules that it names."""
        if source.dynamic:
            return list(self.by_name.values())
        return [each for name in source.names for each in self._by_module.get(name, ())]


def _named(
    by_server: Mapping[str, Mapping[str, str]], modules: Mapping[str, str], own: Mapping[str, str]
) -> Iterator[NamedTool]:
    for name, function in own.items():
        yield NamedTool(name, "", function)
    for server, tools in by_server.items():
        functions = identifiers(tools, "tool")
        for name, public in tools.items():
            yield NamedTool(public, modules[server], functions[name])
