"""Administration of a hub: its status, settings and end, and its table of operations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import Struct

from tabane.errors import Forbidden
from tabane.hub.clients.server_access import inner_access
from tabane.hub.hub import Hub
from tabane.messages import Lang, say
from tabane.operations import LOCAL, Caller, NoParameters, Operation, OperationTable, Privilege
from tabane.settings import Settings, load_settings


class HubStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """``settings``: also every setting with its value and where that came from."""

    settings: bool = False


class StopServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``restart``: whoever starts the next hub gives it the flags of this one."""

    restart: bool = False


class AdministeredHub(Protocol):
    """The methods that the administration needs of the process of a hub."""

    def report(self) -> dict[str, Any]:
        """Return the status of the hub: version, process, home, uptime, flags, sessions, and counts."""
        ...

    async def try_port(self) -> None:
        """Listen at the port that was taken, if it is free by now; else find out who has it."""
        ...

    async def kept(self) -> dict[str, Any]:
        """Return counts of stored data that need no work, and what status shows of keys and the audit log."""
        ...

    def settings_report(self, caller: Caller) -> list[dict[str, Any]]:
        """Return every setting: name, value, source, help."""
        ...

    def beginning(self, caller: Caller) -> dict[str, Any] | None:
        """Return the state of the job that opens stored data; None if it is done."""
        ...

    def end(self, why: str) -> None:
        """Begin to end. Return at once; requests in flight are finished first."""
        ...

    def sign_in_link(self) -> str:
        """Return a URL that signs one browser in to the web page. Raises HubError."""
        ...

    def restart(self) -> None:
        """Start a process that replaces this hub by the next one. Raises HubError if that is impossible."""
        ...

    def keep(self) -> None:
        """Treat the hub as started by hand from now on: it does not end when idle."""
        ...


class HubAdministration:
    """Operations on the hub. It is created before the hub process, which :meth:`of` sets later."""

    def __init__(self) -> None:
        self._administered: AdministeredHub | None = None

    def of(self, administered: AdministeredHub) -> None:
        """Administer this hub from now on."""
        self._administered = administered

    def table(self) -> list[Operation]:
        """Return the operations: status, end, restart, and links that sign in."""
        return [
            Operation("hub_status", "How the hub is.", HubStatus, self.status, privilege=Privilege.READ),
            Operation(
                "check_init", "Whether everything that is kept can be asked for yet, and how far that is.",
                NoParameters, self.check_init, public=True, source="hub", privilege=Privilege.READ,
            ),
            Operation(
                "sign_in_link",
                "A URL that signs one browser in to the web page, with everything that the user may do. It "
                "works once, for two minutes.",
                NoParameters, self.sign_in_link,
            ),
            Operation("stop_server", "End the hub.", StopServer, self.stop),
            Operation(
                "restart_hub", "End the hub, and start it again with the same flags.",
                NoParameters, self.restart,
            ),
            Operation(
                "keep_server", "Do not end when idle.",
                NoParameters, self.keep,
            ),
        ]  # fmt: skip

    async def status(self, caller: Caller, params: HubStatus) -> dict[str, Any]:
        """Return how the hub is, after another attempt to listen at a port that was taken."""
        hub = self._administered_hub()
        await hub.try_port()
        report = hub.report() | await hub.kept()
        return report | {"settings": hub.settings_report(caller)} if params.settings else report

    async def check_init(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        beginning = self._administered_hub().beginning(caller)
        if beginning is None:
            return {"status": "init_completed"}
        return {"status": "init_in_progress", "progress": beginning}

    async def stop(self, caller: Caller, params: StopServer) -> dict[str, str]:
        """Stop the hub. It answers first, finishes the requests in flight, then closes everything."""
        # The connection that asks is among those in flight, so its answer goes out before the end.
        self._administered_hub().end("restart" if params.restart else "stop")
        return {"status": "stopping", "message": say("The hub is stopping.").render(caller.lang)}

    async def sign_in_link(self, caller: Caller, params: NoParameters) -> dict[str, str]:
        """Return a link that signs a browser in. Raises Forbidden for anyone but the local user."""
        if inner_access(caller.access) is not LOCAL:
            raise Forbidden(say("Only the user of this machine can make a link that signs in as that user."))
        await self._administered_hub().try_port()
        return {"url": self._administered_hub().sign_in_link()}

    async def restart(self, caller: Caller, params: NoParameters) -> dict[str, str]:
        """Restart the hub. Assistants and pages connect to the next one by themselves."""
        self._administered_hub().restart()
        return {"status": "restarting", "message": say("The hub is restarting.").render(caller.lang)}

    async def keep(self, caller: Caller, params: NoParameters) -> dict[str, str]:
        """Treat the hub as started by hand, so that it does not end when idle."""
        self._administered_hub().keep()
        return {"status": "kept"}

    def _administered_hub(self) -> AdministeredHub:
        if self._administered is None:
            raise asyncio.InvalidStateError("the administration has no hub yet")
        return self._administered


def settings_report(settings: Settings, lang: Lang) -> list[dict[str, Any]]:
    """Return a row for each setting: name, value, unit, source, where, help.

    ``source`` is flag, environment, file or default.
    """
    return [
        {
            "name": setting.name,
            "value": _plain_value(setting.value),
            "unit": setting.unit.render(lang) if setting.unit else None,
            "source": setting.source.kind,
            "where": setting.source.where,
            "help": setting.help.render(lang),
        }
        for setting in settings.explain()
    ]


def _plain_value(value: Any) -> int | float | str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if value is None:
        return ""
    return value if isinstance(value, int | float) else str(value)


def table_of(hub: Hub, administration: HubAdministration) -> OperationTable:
    """Return the operations of a hub that runs as a process."""

    def declare() -> Iterator[Operation]:
        from tabane.hub.process.settings_operations import process_operations  # with the first operation

        yield from (*hub.table, *administration.table(), *process_operations(hub))

    return OperationTable(declare)


async def whole_table() -> OperationTable:
    """Return the operations of a hub that is never opened, in a temporary folder."""
    import tempfile  # for the generator of a page, not for a hub

    with tempfile.TemporaryDirectory() as home:
        hub = Hub(load_settings({"home": home}, {}), {}, asyncio.get_running_loop())
        return table_of(hub, HubAdministration())
