"""Operations on the flow policy: labels, trails, allowed pairs, and what the policy says of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tabane.errors import BadArguments, StoreError
from tabane.guard.flows.flow_rule import FETCHING, FlowFinding, FlowRule, flow_reason, sources_read
from tabane.guard.flows.trails import SPILLED, Trail, TrailKey
from tabane.hub.people.access import HubAccess
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.people.flows.table import ExplainFlow, FlowPair, FlowTrails, ListFlowLabels
from tabane.messages import Lang, Message, say
from tabane.operations import Caller
from tabane.servers.labels import CallLabels, label_names

_AT_ONCE = 50
"""Targets that are looked at before others have their turn."""


class FlowOperations:
    """Operations that show and change the flow policy, for a person."""

    def __init__(self, flows: HubFlows, access: HubAccess) -> None:
        self._flows, self._access = flows, access

    async def explain(self, caller: Caller, params: ExplainFlow) -> dict[str, Any]:
        """Return the labels of a tool, and what the policy says of a call of it. Raises UnknownName."""
        target = await self._access.find_target(caller, params.tool)
        labels = self._flows.state().labels(target)
        found: dict[str, Any] = {"tool": target.name, "server": target.server, **_labels_row(labels)}
        rule = self._flows.rule
        if rule is None:
            return {**found, "outcome": "off", "trail": None}
        fitting = _fitting(rule, FlowTrails(params.holder, params.client, params.cwd))
        trail = next(iter(fitting), None)
        key = (
            trail.key if trail is not None else TrailKey(params.holder, params.client or "", params.cwd or "")
        )
        arguments = b"" if params.arguments is None else msgspec.json.encode(params.arguments)
        finding = rule.view(key, target, arguments)
        row = None if trail is None else _trail_row(trail)
        if finding is None:
            return {**found, "outcome": "allow", "trail": row}
        why_asked = (
            flow_reason(finding, target.name, key.holder, fetches=target.name in FETCHING)
            if arguments
            else _reason_of_any(finding, target.name)
        )
        reason = why_asked.render(caller.lang)
        targets = [msgspec.structs.asdict(target) for target in finding.targets]
        why = {"rule": finding.rule, "pairs": list(finding.pairs), "targets": targets, "reason": reason}
        return {**found, "outcome": finding.action, "trail": row, **why}

    async def labels(self, caller: Caller, params: ListFlowLabels) -> dict[str, Any]:
        """Return the labels of tools, and where each comes from. Raises UnknownName."""
        rows: list[dict[str, Any]] = []
        for count, target in enumerate(self._access.known()):
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)  # those of a large catalog take tens of milliseconds
            if params.name and params.name not in (target.name, target.server):
                continue
            labels = self._flows.state().labels(target)
            if labels.bits or params.name:
                rows.append({"tool": target.name, "server": target.server, **_labels_row(labels)})
            if len(rows) > params.limit:
                return {"results": rows[: params.limit], "more": True}
        if params.name and not rows and not self._flows.has_server(params.name):
            await self._access.find_target(caller, params.name)  # raises UnknownName, with what is meant
        return {"results": rows, "more": False}

    async def trails(self, caller: Caller, params: FlowTrails) -> dict[str, Any]:
        """Return the trails of clients, and the allowed pairs by holder."""
        rule = self._flows.rule
        found = [] if rule is None else _fitting(rule, params)
        rows = [_trail_row(trail) for trail in found]
        pairs = {holder: sorted(pairs) for holder, pairs in sorted(self._flows.state().pairs.all().items())}
        return {"policy": "off" if rule is None else rule.policy, "results": rows, "allowed": pairs}

    async def forget(self, caller: Caller, params: FlowTrails) -> dict[str, Any]:
        """Remove trails, and return their number. Raises StoreError."""
        try:
            if self._flows.rule is None:  # which reads the trails of an earlier hub
                return {"forgotten": 0}
            return {"forgotten": self._flows.state().forget(lambda key: _fits(key, params))}
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path="flow-trails.jsonl", detail=str(error))
            ) from None

    async def allow(self, caller: Caller, params: FlowPair) -> dict[str, Any]:
        """Allow a tool with a target, or a pair, for a holder. Raises BadArguments and StoreError."""
        read, arrow, called = params.pair.partition(">")
        if not (read and arrow and called) or ">" in called:
            raise BadArguments(
                say(
                    "pair: {pair} is not a pair. Write a tool, > and what it may reach, such as "
                    "mail__send_email>bob@example.com, or a server that was read, > and a server that may be "
                    "called. List what is allowed with: tabane policy trails",
                    pair=params.pair,
                ),
                "pair",
            )
        pair = params.pair if self._flows.has_server(called) else f"{read}>{called.lower()}"
        return {"pair": pair, "changed": self._flows.state().pairs.allow(params.holder, pair)}

    async def disallow(self, caller: Caller, params: FlowPair) -> dict[str, Any]:
        """Ask again about a pair. Raises StoreError."""
        pairs, pair = self._flows.state().pairs, params.pair
        changed = pairs.disallow(params.holder, pair)
        if not changed:  # targets are kept in small letters
            read, arrow, called = params.pair.partition(">")
            pair = f"{read}{arrow}{called.lower()}"
            changed = pairs.disallow(params.holder, pair)
        return {"pair": pair, "changed": changed}


def _reason_of_any(finding: FlowFinding, tool: str) -> Message:
    """Return why some calls of a tool are held back, if nobody knows yet what the call would reach."""
    return say(
        "{tool} sends data away or does something that cannot be undone, and this client read content that "
        "strangers can write ({read}), so each target that only such content names is asked about. A person "
        "who wants one of them from now on runs: tabane policy allow {pair!c}.",
        tool=tool, read=sources_read(finding), pair=f"{tool}>TARGET",
    )  # fmt: skip


def explanation_messages(found: dict[str, Any]) -> list[Message]:
    """Return an explanation as messages: the labels, what was read, and what would happen."""
    return [*label_messages(found), *_trail_messages(found["trail"]), _outcome_message(found)]


def explanation_text(found: dict[str, Any], lang: Lang) -> str:
    """Return an explanation as lines of text."""
    return "\n".join(message.render(lang) for message in explanation_messages(found))


def label_messages(row: dict[str, Any]) -> list[Message]:
    """Return the labels of a tool, and where each comes from."""
    if not row["labels"]:
        return [say("{tool} has no labels.", tool=row["tool"])]
    labels = ", ".join(f"{each['label']} ({each['from']})" for each in row["labels"])
    found = [say("{tool} is labeled {labels}.", tool=row["tool"], labels=labels)]
    if row.get("if_given"):
        names = ", ".join(row["if_given"])
        found.append(say("It is external only if one of these is given: {names}.", names=names))
    return found


def _trail_messages(trail: dict[str, Any] | None) -> Iterator[Message]:
    if trail is None or not trail["labels"]:
        yield say("The client has read nothing with a label in the last 30 minutes.")
        return
    who = trail["client"] or trail["holder"]
    for label in trail["labels"]:
        read = ", ".join(trail[label].values())
        yield say("{who} has read something {label}: {read}.", who=who, label=label, read=read)


def _outcome_message(found: dict[str, Any]) -> Message:
    match found["outcome"]:
        case "off":
            return say('The flow policy is off: flow_policy = "off".')
        case "allow":
            return say("The flow policy lets a call of {tool} begin.", tool=found["tool"])
        case "ask":
            return say("A person would be asked. {reason}", reason=found["reason"])
        case _:
            return say("The call would be refused. {reason}", reason=found["reason"])


def _labels_row(labels: CallLabels) -> dict[str, Any]:
    rows = [{"label": label_names(bit)[0], "from": origin} for bit, origin in sorted(labels.origins)]
    return {"labels": rows, "if_given": list(labels.if_given)} if labels.if_given else {"labels": rows}


def _trail_row(trail: Trail) -> dict[str, Any]:
    return {
        "holder": trail.key.holder,
        "client": trail.key.client,
        "cwd": trail.key.folder,
        "labels": label_names(trail.labels),
        "private": dict(trail.private),
        "untrusted": dict(trail.untrusted),
        "passed": sorted(trail.passed),
        "since": _time(trail.since or trail.used),
        "used": _time(trail.used),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _fits(key: TrailKey, wanted: FlowTrails) -> bool:
    """Return whether a trail is meant. One that counts for everybody is meant if nobody is named."""
    given = (wanted.holder, wanted.client, wanted.cwd)
    if key == SPILLED:
        return given == (None, None, None)
    return all(name is None or name == part for name, part in zip(given, key, strict=True))


def _fitting(rule: FlowRule, wanted: FlowTrails) -> list[Trail]:
    """Return the trails with labels that are meant, the latest first."""
    found = (each for each in rule.trails if each.labels and _fits(each.key, wanted))
    return sorted(found, key=lambda each: -each.used)
