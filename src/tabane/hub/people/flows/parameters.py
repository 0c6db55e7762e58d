"""Parameters of the operations on the flow policy."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Holder = Annotated[
    str, Meta(min_length=1, max_length=300, description="Whose calls, such as local or key:ID.")
]
ClientName = Annotated[str, Meta(max_length=512, description="Only this client, as it names itself.")]
Folder = Annotated[str, Meta(max_length=4096, description="Only this working folder, as an absolute path.")]
Pair = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=512,
        description="What was read, and what may be called after it, such as web>mail.",
    ),
]


class ExplainFlow(Struct, frozen=True, forbid_unknown_fields=True):
    """``arguments`` are those of the call: some tools send data away only if a recipient is given."""

    tool: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=300,
            description="Name of a tool (server__tool) or of an operation (delete_document).",
        ),
    ]
    holder: Holder = "local"
    client: ClientName | None = None
    cwd: Folder | None = None
    arguments: dict[str, Any] | None = None


class ListFlowLabels(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a server, or a tool with its server."""

    name: Annotated[str, Meta(max_length=300, description="Only this server or this tool.")] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of tools.")] = 1_000


class FlowTrails(Struct, frozen=True, forbid_unknown_fields=True):
    """Which trails are meant: all that fit everything that is given."""

    holder: Holder | None = None
    client: ClientName | None = None
    cwd: Folder | None = None


class FlowPair(Struct, frozen=True, forbid_unknown_fields=True):
    """A pair ``read>called`` of a holder."""

    pair: Pair
    holder: Holder = "local"
