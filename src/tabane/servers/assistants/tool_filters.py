"""Limits that programs keep beside their servers: tools that are off, servers that are not started. Pure.

Sources: the references of opencode (``tools``, ``permission``), Gemini CLI (``mcp.allowed``,
``tools.exclude``), Amp (``amp.tools.disable``, ``amp.mcpPermissions``) and Zed (``agent.profiles``). Limits
of a single agent or profile that is not the default are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from tabane.servers.foreign_keys import narrow

Definition = dict[str, Any]


class ToolRules(Struct, frozen=True):
    """Globs of a server's tools, and what a file says about them, in its order: allow, deny or confirm."""

    rules: tuple[tuple[str, str], ...] = ()

    def keys(self) -> dict[str, list[str]]:
        """Return the keys of a definition that allow no more. Of a contradiction, the narrower part stays."""
        by_state = {state: [glob for glob, each in self.rules if each == state] for _, state in self.rules}
        found: dict[str, list[str]] = {key: by_state[key] for key in ("deny", "confirm") if key in by_state}
        if "*" in found.get("deny", ()) and by_state.get("allow"):
            found["deny"].remove("*")
            found["allow"] = by_state["allow"]
        return {key: globs for key, globs in found.items() if globs}


class ServerFilters:
    """The limits on servers that stand beside them in a file."""

    def __init__(self, root: Any) -> None:
        self._root = root if isinstance(root, dict) else {}

    def applied(self, name: str, definition: Definition) -> Definition:
        """Return the definition of a server with the limits of its file."""
        made = dict(definition)
        rules = (
            *self._of_opencode(name),
            *self._of_exclusions(name),
            *self._of_zed(name),
        )
        for key, globs in ToolRules(rules).keys().items():
            narrow(made, key, globs)
        if self._is_off(name):
            made["enabled"] = False
        rejecting = self._rejecting()
        return made | ({"permissions": rejecting} if rejecting else {})

    def _of_opencode(self, name: str) -> Iterable[tuple[str, str]]:
        prefix = re.sub(r"[^A-Za-z0-9_-]", "_", name) + "_"
        states = {False: "deny", True: "allow", "deny": "deny", "ask": "confirm", "allow": "allow"}
        for key in ("tools", "permission"):
            given = self._root.get(key)
            table = given if isinstance(given, dict) else {"*": given}
            for pattern, value in table.items():
                state = states.get(value) if isinstance(value, bool | str) else None
                if state is not None and isinstance(pattern, str):
                    yield from ((glob, state) for glob in _globs(pattern, prefix))

    def _of_exclusions(self, name: str) -> Iterable[tuple[str, str]]:
        tools = self._table("tools")
        for patterns, prefixes in (
            (self._root.get("amp.tools.disable"), (f"mcp__{name}__",)),
            (self._root.get("excludeTools"), (f"{name}__", f"mcp_{name}_")),
            (tools.get("exclude"), (f"{name}__", f"mcp_{name}_")),
        ):
            for pattern in _texts(patterns):
                for prefix in prefixes:
                    yield from ((glob, "deny") for glob in _globs(pattern, prefix))

    def _of_zed(self, name: str) -> Iterable[tuple[str, str]]:
        agent = self._table("agent")
        profiles, chosen = agent.get("profiles"), agent.get("default_profile", "write")
        profile = profiles.get(chosen) if isinstance(profiles, dict) and isinstance(chosen, str) else None
        profile = profile if isinstance(profile, dict) else {}
        if profile.get("enable_all_context_servers") is False:
            yield "*", "deny"
        servers = profile.get("context_servers")
        server = servers.get(name) if isinstance(servers, dict) else None
        tools = server.get("tools") if isinstance(server, dict) else None
        for tool, state in tools.items() if isinstance(tools, dict) else ():
            yield tool, "allow" if state is True else "deny"

    def _is_off(self, name: str) -> bool:
        mcp = self._table("mcp")
        excluded = [*_texts(mcp.get("excluded")), *_texts(self._root.get("excludeMCPServers"))]
        allowed = [mcp.get("allowed"), self._root.get("allowMCPServers")]
        return name in excluded or any(isinstance(names, list) and name not in names for names in allowed)

    def _rejecting(self) -> list[Any]:
        """Return the rules of Amp if some of them reject servers."""
        rules = self._root.get("amp.mcpPermissions")
        rules = [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
        return rules if any(rule.get("action") == "reject" for rule in rules) else []

    def _table(self, key: str) -> Mapping[str, Any]:
        value = self._root.get(key)
        return value if isinstance(value, dict) else {}


def _globs(pattern: str, prefix: str) -> list[str]:
    """Return the globs of a server's own names of tools that a pattern of prefixed names stands for."""
    if pattern.startswith(prefix):
        return [pattern.removeprefix(prefix)] if pattern != prefix else []
    if pattern.endswith("*") and fnmatchcase(prefix, pattern):
        return ["*"]
    if pattern.startswith("*"):
        return [pattern, pattern.lstrip("*_")]
    return []


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
