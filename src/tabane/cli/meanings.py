"""Command lines that are not Tabane's: aliases, commands of other tools, and advice on what to type instead.

:data:`RUN` contains aliases that are run as a command, because they mean one command and do no harm.
:data:`ADVICE` contains words with several meanings or none, and what to type instead. :data:`OPTIONS` has the
options of other tools. :data:`FAMILIES` are synonyms: the one that a group has is run. A word that is in none
of these tables is compared with the commands by its spelling.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from tabane.messages import Message, filled, say
from tabane.settings import load_settings
from tabane.text.nearest_names import nearest

RUN: Mapping[str, str] = {
    # the words of every program
    "version": "--version",
    "ver": "--version",
    "-v": "--version",
    "-V": "--version",
    "-version": "--version",
    "?": "--help",
    "-?": "--help",
    "-help": "--help",
    "commands": "--help-all",
    "ヘルプ": "--help",
    "使い方": "--help",
    "バージョン": "--version",
    "設定": "settings list",
    "検索": "search",
    "状態": "status",
    "サーバー": "servers",
    "サーバ": "servers",
    "文書": "docs",
    "ツール": "tools",
    # groups in the singular, or by another name
    "server": "servers",
    "srv": "servers",
    "upstream": "servers",
    "upstreams": "servers",
    "mcps": "servers",
    "tool": "tools",
    "doc": "docs",
    "document": "docs",
    "documents": "docs",
    "file": "docs",
    "files": "docs",
    "post": "posts",
    "model": "models",
    "key": "keys",
    "apikey": "keys",
    "apikeys": "keys",
    "api-keys": "keys",
    "profile": "profiles",
    "project": "projects",
    "secret": "secrets",
    "env": "secrets",
    "setting": "settings",
    "job": "jobs",
    "task": "tasks",
    "question": "questions",
    "policies": "policy",
    "limit": "limits",
    "approval": "approve",
    "approvals": "approve",
    "completions": "completion",
    # everything about servers
    "list": "servers list",
    "ls": "servers list",
    "add": "servers add",
    "new": "servers add",
    "rm": "servers remove",
    "remove": "servers remove",
    "delete": "servers remove",
    "enable": "servers enable",
    "disable": "servers disable",
    "login": "servers login",
    "signin": "servers login",
    "auth": "servers login",
    "logout": "servers logout",
    "test": "servers test",
    "import": "servers import",
    "registry": "servers find",
    "mcp add": "servers add",
    "mcp list": "servers list",
    "mcp ls": "servers list",
    "mcp get": "servers show",
    "mcp remove": "servers remove",
    "mcp rm": "servers remove",
    "mcp login": "servers login",
    "mcp server": "servers",
    "mcp tools": "tools",
    "mcp add-from-claude-desktop": "servers import",
    "claude mcp": "mcp",
    "codex mcp": "mcp",
    "docker mcp": "mcp",
    "1mcp": "",
    "mcphub": "",
    "mcpproxy": "",
    # 1mcp, mcpproxy and the toolkit of Docker
    "auth login": "servers login",
    "auth logout": "servers logout",
    "auth status": "servers list",
    "app consolidate": "setup",
    "app restore": "setup --undo",
    "app list": "install --list",
    "client connect": "setup",
    "client ls": "install --list",
    "catalog": "servers find",
    "code exec": "run",
    "preset": "profiles",
    "presets": "profiles",
    "call tool": "tools call",
    "servers auth": "servers login",
    "servers authenticate": "servers login",
    "servers scan-all": "servers scan",
    "servers up": "servers start",
    "servers down": "servers stop",
    "servers reload": "servers restart",
    "servers ping": "servers test",
    "servers check": "servers test",
    "servers status": "servers list",
    "servers discover": "servers find",
    "servers registry": "servers find",
    # everything about tools
    "call": "tools call",
    "exec": "tools call",
    "invoke": "tools call",
    "find": "tools search",
    "tools tree": "tools list",
    "tools inspect": "tools show",
    "tools disable": "tools hide",
    "tools enable": "tools unhide",
    # the hub
    "ps": "status",
    "info": "status",
    "stat": "status",
    "stats": "status",
    "state": "status",
    "up": "start",
    "daemon start": "start",
    "daemon stop": "stop",
    "daemon status": "status",
    "hub start": "start",
    "hub stop": "stop",
    "hub status": "status",
    "hub restart": "restart",
    "hub logs": "logs",
    "down": "stop",
    "off": "stop",
    "on": "start",
    "shutdown": "stop",
    "kill": "stop",
    "quit": "stop",
    "reload": "restart",
    "reboot": "restart",
    "log": "logs",
    "tail": "logs -f",
    "web": "open",
    "ui": "open",
    "gui": "open",
    "dashboard": "open",
    "admin": "open",
    "page": "open",
    "browser": "open",
    "ping": "health",
    "diagnose": "doctor",
    "diagnostics": "doctor",
    "troubleshoot": "doctor",
    "autostart": "service",
    "systemd": "service",
    "launchd": "service",
    # documents, posts, pages, models
    "put": "docs put",
    "docs cat": "docs get",
    "docs upload": "docs add",
    "docs import": "docs add",
    "docs index": "docs add",
    "docs ingest": "docs add",
    "docs sync": "docs watch",
    "docs count": "docs stats",
    "watch": "docs watch",
    "index": "docs add",
    "ingest": "docs add",
    "posts upload": "posts import",
    "posts load": "posts import",
    "posts add": "posts import",
    "posts count": "posts stats",
    "fetch": "read",
    "get": "read",
    "scrape": "read",
    "browse": "read",
    "crawl": "read",
    "url": "read",
    "ask": "search",
    "query": "search",
    "grep": "search",
    "man": "manual",
    "guide": "manual",
    "models install": "models pull",
    "models download": "models pull",
    "models add": "models pull",
    "models set": "models use",
    "models switch": "models use",
    "embeddings": "models",
    "cookies": "reader cookies",
    # settings, keys, the log of calls
    "set": "settings set",
    "unset": "settings unset",
    "preferences": "settings list",
    "options": "settings list",
    "settings show": "settings list",
    "profiles show": "profiles list",
    "config list": "settings list",
    "config show": "settings list",
    "config set": "settings set",
    "config unset": "settings unset",
    "config get": "settings list",
    "keys new": "keys create",
    "keys rotate": "keys update",
    "secrets add": "secrets set",
    "secrets put": "secrets set",
    "history": "audit",
    "activity": "audit",
    "save": "backup",
    "snapshot": "backup",
    "quota": "limits",
    "allow": "approve",
    "confirm": "approve",
    "benchmark": "bench",
    "tour": "demo",
    "example": "demo",
    "quickstart": "setup",
    "init": "setup",
    "connect": "setup",
    "configure": "setup",
    "wizard": "setup",
    "onboard": "setup",
    "upgrade": "update",
    "self-update": "update",
    "validate": "check",
    "lint": "check",
    "preflight": "check",
    "certificate": "tls",
    "cert": "tls",
    "https": "tls",
}
"""Aliases: words that are typed → the command that is run."""

ADVICE: Mapping[str, Message] = {
    "config": say(
        "Settings: tabane settings list. Servers: tabane servers list, in the file that tabane status names."
    ),
    "verify": say("To verify the audit log: tabane audit verify. To check the configuration: tabane check"),
    "edit": say(
        "Settings: tabane settings set NAME VALUE. Servers: tabane servers --help, or edit the file {file}."
    ),
    "serve": say(
        "To start the hub: tabane start (--foreground keeps it here). For an assistant, over standard input "
        "and output: tabane mcp"
    ),
    "daemon": say("To start the hub in the background: tabane start. At each login: tabane service install"),
    "server run": say("To start the hub: tabane start. To start a server: tabane servers start NAME"),
    "hub": say("The hub: tabane status, start, stop, restart or logs."),
    "gateway run": say("To start the hub: tabane start. For an assistant: tabane mcp"),
    "proxy": say("To start the hub: tabane start. For an assistant: tabane mcp"),
    "gateway": say("To start the hub: tabane start. For an assistant: tabane mcp"),
    "http": say("To start the hub, which also serves HTTP: tabane start. Its address: tabane status"),
    "stdio": say("MCP over standard input and output is: tabane mcp"),
    "token": say("To create a key for a client: tabane keys create NAME. The hub's own: tabane status"),
    "tokens": say("To create a key for a client: tabane keys create NAME. Tokens saved: tabane usage"),
    "password": say(
        "To keep a password or token of a server: tabane secrets set NAME. To protect approvals: tabane "
        "passphrase set"
    ),
    "passwd": say("To protect approvals and changes: tabane passphrase set"),
    "export": say(
        "Everything in one file: tabane backup FILE. Posts alone: tabane posts export. Servers: the file "
        "{file}"
    ),
    "sync": say(
        "To watch a folder of documents: tabane docs watch FOLDER. To move everything: tabane backup"
    ),
    "chat": say(
        "Tabane has no chat: it gives tools to your assistant. To search yourself: tabane search QUERY"
    ),
    "group": say(
        "Sets of servers and tools are profiles: tabane profiles. Several hubs: tabane manual scaling.md"
    ),
    "clients": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "client": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "sessions": say("tabane status shows how many assistants are connected."),
    "prompts": say("To find prompts and resources of servers: tabane tools search QUERY --kind prompts"),
    "resources": say("To find resources of servers: tabane tools search QUERY --kind resources"),
    "undo": say("To take back what tabane setup changed: tabane setup --undo"),
    "whoami": say("This hub and its home: tabane status. Keys, and what they may do: tabane keys list"),
    "reset": say(
        "To start the hub again: tabane restart. To start from nothing, delete its home: tabane status"
    ),
    "clear": say(
        "To delete documents: tabane docs delete KEY. To forget a server: tabane servers remove NAME"
    ),
    "user": say("A person or program gets a key: tabane keys create NAME"),
    "users": say("A person or program gets a key: tabane keys list. People in posts: tabane posts users"),
    "claude": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "cursor": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "codex": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "vscode": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "gemini": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "docker": say("To run a server in Docker: tabane servers add NAME -- docker run -i --rm IMAGE"),
    "npx": say("To add a server: tabane servers add NAME -- COMMAND ARGS…"),
    "uvx": say("To add a server: tabane servers add NAME -- COMMAND ARGS…"),
    "tabane": say("Leave out the second tabane."),
    "servers edit": say("Servers are in {file}. A change takes effect at once; tabane doctor checks it."),
    "servers config": say("Servers are in {file}. A change takes effect at once; tabane doctor checks it."),
    "servers path": say("Servers are in {file}. A change takes effect at once; tabane doctor checks it."),
    "servers file": say("Servers are in {file}. A change takes effect at once; tabane doctor checks it."),
    "servers rename": say("Rename the entry in {file}. A change takes effect at once."),
    "servers update": say("Edit the entry in {file}. Newer definitions of tools: tabane servers changes"),
    "servers set": say("Edit the entry in {file}. A change takes effect at once."),
    "servers add-json": say("Save the JSON in a file, then: tabane servers import --from FILE"),
    "servers export": say("Servers are in {file}, in the format of assistants."),
    "mcp add-json": say("Save the JSON in a file, then: tabane servers import --from FILE"),
    "mcp install": say(
        "To find a server: tabane servers find QUERY. To add one: tabane servers add NAME -- COMMAND"
    ),
    "inspect": say("A server: tabane servers show NAME. A tool: tabane tools show NAME"),
    "mcp serve": say(
        "To connect an assistant over standard input and output: tabane mcp, without more words"
    ),
    "settings get": say("To see the settings: tabane settings list. One: tabane settings list | grep NAME"),
    "settings edit": say(
        "To change one: tabane settings set NAME VALUE. All, with their file: tabane settings"
    ),
    "keys show-token": say("A key is shown once, when it is made: tabane keys create NAME"),
    "docs edit": say("To replace a document: tabane docs put FILE --id KEY"),
    "docs open": say("To print a document: tabane docs get KEY. In a browser: tabane open"),
    "posts delete": say(
        "Posts cannot be deleted one by one. To import an archive again: tabane posts import"
    ),
    "models delete": say("To use no model: tabane models use none"),
    "secrets show": say("Secrets are not shown. Their names: tabane secrets list"),
    "secrets get": say("Secrets are not shown. Their names: tabane secrets list"),
}
"""Words that are typed → what to type instead. ``{file}`` is the servers file."""

EXTRA: Mapping[str, Message] = {
    "start": say("{command} starts the hub. For a server: tabane servers start {words}"),
    "stop": say("{command} stops the hub. For a server: tabane servers stop {words}"),
    "restart": say("{command} restarts the hub. For a server: tabane servers restart {words}"),
    "logs": say("{command} shows the log of the hub. For a server: tabane servers logs {words}"),
    "status": say("{command} is about the hub. For a server: tabane servers show {words}"),
    "open": say("{command} opens the page of the hub. To read a page: tabane read {words}"),
    "health": say("{command} checks all servers. For one: tabane servers test {words}"),
    "doctor": say("{command} checks everything. For a server: tabane servers test {words}"),
    "mcp": say("{command} is what an assistant runs. To add a server: tabane servers add {words}"),
    "tools list": say("To find a tool: tabane tools search {words}. Those of a server: --server NAME"),
    "servers list": say("{command} lists all. For one: tabane servers show {words}"),
    "secrets set": say(
        "A value on the command line would stay in the history of the shell. Without it, {command} asks for "
        "it; a program writes it to standard input: --stdin"
    ),
    "docs get": say("Write one key, in quotes if it has spaces. All keys: tabane docs list"),
    "keys create": say("Write one name. What it may call: --allow 'SERVER__*'"),
    "jobs list": say("{command} lists all. To follow one: tabane jobs follow {words}"),
}
"""Commands that get more words than they take → what is meant, with these words."""

OPTIONS: Mapping[str, Message] = {
    "--verbose": say("For more, set LOG_LEVEL=debug and look at: tabane logs"),
    "-v": say("For more, set LOG_LEVEL=debug and look at: tabane logs. The version: tabane --version"),
    "-vv": say("For more, set LOG_LEVEL=debug and look at: tabane logs"),
    "--debug": say("For more, set LOG_LEVEL=debug and look at: tabane logs"),
    "--trace": say("For more, set LOG_LEVEL=trace and look at: tabane logs"),
    "--log-level": say("For more, set LOG_LEVEL=debug and look at: tabane logs"),
    "--format": say("For JSON, write --json after the command. Without it, lines are for people."),
    "--output": say("For JSON, write --json after the command. To keep the output: > FILE"),
    "-o": say("For JSON, write --json after the command. To keep the output: > FILE"),
    "-j": say("For JSON, write --json."),
    "-json": say("Write two dashes: --json"),
    "--quiet": say("Notes go to standard error: 2>/dev/null hides them."),
    "-q": say("Notes go to standard error: 2>/dev/null hides them."),
    "--silent": say("Notes go to standard error: 2>/dev/null hides them."),
    "--port": say("The port is an option of the start: tabane start --port PORT, or TABANE_PORT."),
    "-p": say("The port is an option of the start: tabane start --port PORT, or TABANE_PORT."),
    "--host": say("The address is an option of the start: tabane start --host ADDRESS, or TABANE_HOST."),
    "--token": say("The key of another hub is in the variable TABANE_TOKEN, its address in --url."),
    "--api-key": say("The key of another hub is in the variable TABANE_TOKEN, its address in --url."),
    "--key": say("The key of another hub is in the variable TABANE_TOKEN, its address in --url."),
    "--password": say("Passwords are typed when asked, or written to standard input with --stdin."),
    "--config": say("Set the variable TABANE_CONFIG to the settings file. Servers: TABANE_SERVERS."),
    "-c": say("Set the variable TABANE_CONFIG to the settings file. Servers: TABANE_SERVERS."),
    "--servers": say("Set the variable TABANE_SERVERS to the servers file."),
    "--home": say("Set the variable TABANE_HOME to the home of the hub."),
    "--lang": say("Set the variable TABANE_LANG to en or ja."),
    "--language": say("Set the variable TABANE_LANG to en or ja."),
    "--no-color": say("Set the variable NO_COLOR=1."),
    "--color": say("Colors are used on a terminal; NO_COLOR=1 turns them off."),
    "--stdio": say("MCP over standard input and output is: tabane mcp"),
    "--http": say("The hub serves HTTP unless it is turned off: tabane start. Its address: tabane status"),
    "--daemon": say("The hub always runs in the background: tabane start. Here instead: --foreground"),
    "-d": say("The hub always runs in the background: tabane start. Here instead: --foreground"),
    "--background": say("The hub always runs in the background: tabane start. Here instead: --foreground"),
    "--detached": say("The hub always runs in the background: tabane start. Here instead: --foreground"),
    "--yes": say("This command does not ask. Leave out --yes."),
    "--all": say("This command knows no --all. Its options: {command} --help"),
    "--upgrade": say("To update Tabane: tabane update"),
    "--list": say("To list: {command} list, or tabane --help-all for all commands."),
    "--install": say("To connect an assistant: tabane setup. One by its name: tabane install NAME"),
    "--top": say("The number of results: --limit COUNT"),
    "--top-k": say("The number of results: --limit COUNT"),
    "-k": say("The number of results: --limit COUNT"),
    "--count": say("The number of results: --limit COUNT"),
    "--max": say("The number of results: --limit COUNT"),
    "--name": say("The name is written without an option: {command} NAME"),
    "--command": say("The command is written after two dashes: tabane servers add NAME -- COMMAND ARGS…"),
    "--args": say("Arguments are written after the command: tabane servers add NAME -- COMMAND ARGS…"),
    "--file": say("A file is written without an option: {command} FILE"),
    "-f": say("A file is written without an option: {command} FILE"),
    "--arguments": say('Arguments as JSON: --args \'{{"key": "value"}}\', or key=value'),
    "--input": say('Arguments as JSON: --args \'{{"key": "value"}}\', or key=value'),
    "--param": say("Write arguments without an option: key=value"),
    "--params": say('Arguments as JSON: --args \'{{"key": "value"}}\', or key=value'),
    "--query": say("A query is written without an option: {command} QUERY"),
    "--url": say("{command} is about this machine and takes no --url."),
}
"""Options of other tools, or at the wrong command → what is right."""

CLAUDE: Mapping[str, str] = {
    "-e": "--env",
    "-H": "--header",
    "-s": "",
    "--scope": "",
    "-t": "",
    "--transport": "",
}
"""Options of `claude mcp add` with a value → the option of `servers add`; empty if it has no meaning here."""

FAMILIES: Sequence[frozenset[str]] = tuple(
    frozenset(words.split())
    for words in (
        "list ls all dir",
        "remove rm delete del uninstall revoke forget erase unset",
        "add new create put set install register insert save",
        "show info get describe inspect view cat details",
        "search find query lookup",
        "call run exec execute invoke use",
        "cancel kill abort",
        "follow watch tail",
        "pull download",
        "answer reply",
    )
)
"""Words for one act. A word that a group does not know runs the one of its family that the group has."""

LAUNCHERS = frozenset(
    ("npx", "uvx", "bunx", "pnpm", "yarn", "node", "deno", "bun", "python", "python3", "uv", "pipx", "docker")
) | {"podman"}


class Understood(NamedTuple):
    """What was meant: words to run instead, or a line that says what is right."""

    words: Sequence[str] | None = None
    advice: Message | None = None


def understood(args: Sequence[str], commands: Mapping[str, object]) -> Understood | None:
    """Return what is meant by a command line whose beginning is no command; None if that is unknown.

    ``commands`` are the commands of the top level. A word that stands for one that is not among them is
    answered with the advice for that one.
    """
    words = plain_words(args)
    leading = words[:3]
    if leading[:1] == ["help"]:
        return Understood([*words[1:], "--help"] if words[1:] != ["all"] else ["--help-all"])
    if swapped := _swapped(words, commands) or _imported(words):
        return swapped
    for length in (3, 2, 1):
        typed = " ".join(leading[:length])
        for key in (typed, typed.lower()):
            if len(leading) < length or key in commands or (key.startswith("-") and len(words) > 1):
                continue
            target = RUN[key].split() if key in RUN else None
            # nothing, an option of the top level, or a command that there is
            if target == [] or (target and (target[0].startswith("-") or target[0] in commands)):
                return Understood([*target, *words[length:]])
            wanted = key if key in ADVICE else RUN.get(key, "")
            if wanted in ADVICE:
                return Understood(advice=with_file(ADVICE[wanted]))
    return Understood(words) if words != list(args) else None


def plain_words(args: Sequence[str]) -> list[str]:
    """Return the words; the first is divided at full-width spaces, and its full-width letters are plain."""
    if not args or args[0].isascii():
        return list(args)
    first = unicodedata.normalize("NFKC", args[0])
    parts = first.split() if first.isascii() else [args[0]]
    return [*parts, *args[1:]]


def _swapped(words: Sequence[str], commands: Mapping[str, object]) -> Understood | None:
    """Return ``list servers`` as ``servers list``, if the first word is an act and the second a group.

    What is added with a command or a URL is a server, whatever its name is.
    """
    acts = (*FAMILIES, frozenset(("import", "export", "enable", "disable", "test", "edit")))
    if len(words) < 2 or not any(words[0].lower() in family for family in acts):
        return None
    group = RUN.get(words[1], words[1])
    added = "--" in words or any(word.lower().startswith(("http://", "https://")) for word in words)
    if added and group != "servers":
        return None
    return Understood([group, words[0], *words[2:]]) if group in commands and group in _GROUPS else None


def _imported(words: Sequence[str]) -> Understood | None:
    """Return the import of a file by its name: an archive of posts, or a file with servers."""
    if len(words) < 2 or words[0].lower() != "import":
        return None
    ending = os.path.splitext(words[1].lower())[1]
    if ending in (".zip", ".csv", ".js"):
        return Understood(["posts", *words])
    return Understood(["servers", "import", "--from", *words[1:]]) if ending == ".json" else None


_GROUPS = frozenset(
    ("servers", "tools", "docs", "posts", "models", "keys", "profiles", "projects", "secrets", "settings")
) | {"jobs", "tasks", "questions"}


def same_act(word: str, commands: Iterable[str]) -> str | None:
    """Return the command of a group that is meant by another word for its act, if it is one alone."""
    known = set(commands)
    found = {name for family in FAMILIES if word.lower() in family for name in family & known}
    return found.pop() if len(found) == 1 else None


def in_group(path: str, words: Sequence[str], commands: Sequence[str]) -> Understood | None:
    """Return what is meant by words after the group ``path``, the first of which is none of its commands."""
    name = words[0]
    key = f"{path} {name}"
    if key in RUN and (target := RUN[key].split())[0] == path:
        return Understood([*target[1:], *words[1:]])
    if key in ADVICE:
        return Understood(advice=with_file(ADVICE[key]))
    if path == "servers" and name == "install" and len(words) == 2 and "://" not in words[1]:
        return Understood(["find", words[1]])  # a name alone says no command
    if path == "settings" and len(words) == 1 and "=" in name:
        return Understood(["set", name])
    if act := same_act(name, commands):
        return Understood([act, *words[1:]])
    if len(words) > 1 and (act := words[1] if words[1] in commands else same_act(words[1], commands)):
        line = shlex.join(["tabane", *path.split(), act, name, *words[2:]])
        return Understood(advice=say("Write what to do first: {line}", line=line))
    if path == "settings" and len(words) == 2:
        line = shlex.join(["tabane", "settings", "set", *words])
        return Understood(advice=say("To change a setting: {line}", line=line))
    return None


def unknown_command(
    words: Sequence[str], leaves: Mapping[str, Sequence[str]], servers: Container[str]
) -> Message | None:
    """Return what to type instead of a first word that no table knows; None if only letters can help.

    ``leaves`` are the commands inside of groups, by their names; ``servers`` are the names of servers.
    """
    name = words[0]
    if name.startswith(("{", "[")):
        return _JSON
    if os.path.isfile(name):
        return say(
            "{name} is a file. To save it as a document: {line}", name=name, line=_line("docs add", name)
        )
    if os.path.isdir(name) and os.sep in name:
        return say(
            "{name} is a folder. To save its documents: {line}", name=name, line=_line("docs add", name)
        )
    if " " in name.strip() or not name.isascii():
        return say("To search everything: {line}", line=_line("search", *words))
    if "__" in name:
        return say("To call a tool: {line}", line=_line("tools call", *words))
    if name in servers:
        return say(
            "{name!n} is a server. Its tools: {line}", name=name, line=_line("tools list --server", name)
        )
    if name in leaves:
        lines = ", ".join(_line(leaf, *words[1:]) for leaf in leaves[name])
        return say("{name} is a command of a group. Write: {lines}", name=name, lines=lines)
    return None


def by_letters(path: str, name: str, commands: Sequence[str]) -> Message:
    """Return the commands whose names, or other words for them, look like a word; else all of the group."""
    known = {command: command for command in commands}
    words = {word for family in FAMILIES for word in family} - known.keys() if path else ()
    meant = {word: act for word in words if (act := same_act(word, commands))}
    meant |= {} if path else {word: RUN[word] for word in RUN if word.isascii() and len(word) >= _TELLING}
    near = nearest(name, known) or nearest(name, meant)
    shown = dict.fromkeys((meant | known)[word] for word in near)
    if shown:
        return say("No such command {name}. Did you mean {near}?", name=name, near=", ".join(shown))
    if path:
        return say("No such command {name}. There are: {names}", name=name, names=", ".join(commands))
    return say("No such command {name}. All commands: tabane --help-all", name=name)


_TELLING = 5
"""Letters of a word that others are compared with; shorter ones look like many."""


def extra_words(path: str, words: Sequence[str]) -> Message | None:
    """Return what is meant by a command that gets words which it does not take."""
    if path not in EXTRA:
        return None
    return filled(EXTRA[path], {"command": f"tabane {path}", "words": shlex.join(words)})


def option_advice(path: str, option: str) -> Message | None:
    """Return what to write instead of an option that a command does not have."""
    found = OPTIONS.get(option)
    return filled(found, {"command": f"tabane {path}".strip()}) if found else None


def odd_characters(args: Sequence[str]) -> Message | None:
    """Return what is wrong with dashes and quotes that an editor, a page or an input method changed."""
    for word in args:
        if found := _LONG_DASH.match(word):
            right = "--" + unicodedata.normalize("NFKC", word[found.end() :])
            return say("{word} begins with another dash. Write: {right}", word=word, right=right)
        if any(quote in word for quote in _QUOTES):
            right = "".join(_QUOTES.get(letter, letter) for letter in word)
            return say(
                "{word} has quotes that the shell does not know. Write: {right}", word=word, right=right
            )
    return None


_LONG_DASH = re.compile("[\N{EM DASH}\N{EN DASH}\N{MINUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}ー]+(?=\\w)")
_QUOTES = dict.fromkeys("“”‟„＂", '"') | dict.fromkeys("‘’‛＇", "'")


def claude_words(args: Sequence[str], with_value: Iterable[str]) -> list[str]:
    """Return the words of `claude mcp add` as those of `servers add`. The server's own words stay.

    ``with_value`` are the options of `servers add` that take a value.
    """
    found: list[str] = []
    rest, names, valued = list(args), 0, frozenset(with_value)
    while rest and rest[0] != "--":
        option, equals, value = (word := rest[0]).partition("=")
        if option in CLAUDE:
            del rest[0]
            value = value if equals else rest.pop(0) if rest else ""
            if value == "sse":
                found.append("--sse")
            found += [CLAUDE[option], value] if CLAUDE[option] else []
            continue
        if not word.startswith("-"):
            names += 1
            if names > 1 and not word.lower().startswith(("http://", "https://")):
                break
        taken = 2 if word in valued else 1
        found += rest[:taken]
        del rest[:taken]
    return [*found, *rest]


def server_mistake(args: Sequence[str]) -> Message | None:
    """Return what is right instead of a `servers add` without a name: a URL, a command, or JSON."""
    first, rest = (args[0], args[1:]) if args else ("", ())
    if first.lstrip().startswith("{") or any(word.lstrip().startswith('{"') for word in rest[:1]):
        return _JSON
    if first.lower().startswith(("http://", "https://")):
        return _name_first([_host_name(first), *args])
    if first == "--" and rest and rest[0] in LAUNCHERS:
        return _name_first([_package_name(rest), *args])
    named = "--" in rest or rest[:1] == [first] or not rest or rest[0].startswith("http")
    if first in LAUNCHERS and not named and rest[0] not in LAUNCHERS:
        return _name_first([_package_name(args), "--", *args])
    return None


def _name_first(words: Sequence[str]) -> Message:
    return say("Write a name of your choice first: {line}", line=_line("servers add", *words))


_JSON = say("That is JSON. Save it in a file, then: tabane servers import --from FILE")


def _host_name(url: str) -> str:
    """Return a name for the server at a URL: ``example`` for https://mcp.example.com/mcp."""
    host = re.sub(r"^\w+://([^/:?#]*@)?", "", url).partition("/")[0].partition(":")[0]
    parts = [part for part in host.split(".") if part not in ("mcp", "www", "api")]
    return (parts[-2] if len(parts) > 1 and not parts[-1].isdigit() else host) or "NAME"


def _package_name(command: Sequence[str]) -> str:
    """Return a name for the server that a command starts: ``time`` for ``uvx mcp-server-time``."""
    words = [
        word for word in command if not word.startswith("-") and word not in LAUNCHERS | {"run", "x", "exec"}
    ]
    base = words[0].rstrip("/").rpartition("/")[2].partition("@")[0].partition("==")[0] if words else ""
    name = re.sub(r"^(mcp-server-|server-|mcp-)|(-mcp-server|-mcp|-server|\.py|\.js)$", "", base)
    return name or "NAME"


def _line(command: str, *words: str) -> str:
    return f"tabane {command} {shlex.join(words)}"


def with_file(message: Message) -> Message:
    """Return the message with the path of the servers file, if it names it."""
    if "{file}" not in message.template:
        return message
    return filled(message, {"file": load_settings({}, os.environ).servers})
