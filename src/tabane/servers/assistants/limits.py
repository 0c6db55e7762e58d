"""Limits that programs keep beside their servers: tools that are off or ask, servers that are off.

Sources, for the file with the servers: the references of opencode (``tools``, ``permission``), Gemini CLI
(``mcp.allowed``, ``tools.exclude``), Amp (``amp.tools.disable``, ``amp.mcpPermissions``) and Zed
(``agent.profiles``). For other files: Claude Code's "Configure permissions" (``mcp__SERVER__TOOL`` in
settings.json), "Permissions" of Cursor's CLI (``Mcp(SERVER:TOOL)`` in cli-config.json), and goose's "Tool
permissions" (permission.yaml). Limits of a single agent or profile that is not the default are not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from tabane.servers.assistants.table import Client, UserMachine
from tabane.servers.foreign_keys import narrow

Rules = Iterable[tuple[str, str]]
"""Patterns of tools as a program names them, and what it says about them: deny or confirm."""


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
    """The limits on servers that are beside them in a file, or in other files of the same program."""

    def __init__(self, root: Any, beside: Rules = ()) -> None:
        self._root = root if isinstance(root, dict) else {}
        self._beside = tuple(beside)

    def applied(self, name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the definition of a server with the limits of its file."""
        made = dict(definition)
        rules = (
            *self._of_opencode(name),
            *self._of_exclusions(name),
            *self._of_zed(name),
            *_matching(self._beside, name),
        )
        for key, globs in ToolRules(rules).keys().items():
            narrow(made, key, globs)
        mcp = self._table("mcp")
        excluded = [*_texts_in(mcp.get("excluded")), *_texts_in(self._root.get("excludeMCPServers"))]
        allowed = [mcp.get("allowed"), self._root.get("allowMCPServers")]
        if name in excluded or any(isinstance(names, list) and name not in names for names in allowed):
            made["enabled"] = False
        # Those of Amp, if some of them reject servers.
        permissions = self._root.get("amp.mcpPermissions")
        if isinstance(permissions, list):
            permissions = [rule for rule in permissions if isinstance(rule, dict)]
            if any(rule.get("action") == "reject" for rule in permissions):
                made["permissions"] = permissions
        return made

    def _of_opencode(self, name: str) -> Iterable[tuple[str, str]]:
        prefix = re.sub(r"[^A-Za-z0-9_-]", "_", name) + "_"
        states = {False: "deny", True: "allow", "deny": "deny", "ask": "confirm", "allow": "allow"}
        for key in ("tools", "permission"):
            given = self._root.get(key)
            table = given if isinstance(given, dict) else {"*": given}
            for pattern, value in table.items():
                state = states.get(value) if isinstance(value, bool | str) else None
                if state is not None and isinstance(pattern, str):
                    yield from ((glob, state) for glob in _own_globs(pattern, prefix))

    def _of_exclusions(self, name: str) -> Iterable[tuple[str, str]]:
        tools = self._table("tools")
        for patterns, prefixes in (
            (self._root.get("amp.tools.disable"), (f"mcp__{name}__",)),
            (self._root.get("excludeTools"), (f"{name}__", f"mcp_{name}_")),
            (tools.get("exclude"), (f"{name}__", f"mcp_{name}_")),
        ):
            for pattern in _texts_in(patterns):
                for prefix in prefixes:
                    yield from ((glob, "deny") for glob in _own_globs(pattern, prefix))

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

    def _table(self, key: str) -> Mapping[str, Any]:
        value = self._root.get(key)
        return value if isinstance(value, dict) else {}


def _own_globs(pattern: str, prefix: str) -> list[str]:
    """Return the globs of a server's own names of tools that a pattern of prefixed names stands for."""
    if pattern.startswith(prefix):
        return [pattern.removeprefix(prefix)] if pattern != prefix else []
    if pattern.endswith("*") and fnmatchcase(prefix, pattern):
        return ["*"]
    if pattern.startswith("*"):
        return [pattern, pattern.lstrip("*_")]
    return []


def _texts_in(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


# -- other files ---------------------------------------------------------------------------------

_CURSOR = re.compile(r"Mcp\(\s*([^:,()]+?)\s*[:,]\s*([^()]*?)\s*\)")

_MANAGED = {
    "linux": "/etc/claude-code/managed-settings.json",
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
}
"""Claude Code's settings of an organization, whose rules come before those of the user."""

Reader = Callable[[Path], Any]
"""Returns the value of a file. Raises FileNotFoundError and ConfigurationError."""


def rules_beside(client: Client, machine: UserMachine, read: Reader, folder: Path | None = None) -> Rules:
    """Return the rules on tools that a client keeps in further files: the user's, and those of a project.

    Raises what ``read`` raises for a file that is broken: a limit must not get lost.
    """
    return [rule for path in _files(client, machine, folder) for rule in _rules(client, path, read)]


def project_rules(client: Client, folder: Path, read: Reader) -> Rules:
    """Return the rules of a project alone. Raises as :func:`rules_beside`."""
    return [rule for path in _project_files(client, folder) for rule in _rules(client, path, read)]


def _project_files(client: Client, folder: Path) -> Iterator[Path]:
    if client.name == "claude-code":
        yield folder / ".claude" / "settings.json"
        yield folder / ".claude" / "settings.local.json"
    if client.name == "cursor":
        yield folder / ".cursor" / "cli.json"


def _files(client: Client, machine: UserMachine, folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield from _project_files(client, folder)
    if client.name == "claude-code":
        given = machine.environ.get("CLAUDE_CONFIG_DIR", "")
        yield (Path(given) if os.path.isabs(given) else machine.path(".claude")) / "settings.json"
        yield Path(_MANAGED.get(machine.platform, _MANAGED["linux"]))
    if client.name == "cursor":
        yield machine.path(".cursor/cli-config.json")
        if machine.platform == "linux" and os.path.isabs(machine.environ.get("XDG_CONFIG_HOME", "")):
            yield machine.path("@xdg/cursor/cli-config.json")
    if client.name == "goose":
        yield machine.path("@xdg/goose/permission.yaml")


def _rules(client: Client, path: Path, read: Reader) -> Iterator[tuple[str, str]]:
    try:
        root = read(path)
    except FileNotFoundError:
        return
    key, states = "permissions", {"deny": "deny", "ask": "confirm"}
    if client.name == "goose":
        key, states = "user", {"never_allow": "deny", "ask_before": "confirm"}
    table = root.get(key) if isinstance(root, dict) else None
    for name, state in states.items():
        for rule in _texts_in(table.get(name) if isinstance(table, dict) else None):
            if found := _CURSOR.fullmatch(rule):
                rule = f"mcp__{found[1]}__{found[2]}"
            yield rule, state


def _matching(rules: Rules, name: str) -> Iterator[tuple[str, str]]:
    """Yield the rules about a server of that name, with globs of its own names of tools."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    prefixes = dict.fromkeys((f"mcp__{plain}__", f"mcp__{name}__", f"{plain}__", f"{name}__"))
    for pattern, state in rules:
        if pattern in (f"mcp__{plain}", f"mcp__{name}"):
            yield "*", state
            continue
        head, _, tool = pattern.removeprefix("mcp__").partition("__")
        if pattern.startswith("mcp__") and tool and "*" in head and fnmatchcase(name, head):
            yield tool, state
            continue
        for prefix in prefixes:
            if globs := _own_globs(pattern, prefix):
                yield from ((glob, state) for glob in globs)
                break
