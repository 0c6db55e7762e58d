"""Operations on definitions that changed or look like an attack: the list, the difference, the decision."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import (
    DecideDefinitions,
    DefinitionGiven,
    ListDefinitionChanges,
    ShowDefinitionChange,
)
from tabane.errors import BadArguments, UnknownName
from tabane.guard.definitions.changes import DefinitionChange
from tabane.guard.definitions.definition import ChosenDefinition, DefinitionKey
from tabane.guard.definitions.diffs import definition_diff
from tabane.guard.definitions.pins import PinnedDefinition
from tabane.messages import say
from tabane.operations import Caller
from tabane.workers.time_slices import TimeSlices


class DefinitionOperations:
    """Shows and decides what the review of definitions has found."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def changes(self, caller: Caller, params: ListDefinitionChanges) -> dict[str, Any]:
        """Return the definitions that wait, those that are held back first, and how many they are."""
        names = [self._gateway.server(params.server).name] if params.server else list(self._gateway.servers)
        review, turns = self._gateway.review, TimeSlices()
        found, rows = [], []
        for name in names:
            for pinned in review.waiting(name):
                await turns.pause()
                found.append(review.change(name, pinned))
        found.sort(key=lambda each: (not each.held, not each.current, each.server, each.key))
        for change in found[: params.limit]:
            await turns.pause()
            rows.append(change.row(caller.lang))
        return {"results": rows, "total": len(found), "held": sum(each.held for each in found)}

    async def show(self, caller: Caller, params: ShowDefinitionChange) -> dict[str, Any]:
        """Return one change with the lines of its difference to the definition that is trusted."""
        change = self._found(params)
        bodies = await self._gateway.review.bodies(change.server, change.key)
        new = bodies.get(change.pin.digest)
        if new is None:
            raise UnknownName(say("The definition of {name} is not kept any more.", name=params.name))
        old = bodies.get(change.before) if change.before else None
        lines = await asyncio.to_thread(definition_diff, old, new)
        diff = [{"mark": line.mark, "text": line.text} for line in lines]
        return {**change.row(caller.lang), "diff": diff}

    async def accept(self, caller: Caller, params: DecideDefinitions) -> dict[str, Any]:
        return await self._decide(params, accept=True)

    async def reject(self, caller: Caller, params: DecideDefinitions) -> dict[str, Any]:
        return await self._decide(params, accept=False)

    async def _decide(self, params: DecideDefinitions, *, accept: bool) -> dict[str, Any]:
        server = self._gateway.server(params.server).name
        chosen = _chosen(self._gateway.review.waiting(server), params.definitions)
        await self._gateway.decide(server, chosen, accept=accept)
        left = self._gateway.review.counts(server)
        return {
            "server": server,
            "status": "accepted" if accept else "rejected",
            "count": len(params.definitions),
            "waiting": left["waiting"],
            "held": left["held"],
        }

    def _found(self, params: ShowDefinitionChange) -> DefinitionChange:
        """Return the change that is meant: of several, the one that the server lists now."""
        server = self._gateway.server(params.server).name
        found = [
            each
            for each in self._gateway.review.changes(server)
            if params.name in (None, each.key.name)
            and params.kind in (None, each.key.kind)
            and params.digest in (None, each.pin.digest.hex())
        ]
        if found:
            return max(found, key=lambda each: (each.current, each.key.kind == "tool", each.pin.seen))
        raise UnknownName(
            say(
                "No change of {name} at {server!n} waits. List those that wait: tabane servers changes "
                "{server!c}",
                name=params.name or "instructions",
                server=server,
            )
        )


def _chosen(waiting: Sequence[PinnedDefinition], given: Sequence[DefinitionGiven]) -> list[ChosenDefinition]:
    """Return what is meant. A definition contains its name, so kind and digest are enough."""
    names = {(key.kind, pin.digest): key.name for key, pin in waiting}
    found = []
    for each in given:
        digest = _digest(each)
        name = each.name if each.name is not None else names.get((each.kind, digest), "")
        found.append(ChosenDefinition(DefinitionKey(each.kind, name), digest))
    return found


def _digest(given: DefinitionGiven) -> bytes:
    try:
        return bytes.fromhex(given.digest)
    except ValueError:
        raise BadArguments(
            say("digest: the hash of a definition is required, as it was listed."), "definitions"
        ) from None
