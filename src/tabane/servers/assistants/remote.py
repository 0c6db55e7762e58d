"""Entries of a hub at a URL in the files of assistants: their forms, and how each trusts a certificate.

Here are hosts whose own documentation, or add-mcp (https://github.com/neon-solutions/add-mcp), shows a remote
server with headers. For all others, `tabane install --url` writes a bridge that they start.
"""

from __future__ import annotations

import shlex
from typing import Literal, NamedTuple

from tabane.servers.assistants.formats import Entry, format_of
from tabane.servers.assistants.table import Client

RemoteForm = Literal[
    "http", "url", "serverUrl", "httpUrl", "streamableHttp", "streamable-http",
    "copilot", "opencode", "goose", "codex",
]  # fmt: skip
"""How an entry names a server at a URL, and its headers."""

CertificateTrust = Literal["node", "codex", "system"]
"""Where a host looks for an authority: NODE_EXTRA_CA_CERTS, CODEX_CA_CERTIFICATE, or the system's store."""


class RemoteHost(NamedTuple):
    """The form of an entry in a host's file, and where the host looks for the authority of a certificate."""

    form: RemoteForm
    trust: CertificateTrust


REMOTE_HOSTS = {
    "claude-code": RemoteHost("http", "node"),
    "cursor": RemoteHost("url", "system"),
    "vscode": RemoteHost("http", "system"),
    "vscode-insiders": RemoteHost("http", "system"),
    "windsurf": RemoteHost("serverUrl", "system"),
    "codex": RemoteHost("codex", "codex"),
    "gemini-cli": RemoteHost("httpUrl", "node"),
    "antigravity": RemoteHost("serverUrl", "system"),
    "zed": RemoteHost("url", "system"),
    "cline": RemoteHost("streamableHttp", "system"),
    "cline-cli": RemoteHost("streamableHttp", "node"),
    "roo-code": RemoteHost("streamable-http", "system"),
    "goose": RemoteHost("goose", "system"),
    "lm-studio": RemoteHost("url", "system"),
    "opencode": RemoteHost("opencode", "node"),
    "kiro": RemoteHost("url", "system"),
    "amp": RemoteHost("url", "node"),
    "copilot-cli": RemoteHost("copilot", "node"),
    "warp": RemoteHost("url", "system"),
    "qwen-code": RemoteHost("httpUrl", "node"),
    "kilo-code": RemoteHost("opencode", "node"),
    "droid": RemoteHost("http", "node"),
    "mcphub": RemoteHost("url", "node"),
}
"""The hosts by the names of their clients."""


def remote_entry(form: RemoteForm, name: str, url: str, key: str) -> Entry:
    """Return the entry of the hub at a URL, with the key in a header."""
    headers = {"Authorization": f"Bearer {key}"}
    if form in ("http", "streamableHttp", "streamable-http"):
        return {"type": form, "url": url, "headers": headers}
    if form == "copilot":
        return {"type": "http", "url": url, "headers": headers, "tools": ["*"]}
    if form == "opencode":
        return {"type": "remote", "url": url, "headers": headers, "enabled": True}
    if form == "goose":
        return {
            "name": name, "description": "", "type": "streamable_http", "uri": url, "headers": headers,
            "enabled": True, "timeout": 300,
        }  # fmt: skip
    if form == "codex":
        return {"url": url, "http_headers": headers}
    return {form: url, "headers": headers}


def remote_block(client: Client, name: str, url: str, key: str) -> str | None:
    """Return what to put into the file of a host, in its own format; None if it takes no server at a URL.

    For Claude Code, it is the command that people use instead.
    """
    host = REMOTE_HOSTS.get(client.name)
    if host is None or client.user is None:
        return None
    if client.name == "claude-code":
        header = shlex.quote(f"Authorization: Bearer {key}")
        return f"claude mcp add --scope user --transport http {name} {shlex.quote(url)} --header {header}\n"
    place = client.user
    wanted = remote_entry(host.form, name, url, key)
    return format_of(place.form).snippet((*place.key, name), wanted)
