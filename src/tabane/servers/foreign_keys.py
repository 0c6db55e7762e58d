"""Keys of other programs in the definition of a server, translated to ours. Pure.

The same translation serves the servers file, files of projects and imports. A key that narrows what may be
used is never dropped: without an equivalent, it is named in ``narrowing``, and the server must not start.

Sources: the configuration references of Codex, Gemini CLI, goose, opencode, Continue, MCPHub and
mcphub.nvim, FastMCP, Cherry Studio, and the connectors of model APIs.

A command that is written as one line is split into program and arguments.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tabane.messages import Message, say
from tabane.servers.server_keys import KEYS

RENAMED = {
    **dict.fromkeys(("serverUrl", "httpUrl", "baseUrl", "server_url", "uri"), "url"),
    **dict.fromkeys(("environment", "envs"), "env"),
    **dict.fromkeys(("http_headers", "httpHeaders"), "headers"),
    **dict.fromkeys(("workingDirectory", "working_directory"), "cwd"),
    **dict.fromkeys(("transport", "transportType", "transport_type"), "type"),
    **dict.fromkeys(("disabledTools", "disabled_tools", "excludeTools", "exclude_tools"), "deny"),
    **dict.fromkeys(("excludedTools", "blockedTools", "blocked_tools", "deniedTools"), "deny"),
    **dict.fromkeys(("enabledTools", "enabled_tools", "includeTools", "include_tools"), "allow"),
    **dict.fromkeys(("includedTools", "allowedTools", "allowed_tools", "available_tools"), "allow"),
    "disabledAutoApproveTools": "confirm",
    "cmd": "command",
    "env_vars": "inherit",
    "isActive": "enabled",
    "is_active": "enabled",
    "active": "enabled",
}
"""Other programs' names for keys of ours."""

HARMLESS = frozenset(
    (
        *("alwaysAllow", "always_allow", "autoApprove", "auto_approve", "autoApproved", "autoAllow"),
        *("trust", "name", "description", "required", "dev", "gallery", "version", "source", "watchPaths"),
    )
)
"""Keys that have no effect here, and narrow nothing: most say what their own program does not ask about."""

_KINDS = {
    **dict.fromkeys(("stdio", "local"), "stdio"),
    **dict.fromkeys(("http", "streamablehttp", "httpstream", "streamable", "httpstreamable"), "http"),
    "sse": "sse",
}
_BY_KEYS = ("remote", "url", "mcp")
"""Types that say nothing about the transport: the other keys decide."""

_FILTERS = ("allow", "deny", "confirm")
_EMPTY_ALLOWS_ALL = ("allow", "available_tools")
"""Lists of allowed tools, ours and goose's, that allow everything if they are empty. Others allow nothing."""

_TAKES = re.compile(
    r"disabled?|exclude[ds]?|block(?:ed|list)?|blacklist|deny|denied|denylist|forbid(?:den)?|hid(?:e|den)"
    r"|ignored?|omit(?:ted)?|skip(?:ped)?|only|readonly"
)
_LEAVES = re.compile(
    r"enabled?|include[ds]?|allow(?:ed|list)?|whitelist|available|permit(?:ted)?|select(?:ed)?|filters?"
    r"|restrict(?:ed|ions)?|permissions?"
)
_ABOUT = re.compile(
    r"tools?|prompts?|resources?|templates?|tags?|operations?|methods?|actions?|capabilit(?:y|ies)|calls?|reads?"
    r"|writes?|list|mode|names|rules"
)


class OurDefinition(Struct, frozen=True):
    """A definition with our keys. ``sources`` are the keys that they were written as.

    ``left`` are keys without a meaning here, ``narrowing`` those among them that narrow what may be used.
    """

    values: dict[str, Any]
    sources: dict[str, str]
    left: tuple[str, ...] = ()
    narrowing: tuple[str, ...] = ()


def our_definition(members: Iterable[tuple[str, Any]], name: str = "") -> OurDefinition:
    """Return a definition with our keys. Values of a wrong type stay, so that their check names them.

    ``members`` are its keys and values; of a key that is there twice, the last one counts. ``name`` is the
    server's, which some programs write before the names of its tools.
    """
    reading = _Translator(name)
    for key, value in members:
        reading.take(key, value)
    return reading.settled()


def narrows(key: str, value: object) -> bool:
    """Return whether a key that is none of ours narrows what may be used, judged by its name and value."""
    words = set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-.]", "_", key).lower().split("_"))
    takes = any(map(_TAKES.fullmatch, words))
    if key in HARMLESS or not (takes or any(map(_LEAVES.fullmatch, words))):
        return False
    if isinstance(value, int | float) and value not in (0, 1):
        return False
    words = {word for word in words if not _TAKES.fullmatch(word) and not _LEAVES.fullmatch(word)}
    if words and not any(map(_ABOUT.fullmatch, words)):
        return False
    if isinstance(value, bool):
        return value if takes else not value
    return bool(value) if takes else True


