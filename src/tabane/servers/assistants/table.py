"""Clients: programs in which people configure MCP servers, where each keeps them, in which format and mode.

Each row was looked up on the day that it names. Paths for Windows follow from :meth:`UserMachine.path`, and
are untested. A client gets mode full only if a source says that it defers the tools of MCP servers by
default, whatever the model: in mode search it would search twice. All others get search.

Nothing is read here but whether a file exists: home, folder and platform are arguments, paths are results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tabane.messages import Message, say

Scope = Literal["user", "project"]
"""Whose servers a file holds: the user's, or one project's (the folder that is worked in)."""

Form = Literal["json", "jsonc", "toml", "yaml"]
"""The format of a file. ``jsonc`` is JSON that the program itself reads with comments."""

Shape = Literal["plain", "typed", "copilot", "opencode", "goose", "zed", "kimi"]
"""The form of a server in the file: see :mod:`tabane.servers.assistants.formats`."""

HostMode = Literal["full", "search"]
"""The mode that suits a host: ``full`` if it searches tools itself, else ``search``."""

_CONFIG = "@config"
_XDG = "@xdg"


@dataclass(frozen=True, slots=True)
class UserMachine:
    """The values that paths depend on: ``platform`` is ``sys.platform``, ``home`` the user's home."""

    platform: str
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def path(self, where: str) -> Path:
        """Return a path of the table on this machine.

        ``@config`` stands for the platform's folder of application settings, ``@xdg`` for ``~/.config`` on
        macOS too; both follow XDG_CONFIG_HOME, except ``@config`` on macOS. Others are below the home.
        """
        first, _, rest = where.partition("/")
        if first == _CONFIG and self.platform == "darwin":
            return self.home / "Library" / "Application Support" / rest
        if first in (_CONFIG, _XDG) and self.platform == "win32":
            return self.home / "AppData" / "Roaming" / rest
        if first in (_CONFIG, _XDG):
            given = self.environ.get("XDG_CONFIG_HOME", "")
            return (Path(given) if os.path.isabs(given) else self.home / ".config") / rest
        return self.home / where


class ServersPlace(Struct, frozen=True):
    """The file in which a client keeps the servers of one scope, and its format.

    ``paths`` are below the project or the home (or as :meth:`UserMachine.path` says). The first that exists
    is used, else the first. ``variable`` names the folder that holds the file instead, and the path in it.
    ``key`` is the path of the object with the servers; ``listed`` says that it is a list of objects with a
    name, which is only read. ``dollars``: the program puts variables in as ``$NAME``, too.
    """

    paths: tuple[str, ...]
    key: tuple[str, ...] = ("mcpServers",)
    form: Form = "json"
    shape: Shape = "plain"
    variable: tuple[str, str] | None = None
    listed: bool = False
    dollars: bool = False


class ClientFile(Struct, frozen=True):
    """A file of a client, existing or not: its path, its scope, and how servers are written in it."""

    path: Path
    scope: Scope
    place: ServersPlace


class Client(Struct, frozen=True):
    """A program that MCP servers are set up in.

    ``name`` is its name on the command line, ``title`` its own name (never translated). ``user`` and
    ``project`` are the files that Tabane writes, ``also`` further ones that are only read. ``per_project``
    clients keep further servers in the user's file, under ``projects.<folder>.mcpServers``. ``by_hand`` tells
    what to do if no file can be written. The program is on this machine if its file, the folder of that file,
    one of ``traces``, or one of ``programs`` on PATH exists; ``shared_folder`` says that others use that
    folder too. It runs on ``platforms``, and starts servers over ``transport``. ``why`` explains the mode,
    ``source`` is the page that was read, on the day ``looked_up``; ``remark`` says where sources disagree.
    ``by_server`` clients describe tools to their model by the instructions of each server.
    """

    name: str
    title: str
    mode: HostMode
    why: str
    source: str
    looked_up: str
    user: ServersPlace | None = None
    project: ServersPlace | None = None
    also: tuple[ServersPlace, ...] = ()
    by_hand: Message | None = None
    per_project: bool = False
    traces: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    shared_folder: bool = False
    platforms: tuple[str, ...] = ("linux", "darwin", "win32")
    transport: Literal["stdio"] = "stdio"
    remark: str = ""
    by_server: bool = False

    def user_file(self, machine: UserMachine) -> ClientFile | None:
        """Return the file with the user's servers; None if there is none that can be written."""
        if self.user is None:
            return None
        return ClientFile(_user_path(self.user, machine), "user", self.user)

    def project_file(self, folder: Path) -> ClientFile | None:
        """Return the file with the servers of the project in ``folder``; None if the client has none."""
        if self.project is None:
            return None
        return ClientFile(
            _first_existing([folder / where for where in self.project.paths]), "project", self.project
        )

    def files(self, machine: UserMachine, folder: Path | None = None) -> Iterator[ClientFile]:
        """Yield the files with its servers, also those that are only read: the user's first."""
        written = self.user_file(machine)
        if written is not None:
            yield written
        for place in self.also:
            for where in place.paths:
                yield ClientFile(machine.path(where), "user", place)
        project = self.project_file(folder) if folder is not None else None
        if project is not None:
            yield project


