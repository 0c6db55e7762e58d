"""A hub with a server whose definitions come from a file, and what a person sees and decides of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tabane.operations import Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, child


def tool(name: str, description: str = "Looks something up.", **more: Any) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


class Definitions:
    """The file of a server's definitions."""

    def __init__(self, path: Path, *tools: Json, **other: Any) -> None:
        self.path = path
        self.write(*tools, **other)

    def write(self, *tools: Json, **other: Any) -> None:
        """Replace what the server defines; it notices that by itself."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"tools": list(tools), **other}))
        os.replace(new, self.path)

    def server(self, *arguments: str, **keys: Any) -> Json:
        return child("--definitions", str(self.path), *arguments, **keys)


async def operate(here: RunningHub, name: str, /, **params: Any) -> Any:
    caller = Caller("local", Face.RPC, "program")
    return await here.hub.door.invoke(caller, name, json.dumps(params).encode())


async def waiting(here: RunningHub, count: int = 1, server: str = "up") -> list[Json]:
    """The definitions that wait for a person, as soon as they are that many."""
    await until(
        lambda: len(here.hub.gateway.review.changes(server)) == count,
        f"{count} definitions wait; {here.hub.gateway.review.changes(server)}",
    )
    rows: list[Json] = (await operate(here, "list_definition_changes", server=server))["results"]
    return rows


async def started(here: RunningHub, server: str = "up") -> None:
    await operate(here, "start_upstream", name=server)


async def decide(here: RunningHub, operation: str, *rows: Json, server: str = "up") -> Any:
    given = [{key: row[key] for key in ("kind", "name", "digest")} for row in rows]
    return await operate(here, operation, server=server, definitions=given)


def names(here: RunningHub) -> list[str]:
    return [tool.alias for tool in here.hub.gateway.catalog.tools]
