"""The names that hosts give to the tools of a server, and their greatest length; pure.

A host puts the name of Tabane's entry in its own configuration before the name of a tool, and refuses or
drops a tool whose whole name is too long. Only listed tools have such a name: ``call_tool`` takes a name of
any length.
"""

from __future__ import annotations

from msgspec import Struct

ENTRY = 9
"""Characters of Tabane's entry in the configuration of a host. ``tabane install`` writes ``tabane``."""


class HostNaming(Struct, frozen=True):
    """The names of tools in one kind of hosts.

    ``form`` is how ``{entry}`` and ``{tool}`` are joined, ``limit`` the characters of the result.
    """

    hosts: str
    form: str
    limit: int

    def room(self, entry: int = ENTRY) -> int:
        """Return the characters that are left for the name of a tool."""
        return self.limit - len(self.form.format(entry="x" * entry, tool=""))


HOSTS = (
    # Some models take 128, but its references to tools are limited to 64.
    HostNaming("Claude Code, Codex", "mcp__{entry}__{tool}", 64),
    HostNaming("Claude Desktop", "{entry}:{tool}", 64),
    HostNaming("Cursor", "{entry}{tool}", 60),
    HostNaming("VS Code", "mcp_{entry}_{tool}", 64),
    HostNaming("Gemini CLI", "mcp_{entry}_{tool}", 64),
    HostNaming("Copilot CLI", "{entry}-{tool}", 64),
)
"""Forms and limits in 2026, from the documentation and the issues of the hosts."""

LONGEST = min(host.room() for host in HOSTS)
"""Characters of a name that all hosts take. One name serves all, since policies and transcripts repeat it."""
