"""Extensions of MCP that the hub can carry between clients and servers.

An extension is announced under its identifier, in the member ``extensions`` of the capabilities (SEP-2133).
The specification of each says which side announces it: clients announce Apps, servers announce Skills, and
both announce Tasks.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

TASKS = "io.modelcontextprotocol/tasks"
UI = "io.modelcontextprotocol/ui"
SKILLS = "io.modelcontextprotocol/skills"


class Extension(Struct, frozen=True):
    """An extension that the hub knows. ``name`` is its name in the setting ``extensions``.

    ``carried`` is whether the hub implements what the extension asks of both its sides. ``to_clients`` and
    ``to_servers`` are the JSON objects with which the hub announces it; None if that side does not announce
    it. Servers that all clients share are told ``to_servers``, the others what their own client announced.
    """

    id: str
    name: str
    carried: bool
    to_clients: bytes | None = None
    to_servers: bytes | None = None


EXTENSIONS = (
    Extension(UI, "ui", True, b"{}", b'{"mimeTypes":["text/html;profile=mcp-app"]}'),
    Extension(TASKS, "tasks", True, b"{}", b"{}"),
    Extension(SKILLS, "skills", True, b'{"directoryRead":true}'),
)
"""The extensions in the order in which they are announced. Set ``carried`` once the hub implements one."""


def carried(allowed: Collection[str]) -> tuple[Extension, ...]:
    """Return the extensions that the hub carries and that the setting allows."""
    return tuple(each for each in EXTENSIONS if each.carried and each.name in allowed)