def narrowing_key(key: str) -> Message:
    """Return why a definition with a key of :attr:`OurDefinition.narrowing` is not used."""
    return say(
        '"{key}" limits what may be used, and Tabane does not know it. Write the limit as "allow", "deny" or '
        '"confirm", and remove "{key}".',
        key=key,
    )


class _Translator:
    def __init__(self, name: str) -> None:
        self._name = name
        self._values: dict[str, Any] = {}
        self._sources: dict[str, str] = {}
        self._left: list[str] = []
        self._narrowing: list[str] = []
        self._added: dict[str, dict[str, Any]] = {"env": {}, "headers": {}, "oauth": {}}
        """Members of objects that other keys give; those of the object itself come first."""

    def take(self, key: str, value: Any) -> None:
        if value is None:
            return
        known = RENAMED.get(key, key)
        if key in _SPECIAL:
            _SPECIAL[key](self, key, value)
        elif known in _FILTERS:
            self._filter(known, key, value)
        elif known in KEYS:
            self._put(known, key, value)
        else:
            self._leave(key, value)

    def settled(self) -> OurDefinition:
        values = self._values
        command = values.get("command")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            args = values.get("args") or []
            values["command"] = command[0] if command else ""
            if len(command) > 1 and isinstance(args, list):
                self._put("args", self._sources.get("args", self._sources["command"]), [*command[1:], *args])
        kind = values.get("type")
        if isinstance(kind, str):
            plain = re.sub(r"[^a-z]", "", kind.lower())
            values["type"] = _KINDS.get(plain, kind)
            if plain in _BY_KEYS:
                del values["type"]
        for key, added in self._added.items():
            given = values.get(key, {})
            if added and isinstance(given, dict):
                values[key] = {**added, **given}
        return OurDefinition(values, self._sources, tuple(self._left), tuple(self._narrowing))

    def _put(self, known: str, key: str, value: Any) -> None:
        self._values[known] = value
        self._sources[known] = key

    def _leave(self, key: str, value: Any) -> None:
        self._left.append(key)
        if narrows(key, value):
            self._narrowing.append(key)

    def _filter(self, known: str, key: str, value: Any) -> None:
        """Take a list of tools. Two lists of allowed tools allow what both do, others are joined."""
        if isinstance(value, dict) and isinstance(value.get("tool_names"), list):
            value = value["tool_names"]
        if isinstance(value, list) and known == "allow" and any("(" in str(tool) for tool in value):
            self._leave(key, value)  # calls with some arguments only
            return
        if isinstance(value, list):
            value = [tool.partition("(")[0] if isinstance(tool, str) else tool for tool in value]
        if value == [] and known == "allow" and key not in _EMPTY_ALLOWS_ALL:
            known, value = "deny", ["*"]
        self._sources[known] = key
        narrow(self._values, known, value)
        if known == "allow" and known not in self._values:
            self._sources["deny"] = key

    def _add(self, known: str, key: str, members: Mapping[str, Any]) -> None:
        self._sources.setdefault(known, key)
        for name, value in members.items():
            self._added[known].setdefault(name, value)

    # -- keys whose value has another form ------------------------------------------------------------

    def _tools(self, key: str, value: Any) -> None:
        """Take a list of allowed tools, or an object of tools, in which some are off or need a question."""
        if isinstance(value, list):
            self._filter("allow", key, value)
            return
        if not isinstance(value, dict):
            self._put(key, key, value)
            return
        hints: dict[str, Any] = {}
        off: list[str] = []
        asked: list[str] = []
        for tool, given in value.items():
            state = given if isinstance(given, bool) else None
            if isinstance(given, dict):
                hints[tool] = {
                    part: each
                    for part, each in given.items()
                    if part not in ("enabled", "disabled", "approval_mode")
                }
                state = given.get("enabled")
                if given.get("disabled") is True:
                    state = False
                if given.get("approval_mode") == "prompt":
                    asked.append(tool)
            elif state is None:
                hints[tool] = given
            if state is False:
                off += dict.fromkeys((tool, tool.removeprefix(f"{self._name}-")))
        for known, tools in (("deny", off), ("confirm", asked)):
            if tools:
                self._filter(known, key, tools)
        if hints := {tool: given for tool, given in hints.items() if given != {}}:
            self._put(key, key, hints)

    def _bearer_variable(self, key: str, value: Any) -> None:
        if isinstance(value, str) and value:
            self._add("headers", key, {"Authorization": f"Bearer ${{{value}}}"})

    def _bearer(self, key: str, value: Any) -> None:
        if isinstance(value, str) and value:
            self._add("headers", key, {"Authorization": f"Bearer {value}"})

    def _header_variables(self, key: str, value: Any) -> None:
        if isinstance(value, dict):
            self._add("headers", key, {name: f"${{{variable}}}" for name, variable in value.items()})

    def _env_variables(self, key: str, value: Any) -> None:
        """Take Codex's list of variables that are passed on: names, or objects with a name."""
        if isinstance(value, list):
            value = [each.get("name") if isinstance(each, dict) else each for each in value]
        self._put("inherit", key, value)

    def _env_keys(self, key: str, value: Any) -> None:
        names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
        self._add("env", key, {name: f"${{{name}}}" for name in names})

    def _request(self, key: str, value: Any) -> None:
        """Take the options of requests of Continue and of the TypeScript SDK."""
        given = value if isinstance(value, dict) else {}
        if isinstance(given.get("headers"), dict):
            self._add("headers", key, given["headers"])
        if set(given) != {"headers"}:
            self._left.append(key)

    def _timeout(self, key: str, value: Any) -> None:
        if "timeout" not in self._values:
            self._put("timeout", key, value)

    def _milliseconds(self, key: str, value: Any) -> None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        self._timeout(key, value / 1000 if number else value)

    def _options(self, key: str, value: Any) -> None:
        """Take the options of MCPHub, whose time-out is in milliseconds."""
        if isinstance(value, dict) and "timeout" in value:
            self._milliseconds(key, value["timeout"])
        else:
            self._leave(key, value)

    def _configuration(self, key: str, value: Any) -> None:
        """Take the tools of an API's MCP connector."""
        given = value if isinstance(value, dict) else {}
        if given.get("enabled") is False:
            self._put("enabled", key, False)
        if given.get("allowed_tools") is not None:
            self._filter("allow", key, given["allowed_tools"])

    def _approval(self, key: str, value: Any) -> None:
        if value in ("prompt", "always", "ask"):
            self._filter("confirm", key, ["*"])
        elif value in ("auto", "approve", "never"):
            self._left.append(key)
        else:
            self._left.append(key)
            self._narrowing.append(key)

    def _scopes(self, key: str, value: Any) -> None:
        self._add("oauth", key, {"scopes": value})

    def _resource(self, key: str, value: Any) -> None:
        self._add("oauth", key, {"resource": value})

    def _auth(self, key: str, value: Any) -> None:
        """Take Cursor's object of a registered client."""
        names = {"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret", "scopes": "scopes"}
        given = value if isinstance(value, dict) else {}
        found = {names[name]: part for name, part in given.items() if name in names}
        if found:
            self._add("oauth", key, found)
        else:
            self._left.append(key)


