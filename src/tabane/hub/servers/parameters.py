"""Parameters of the operations that change which servers there are.

The table of these operations and their handlers, which are imported later, both need them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

MOST_SERVERS = 500
LONGEST_WAIT = 30


class TryServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``definition`` is the entry that the servers file would have under ``name``.

    ``replaces`` is the server whose hidden values (``***``) the definition may contain. ``secrets`` are
    values of variables that are not kept yet.
    """

    name: Annotated[str, Meta(min_length=1)]
    definition: dict[str, Any]
    replaces: str | None = None
    secrets: dict[str, str] = {}


class StartNewServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``names`` are servers of the file. The answer comes when all have listed, or after ``wait`` seconds."""

    names: Annotated[list[str], Meta(min_length=1, max_length=MOST_SERVERS)]
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class FindServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``query`` is a part of a name or of a description. ``cursor`` is ``next`` of the page before."""

    query: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, Meta(max_length=1_000)] | None = None


Name = Annotated[str, Meta(min_length=1, max_length=200)]


class ShowDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a server of the file."""

    name: Name


class CheckDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """``replaces`` is the server whose hidden values the definition may contain; None for a new server."""

    name: Name
    definition: dict[str, Any]
    replaces: str | None = None


class AddServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``keep_secrets``: keys and passwords are kept as secrets, and the entry refers to them."""

    name: Name
    definition: dict[str, Any]
    keep_secrets: bool = False


class ChangeServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``version`` is that of the shown definition: if the file has another by now, nothing is changed.

    ``keep_secrets``: new keys and passwords are kept as secrets, and the entry refers to them.
    """

    name: Name
    definition: dict[str, Any]
    version: str | None = None
    keep_secrets: bool = False


class RemoveServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a server of the file."""

    name: Name


class EnableServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``enabled``: False disables the server."""

    name: Name
    enabled: bool
