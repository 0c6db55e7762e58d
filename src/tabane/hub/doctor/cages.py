"""Checks of the cages of servers: by what they are enforced here, and what they leave open."""

from __future__ import annotations

from collections.abc import Iterator

from tabane.hub.doctor.installation import DoctorFinding, Installation, fault, note, ok
from tabane.hub.servers.cages import cages_of
from tabane.messages import say


def cages(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the cage of each server that has one. Nothing is tried for servers without one."""
    servers = [s for s in installation.enabled if s.sandboxed]
    if not servers:
        return
    builder = cages_of(installation.settings, installation.children)()
    for server in servers:
        found = builder.describe(server)
        if found is None:
            continue
        if found["problem"] is not None:
            yield fault(
                say("{server!n} does not start: {why}", server=server.name, why=found["problem"]),
                say("Fix the entry in {servers}, or what is missing.", servers=installation.servers_path),
            )
            continue
        how = ", ".join(found["mechanism"])
        yield ok(say("{server!n} runs in a sandbox: {how}", server=server.name, how=how))
        for each in found["uncovered"]:
            yield note(say("{server!n}: {what}", server=server.name, what=each))
