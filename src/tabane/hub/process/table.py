"""All that programs can ask a hub for: its own operations, and those on its process."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tabane.hub.hub import Hub
from tabane.hub.process.administration import HubAdministration
from tabane.hub.rpc.page import rpc_page
from tabane.operations import OperationTable
from tabane.settings import load_settings


def table_of(hub: Hub, administration: HubAdministration) -> OperationTable:
    """The operations of a hub that runs as a process."""
    return OperationTable([*hub.table, *administration.table()])


async def whole_table() -> OperationTable:
    """The same, of a hub that is never opened, in a folder that is gone after."""
    with tempfile.TemporaryDirectory() as home:
        hub = Hub(load_settings({"home": home}, {}), {}, asyncio.get_running_loop())
        return table_of(hub, HubAdministration())


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    docs.write_text(rpc_page(docs.read_text(), asyncio.run(whole_table())))
