"""Files of every assistant as people have them: comments, line endings, other settings, secrets."""

from __future__ import annotations

import json
from typing import Any

from tabane.servers.assistants.table import CLIENTS, Client

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

SERVERS: dict[str, dict[str, Any]] = {
    "github": {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-github"],
        "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": SECRET},
    },
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/hana"]},
    "時計": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone=Asia/Tokyo"]},
    "off": {"command": "uvx", "args": ["mcp-server-git"], "disabled": True},
}

CODEX = f"""# Codex settings of Hana
model = "gpt-6"
approval_policy = "on-request"

[mcp_servers.github]
command = "npx"
args = [
  "-y",  # no question
  "@modelcontextprotocol/server-github",
]
env = {{ "GITHUB_PERSONAL_ACCESS_TOKEN" = "{SECRET}" }}
enabled_tools = ["get_issue", "list_issues"]

# the clock
[mcp_servers."時計"]
command = "uvx"
args = ["mcp-server-time"]
startup_timeout_sec = 20

[mcp_servers."時計".env]
TZ = 'Asia/Tokyo'

[tui]
theme = "dark" # trailing comment

[[profiles]]
name = "a"
"""

GOOSE = f"""# goose
GOOSE_PROVIDER: anthropic
GOOSE_MODEL: claude
shared: &shared
  TZ: Asia/Tokyo
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin
  github:
    type: stdio
    cmd: npx
    args: [-y, "@modelcontextprotocol/server-github"]
    enabled: true
    envs: {{GITHUB_PERSONAL_ACCESS_TOKEN: {SECRET}}}
    name: github
    timeout: 300
  clock:  # a clock
    type: stdio
    cmd: uvx
    args:
      - mcp-server-time
    enabled: true
    envs: *shared
    name: clock
    timeout: 300
keys: >
  folded
  text
"""

ZED = """// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "theme": {
    "mode": "system",
    "light": "One Light", // trailing
  },
  "context_servers": {
    "mcp-server-puppeteer": { "settings": {} },
    /* the files */
    "files": {
      "source": "custom",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/hana"], // home
      "env": {},
    },
  },
  "vim_mode": true,
}
"""

OPENCODE = """{
\t"$schema": "https://opencode.ai/config.json",
\t"mcp": {
\t\t// issues
\t\t"github": {
\t\t\t"type": "local",
\t\t\t"command": ["npx", "-y", "@modelcontextprotocol/server-github"],
\t\t\t"environment": {"GITHUB_PERSONAL_ACCESS_TOKEN": "{env:GITHUB_TOKEN}"},
\t\t\t"enabled": true
\t\t},
\t\t"docs": { "type": "remote", "url": "https://example.com/mcp", "enabled": false }
\t},
\t"tools": { "github_delete_*": false }
}
"""


def text_of(client: Client, number: int) -> str:
    """Return a file of a client; ``number`` selects its layout."""
    place = client.user
    assert place is not None
    own = {"codex": CODEX, "goose": GOOSE, "zed": ZED, "opencode": OPENCODE}
    if client.name in own:
        return own[client.name]
    if place.form == "toml":
        return CODEX.replace("\n", "\r\n")
    if place.shape == "opencode":
        return OPENCODE.replace("\n", "\r\n").replace("\t", "   ")
    servers: dict[str, Any] = {
        name: {**({"type": "stdio"} if place.shape == "typed" else {}), **server}
        for name, server in SERVERS.items()
    }
    value: dict[str, Any] = {"theme": "dark", "numbers": [1, 2.50, 1e3]}
    inner: Any = servers
    for key in reversed(place.key):
        inner = {key: inner}
    value |= inner
    if client.per_project:
        there = {"command": "node", "args": ["tool.js"]}
        value["projects"] = {
            "/home/hana/shop": {"allowedTools": [], "mcpServers": {"shop": there}, "history": []},
            "/home/hana/none": {"mcpServers": {}},
        }
    value["last"] = {"é": "\u2028", "list": []}
    layouts: list[Any] = [
        lambda: json.dumps(value, indent=2, ensure_ascii=False) + "\n",
        lambda: json.dumps(value, indent="\t", ensure_ascii=False).replace("\n", "\r\n"),
        lambda: json.dumps(value, separators=(",", ":")),
        lambda: "\ufeff" + json.dumps(value, indent=4) + "\n\n",
        lambda: json.dumps(value, ensure_ascii=False),
    ]
    text: str = layouts[number % len(layouts)]()
    if place.form == "jsonc" and "\n" in text:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = mark + "// mine\n" + text.removeprefix(mark).replace('"theme"', '/* color */ "theme"', 1)
    return text


FILES = {
    client.name: text_of(client, number) for number, client in enumerate(CLIENTS) if client.user is not None
}