def _user_path(place: ServersPlace, machine: UserMachine) -> Path:
    if place.variable is not None:
        name, inside = place.variable
        given = machine.environ.get(name, "")
        if os.path.isabs(given):
            return Path(given) / inside
    return _first_existing([machine.path(where) for where in place.paths])


def _first_existing(paths: list[Path]) -> Path:
    return next((path for path in paths if path.exists()), paths[0])


_DAY = "2026-11-23"
_UNKNOWN = "No source says that it defers tools."
_VS_CODE_STORAGE = "@config/Code/User/globalStorage"

CLIENTS = (
    Client(
        "claude-desktop",
        "Claude Desktop",
        mode="search",
        why=_UNKNOWN,
        source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        looked_up=_DAY,
        user=ServersPlace(("@config/Claude/claude_desktop_config.json",)),
    ),
    Client(
        "claude-code",
        "Claude Code",
        mode="full",
        why="Tool search is on by default: definitions are loaded when the model looks for them.",
        source="https://code.claude.com/docs/en/mcp",
        looked_up=_DAY,
        user=ServersPlace((".claude.json",), shape="typed", variable=("CLAUDE_CONFIG_DIR", ".claude.json")),
        project=ServersPlace((".mcp.json",), shape="typed"),
        per_project=True,
        traces=(".claude",),
        programs=("claude",),
    ),
    Client(
        "cursor",
        "Cursor",
        mode="full",
        why="It shows the model the names of tools only, and loads definitions on demand (January 2026).",
        source="https://cursor.com/blog/dynamic-context-discovery",
        looked_up=_DAY,
        user=ServersPlace((".cursor/mcp.json",)),
        project=ServersPlace((".cursor/mcp.json",)),
        programs=("cursor", "cursor-agent"),
    ),
    Client(
        "vscode",
        "VS Code",
        mode="full",
        why="It defers tools behind tool_search (microsoft/vscode-docs#9695, April 2026).",
        source="https://code.visualstudio.com/docs/copilot/customization/mcp-servers",
        looked_up=_DAY,
        user=ServersPlace(("@config/Code/User/mcp.json",), ("servers",), "jsonc", "typed"),
        project=ServersPlace((".vscode/mcp.json",), ("servers",), "jsonc", "typed"),
        programs=("code",),
    ),
    Client(
        "vscode-insiders",
        "VS Code Insiders",
        mode="full",
        why="As VS Code.",
        source="https://code.visualstudio.com/docs/copilot/customization/mcp-servers",
        looked_up=_DAY,
        user=ServersPlace(("@config/Code - Insiders/User/mcp.json",), ("servers",), "jsonc", "typed"),
        programs=("code-insiders",),
    ),
    Client(
        "windsurf",
        "Windsurf",
        mode="search",
        why="Cascade has a limit of 100 tools.",
        source="https://docs.windsurf.com/windsurf/cascade/mcp",
        looked_up=_DAY,
        user=ServersPlace((".codeium/windsurf/mcp_config.json",)),
        programs=("windsurf",),
    ),
    Client(
        "codex",
        "Codex",
        mode="full",
        why="It defers all MCP tools behind tool_search (openai/codex#29486, June 2026).",
        source="https://developers.openai.com/codex/mcp",
        looked_up=_DAY,
        user=ServersPlace(
            (".codex/config.toml",), ("mcp_servers",), "toml", variable=("CODEX_HOME", "config.toml")
        ),
        project=ServersPlace((".codex/config.toml",), ("mcp_servers",), "toml"),
        programs=("codex",),
        by_server=True,
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        mode="search",
        why="It gives every tool definition to the model (google-gemini/gemini-cli#17322 was closed).",
        source="https://geminicli.com/docs/tools/mcp-server/",
        looked_up=_DAY,
        user=ServersPlace((".gemini/settings.json",), form="jsonc", dollars=True),
        project=ServersPlace((".gemini/settings.json",), form="jsonc", dollars=True),
        traces=(".gemini/tmp", ".gemini/installation_id"),
        programs=("gemini",),
        shared_folder=True,
        remark="Antigravity CLI replaced it for personal use in June 2026; both use ~/.gemini.",
    ),
    Client(
        "antigravity",
        "Antigravity",
        mode="search",
        why=_UNKNOWN,
        source="https://antigravity.google/docs/mcp",
        looked_up=_DAY,
        user=ServersPlace((".gemini/config/mcp_config.json",)),
        project=ServersPlace((".agents/mcp_config.json",)),
        also=(ServersPlace((".gemini/antigravity/mcp_config.json",)),),
        traces=(".gemini/antigravity", ".gemini/antigravity-cli"),
        programs=("agy", "antigravity"),
        remark="Sources before May 2026 name ~/.gemini/antigravity/mcp_config.json, which is read only.",
    ),
    Client(
        "zed",
        "Zed",
        mode="search",
        why="It gives every tool definition to the model (zed-industries/zed discussion 66626).",
        source="https://zed.dev/docs/ai/mcp",
        looked_up=_DAY,
        user=ServersPlace(("@xdg/zed/settings.json",), ("context_servers",), "jsonc", "zed"),
        project=ServersPlace((".zed/settings.json",), ("context_servers",), "jsonc", "zed"),
        programs=("zed", "zeditor"),
        remark="For macOS, add-mcp names ~/Library/Application Support/Zed; Zed's source, ~/.config/zed.",
    ),
    Client(
        "cline",
        "Cline",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.cline.bot/mcp/configuring-mcp-servers",
        looked_up=_DAY,
        user=ServersPlace((f"{_VS_CODE_STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",)),
        traces=(f"{_VS_CODE_STORAGE}/saoudrizwan.claude-dev",),
        remark="The extension for VS Code. Its move to ~/.cline (cline/cline#9630) was not merged.",
    ),
    Client(
        "cline-cli",
        "Cline CLI",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.cline.bot/mcp/mcp-overview",
        looked_up=_DAY,
        user=ServersPlace(
            (".cline/data/settings/cline_mcp_settings.json",),
            variable=("CLINE_DIR", "data/settings/cline_mcp_settings.json"),
        ),
        traces=(".cline/data",),
        programs=("cline",),
    ),
    Client(
        "roo-code",
        "Roo Code",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.roocode.com/features/mcp/using-mcp-in-roo",
        looked_up=_DAY,
        user=ServersPlace((f"{_VS_CODE_STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",)),
        project=ServersPlace((".roo/mcp.json",)),
        traces=(f"{_VS_CODE_STORAGE}/rooveterinaryinc.roo-cline",),
        remark="Discontinued in 2026. Some sources name cline_mcp_settings.json, the name of older versions.",
    ),
    Client(
        "continue",
        "Continue",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.continue.dev/customize/deep-dives/mcp",
        looked_up=_DAY,
        user=ServersPlace((".continue/mcpServers/tabane.json",)),
        project=ServersPlace((".continue/mcpServers/tabane.json",)),
        also=(ServersPlace((".continue/config.yaml",), form="yaml", listed=True),),
        traces=(".continue",),
        programs=("cn",),
        remark="A file of its own: config.yaml is only read, since a new one would hide config.json.",
    ),
    Client(
        "goose",
        "goose",
        mode="search",
        why=_UNKNOWN,
        source="https://block.github.io/goose/docs/guides/config-files",
        looked_up=_DAY,
        user=ServersPlace(("@xdg/goose/config.yaml",), ("extensions",), "yaml", "goose"),
        programs=("goose",),
    ),
    Client(
        "lm-studio",
        "LM Studio",
        mode="search",
        why=_UNKNOWN,
        source="https://lmstudio.ai/docs/app/mcp",
        looked_up=_DAY,
        user=ServersPlace((".lmstudio/mcp.json",)),
        programs=("lms",),
    ),
    Client(
        "opencode",
        "opencode",
        mode="search",
        why="Version 1 gives every tool to the model; only version 2 defers them (code mode).",
        source="https://opencode.ai/docs/mcp-servers",
        looked_up=_DAY,
        user=ServersPlace(
            ("@xdg/opencode/opencode.json", "@xdg/opencode/opencode.jsonc"), ("mcp",), "jsonc", "opencode"
        ),
        project=ServersPlace(
            ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
            ("mcp",),
            "jsonc",
            "opencode",
        ),
        also=(
            ServersPlace(
                ("@xdg/opencode/opencode.json", "@xdg/opencode/opencode.jsonc"),
                ("mcp", "servers"),
                "jsonc",
                "opencode",
            ),
        ),
        programs=("opencode", "opencode2"),
        remark="Version 2 names mcp.servers, and still reads entries of version 1 under mcp.",
    ),
    Client(
        "kiro",
        "Kiro",
        mode="search",
        why="Its tool search is off by default.",
        source="https://kiro.dev/docs/mcp/configuration",
        looked_up=_DAY,
        user=ServersPlace((".kiro/settings/mcp.json",)),
        project=ServersPlace((".kiro/settings/mcp.json",)),
        traces=(".kiro",),
        programs=("kiro", "kiro-cli"),
    ),
    Client(
        "amp",
        "Amp",
        mode="search",
        why=_UNKNOWN,
        source="https://ampcode.com/manual",
        looked_up=_DAY,
        user=ServersPlace(
            ("@xdg/amp/settings.json", "@xdg/amp/settings.jsonc"), ("amp.mcpServers",), form="jsonc"
        ),
        project=ServersPlace(
            (".amp/settings.json", ".amp/settings.jsonc"), ("amp.mcpServers",), form="jsonc"
        ),
        programs=("amp",),
    ),
    Client(
        "copilot-cli",
        "GitHub Copilot CLI",
        mode="search",
        why="It defers tools for some models only (github/copilot-cli#4588, August 2026).",
        source="https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        looked_up=_DAY,
        user=ServersPlace(
            (".copilot/mcp-config.json",), shape="copilot", variable=("COPILOT_HOME", "mcp-config.json")
        ),
        programs=("copilot",),
        remark="It reads a project's .mcp.json too: that of claude-code. Pages of 2025 name XDG_CONFIG_HOME, "
        "which users report without effect.",
    ),
    Client(
        "jetbrains",
        "JetBrains AI Assistant",
        mode="search",
        why=_UNKNOWN,
        source="https://www.jetbrains.com/help/ai-assistant/mcp.html",
        looked_up=_DAY,
        by_hand=say(
            "In the IDE, open Settings | Tools | AI Assistant | Model Context Protocol (MCP), choose "
            "Add and then As JSON."
        ),
        traces=("@config/JetBrains",),
        remark="It keeps servers in files of each version of each IDE. Junie has a file: see junie.",
    ),
    Client(
        "junie",
        "JetBrains Junie",
        mode="search",
        why=_UNKNOWN,
        source="https://junie.jetbrains.com/docs/junie-cli-mcp-configuration.html",
        looked_up=_DAY,
        user=ServersPlace((".junie/mcp/mcp.json",)),
        project=ServersPlace((".junie/mcp/mcp.json",)),
        traces=(".junie",),
        programs=("junie",),
    ),
    Client(
        "warp",
        "Warp",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.warp.dev/agents/capabilities/mcp",
        looked_up=_DAY,
        user=ServersPlace((".warp/.mcp.json",)),
        project=ServersPlace((".warp/.mcp.json",)),
        traces=("@xdg/warp-terminal",),
        programs=("warp-terminal", "oz"),
        remark="Sources before 2026 say that only its settings page can add servers.",
    ),
    Client(
        "qwen-code",
        "Qwen Code",
        mode="search",
        why=_UNKNOWN,
        source="https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp/",
        looked_up=_DAY,
        user=ServersPlace((".qwen/settings.json",), form="jsonc", dollars=True),
        project=ServersPlace((".qwen/settings.json",), form="jsonc", dollars=True),
        programs=("qwen",),
    ),
    Client(
        "kilo-code",
        "Kilo Code",
        mode="search",
        why=_UNKNOWN,
        source="https://kilo.ai/docs/features/mcp/using-in-kilo-code",
        looked_up=_DAY,
        user=ServersPlace(("@xdg/kilo/kilo.json", "@xdg/kilo/kilo.jsonc"), ("mcp",), "jsonc", "opencode"),
        project=ServersPlace(
            ("kilo.json", "kilo.jsonc", ".kilo/kilo.json", ".kilo/kilo.jsonc"), ("mcp",), "jsonc", "opencode"
        ),
        programs=("kilo", "kilocode"),
        remark="Paths after add-mcp 2.4.0 (September 2026); earlier versions kept them in VS Code's storage.",
    ),
    Client(
        "grok-build",
        "Grok Build",
        mode="search",
        why=_UNKNOWN,
        source="https://github.com/neon-solutions/add-mcp",
        looked_up=_DAY,
        user=ServersPlace(
            (".grok/config.toml",), ("mcp_servers",), "toml", variable=("GROK_HOME", "config.toml")
        ),
        project=ServersPlace((".grok/config.toml",), ("mcp_servers",), "toml"),
        programs=("grok",),
        remark="After add-mcp 2.4.0; its own documentation is not in the sources.",
    ),
    Client(
        "kimi-code",
        "Kimi Code",
        mode="search",
        why=_UNKNOWN,
        source="https://github.com/neon-solutions/add-mcp",
        looked_up=_DAY,
        user=ServersPlace((".kimi-code/mcp.json",), shape="kimi", variable=("KIMI_CODE_HOME", "mcp.json")),
        project=ServersPlace((".kimi-code/mcp.json",), shape="kimi"),
        programs=("kimi",),
        remark="After add-mcp 2.4.0; its own documentation is not in the sources.",
    ),
    Client(
        "auggie",
        "Augment Auggie",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.augmentcode.com/cli/integrations",
        looked_up=_DAY,
        user=ServersPlace((".augment/settings.json",), form="jsonc"),
        project=ServersPlace((".augment/settings.json",), form="jsonc"),
        programs=("auggie",),
        remark="Augment's extensions for editors keep servers in their own settings.",
    ),
    Client(
        "droid",
        "Factory Droid",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.factory.ai/factory-cli/configuration/mcp",
        looked_up=_DAY,
        user=ServersPlace((".factory/mcp.json",), shape="typed"),
        project=ServersPlace((".factory/mcp.json",), shape="typed"),
        programs=("droid",),
    ),
    Client(
        "openhands",
        "OpenHands CLI",
        mode="search",
        why=_UNKNOWN,
        source="https://docs.openhands.dev/openhands/usage/cli/mcp-servers",
        looked_up=_DAY,
        user=ServersPlace((".openhands/mcp.json",)),
        programs=("openhands",),
        remark="Versions before 1.0 used config.toml.",
    ),
    Client(
        "mcphub",
        "mcphub.nvim (Neovim)",
        mode="search",
        why=_UNKNOWN,
        source="https://github.com/ravitemer/mcphub.nvim",
        looked_up=_DAY,
        user=ServersPlace(("@xdg/mcphub/servers.json",), form="jsonc"),
        programs=("mcp-hub",),
    ),
)
"""The clients that Tabane knows, in the order they are shown."""


def client_named(name: str) -> Client | None:
    """Return the client of that name; None if Tabane does not know it."""
    return next((client for client in CLIENTS if client.name == name), None)
