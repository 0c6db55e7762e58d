"""Declarations of the operations on the flow policy. Handlers are imported on first use."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tabane.hub.people.flows import parameters as given
from tabane.operations import Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.hub.people.access import HubAccess
    from tabane.hub.people.flows.hub_flows import HubFlows
    from tabane.hub.people.flows.operations import FlowOperations
    from tabane.messages import Lang

PERSON = frozenset({Face.RPC, Face.CLI})


def flow_table(flows: HubFlows, access: HubAccess) -> list[Operation]:
    """Return the operations. What answers them is imported with the first."""

    @cache
    def operations() -> FlowOperations:
        from tabane.hub.people.flows.operations import FlowOperations

        return FlowOperations(flows, access)

    return [
        Operation(
            "explain_flow",
            "Explain whether a call of a tool would be asked about after what its client has read, and why.",
            given.ExplainFlow, lambda c, p: operations().explain(c, p), PERSON, Privilege.READ,
            text=_explanation, read_only=True, source="admin", label="Explain the flow policy",
        ),
        _look("list_flow_labels", "The flow labels of tools, and where each comes from.",
              given.ListFlowLabels, lambda c, p: operations().labels(c, p)),
        _look("list_flow_trails", "What clients have read in the last 30 minutes, and the allowed pairs.",
              given.FlowTrails, lambda c, p: operations().trails(c, p)),
        _change("forget_flow_trails", "Forget what clients have read.", given.FlowTrails,
                lambda c, p: operations().forget(c, p)),
        _change("allow_flow", "Let calls of a server or source begin after another was read.",
                given.FlowPair, lambda c, p: operations().allow(c, p)),
        _change("disallow_flow", "Ask again about a pair that was allowed.", given.FlowPair,
                lambda c, p: operations().disallow(c, p)),
    ]  # fmt: skip


def _change(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(name, description, params, handler, PERSON, Privilege.ADMIN, source="admin")


def _look(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(
        name, description, params, handler, PERSON, Privilege.READ, read_only=True, source="admin"
    )  # fmt: skip


def _explanation(found: dict[str, Any], lang: Lang) -> str:
    from tabane.hub.people.flows.operations import explanation_messages

    return "\n".join(message.render(lang) for message in explanation_messages(found))
