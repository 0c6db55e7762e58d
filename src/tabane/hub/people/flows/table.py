"""Operations on the flow policy: their parameters and declarations."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.operations import Opener, Operation, Privilege, Reference, bound

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
        description="A tool and what it may reach, such as mail__send>bob@example.com or mail__send>*, or a "
        "server that was read and a server that may be called after it, such as web>mail.",
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
    """A tool with a target, or a pair ``read>called``, of a holder."""

    pair: Pair
    holder: Holder = "local"


_OPERATIONS = (
    Operation(
        "explain_flow",
        "Explain whether a call of a tool would be asked about after what its client has read, and why.",
        ExplainFlow, "hub.people.flows.operations:FlowOperations.explain",
        text=Reference("hub.people.flows.operations:explanation_text"), label="Explain the flow policy",
        privilege=Privilege.READ,
    ),
    Operation(
        "list_flow_labels", "The flow labels of tools, and where each comes from.",
        ListFlowLabels, "hub.people.flows.operations:FlowOperations.labels", privilege=Privilege.READ,
    ),
    Operation(
        "list_flow_trails", "What clients have read in the last 30 minutes, and what is allowed.",
        FlowTrails, "hub.people.flows.operations:FlowOperations.trails", privilege=Privilege.READ,
    ),
    Operation(
        "forget_flow_trails", "Forget what clients have read.",
        FlowTrails, "hub.people.flows.operations:FlowOperations.forget",
    ),
    Operation(
        "allow_flow", "Let a tool reach a recipient, or calls of a server begin after another was read.",
        FlowPair, "hub.people.flows.operations:FlowOperations.allow",
    ),
    Operation(
        "disallow_flow", "Ask again about a pair that was allowed.",
        FlowPair, "hub.people.flows.operations:FlowOperations.disallow",
    ),
)  # fmt: skip


def flow_table(flows: Opener) -> list[Operation]:
    """Return the operations on the flow policy."""
    return bound(_OPERATIONS, FlowOperations=flows)