_SPECIAL: Mapping[str, Callable[[_Translator, str, Any], None]] = {
    "tools": _Translator._tools,
    "bearer_token_env_var": _Translator._bearer_variable,
    "bearerTokenEnvVar": _Translator._bearer_variable,
    "authorization_token": _Translator._bearer,
    "apiKey": _Translator._bearer,
    "env_http_headers": _Translator._header_variables,
    "envHttpHeaders": _Translator._header_variables,
    "env_vars": _Translator._env_variables,
    "env_keys": _Translator._env_keys,
    "requestOptions": _Translator._request,
    "requestInit": _Translator._request,
    "tool_timeout_sec": _Translator._timeout,
    "tool_timeout_ms": _Translator._milliseconds,
    "toolTimeoutMs": _Translator._milliseconds,
    "options": _Translator._options,
    "tool_configuration": _Translator._configuration,
    "default_tools_approval_mode": _Translator._approval,
    "require_approval": _Translator._approval,
    "scopes": _Translator._scopes,
    "oauth_resource": _Translator._resource,
    "auth": _Translator._auth,
}


def narrow(definition: dict[str, Any], known: str, tools: Any) -> None:
    """Narrow a list of tools of a definition: ``known`` is allow, deny or confirm.

    An empty list of ours allows everything. So two lists of allowed tools with nothing in common become a
    ``deny`` of all.
    """
    before = definition.get(known)
    if not isinstance(before, list) or not isinstance(tools, list):
        definition[known] = tools
    elif known != "allow":
        definition[known] = [*before, *(tool for tool in tools if tool not in before)]
    elif not before or "*" in before:
        definition[known] = tools
    elif tools and "*" not in tools:
        definition[known] = [tool for tool in before if tool in tools]
        if not definition[known]:
            del definition[known]
            narrow(definition, "deny", ["*"])


def words_of_line(line: str) -> list[str]:
    """Return the words of a command line. Quotes group words; a backslash is a character of a path.

    If a quote is not closed, the line is split at its spaces.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def split_command(command: str, folder: str, path: str | None) -> list[str]:
    """Return the words of a "command" that also has arguments; empty if all of it is the program.

    A program whose name has spaces exists: in ``folder``, which relative paths start from, or on ``path``.
    Blocks on files, if the command has a space.
    """
    words = words_of_line(command) if " " in command.strip() else []
    if len(words) < 2:
        return []
    import shutil  # most commands are one word

    if os.path.exists(os.path.join(folder, command)) or shutil.which(command, path=path):
        return []
    first = words[0]
    # of /opt/My Server/run, the first word is no program
    is_path = "/" in first or "\\" in first
    return words if not is_path or os.path.exists(os.path.join(folder, os.path.expanduser(first))) else []


def in_json(words: Sequence[str]) -> str:
    """Return words as a list in JSON, on one line, with all characters as they are."""
    return json.dumps(list(words), ensure_ascii=False)
