"""Gateway of a hub, operations on tools and servers, and the hub's own tools among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from tabane.catalog.catalogs import ToolEmbedding
from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import KeptLimits, LongResults, QueryPool
from tabane.catalog.tools.validation import ArgumentValidator, ValidationPool
from tabane.code.table import OPEN
from tabane.errors import CallerError, TabaneError
from tabane.guard.definitions.pins import HoldPolicy
from tabane.hub.clients.client_questions import LARGEST as LARGEST_QUESTION
from tabane.hub.clients.disclosure import DISCLOSING, old_names, own_names, own_tools
from tabane.hub.clients.questions.parking import HubQuestions
from tabane.hub.clients.task_calls import TaskParts
from tabane.hub.clients.tool_calls import as_failure, as_result, question_of
from tabane.hub.context import HubContext
from tabane.hub.servers.configuration import FileFollower, cages_of, definition_scans, limits_of
from tabane.hub.servers.result_types import HubResultTypes
from tabane.hub.work.scripts import HubScripts
from tabane.hub.work.tasks import HubTasks
from tabane.messages import Message, say
from tabane.operations import Caller, CallTarget, Door, Face, Lazy, OpenCall, Operation
from tabane.servers.configuration import ServersConfiguration
from tabane.servers.server import Server
from tabane.settings import Settings
from tabane.upstreams.connector import Connector
from tabane.upstreams.handshake import HubChain
from tabane.upstreams.logins.login_book import LoginNetwork
from tabane.upstreams.logins.logins import ServerLogins
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire import json
from tabane.wire.channel import LineBatch
from tabane.wire.era import carried, result_type
from tabane.wire.negotiation import offered_to_servers

if TYPE_CHECKING:
    from tabane.catalog.operations.definition_operations import DefinitionOperations
    from tabane.catalog.operations.offer_operations import AppOperations, OfferOperations
    from tabane.catalog.operations.server_operations import ServerOperations
    from tabane.catalog.operations.tool_operations import ToolOperations
    from tabane.catalog.tool_search import ToolSource
    from tabane.hub.people.access import HubAccess
    from tabane.hub.stores.domain_stores import Stores
    from tabane.hub.telemetry.metering import HubMeter

RESERVED = frozenset(
    {
        *DISCLOSING, "search_everything", "read_url_content", "remember_url", "hello",
        "read_site", "remember_site",
        "search_similar", "search_posts_by_text", "get_user_stats", "get_database_stats", "suggest_users",
        "get_status", "embed_text", "put_document", "put_documents", "put_file", "search_documents",
        "get_document", "list_documents", "delete_document", "get_documents_by_prefix", "get_document_stats",
        "get_post", "get_documentation", "read_resource", "get_prompt",
    }
)  # fmt: skip
"""Names of the hub's own tools, now or in a later version. No tool of an upstream gets one of them."""


MEMORY_OF_VALUE = 4
"""About how many bytes of memory a script needs for a byte of JSON."""


def count_servers(configuration: ServersConfiguration, gateway: Gateway) -> dict[str, int]:
    """Return the counts of servers and tools that status shows."""
    servers = configuration.servers
    running = [any(one.connection for one in gateway.instances(server.name)) for server in servers]
    return {
        "servers": len(servers),
        "servers_disabled": sum(1 for server in servers if server.disabled),
        "servers_running": sum(running),
        "tools": gateway.catalog.count,
        "definition_changes": sum(len(gateway.review.waiting(server.name)) for server in servers),
    }


def _idle(names: frozenset[str], stores: Stores, limits: HubAccess) -> frozenset[str]:
    """Return the own tools that have nothing to work on."""
    from tabane.hub.servers.own_tools import held, idle

    return idle(names, lambda of: held(of, stores, limits))


def _fault_of_address(address: str) -> Message | None:
    """Return why a login may not go to an address; None if it may."""
    from ipaddress import ip_address

    from tabane.reader.guard import fault

    return fault(ip_address(address.partition("%")[0]))


def gateway_of(
    servers: tuple[Server, ...],
    context: HubContext,
    batch: LineBatch,
    processes: ChildProcesses,
    embedding: ToolEmbedding,
    *,
    on_changed: Callable[[str, str], None],
    on_log: Callable[[str, Raw], None],
) -> Gateway:
    """Return the gateway over the servers."""
    settings, environment, loop = context.settings, context.environment, context.loop
    logs = context.home / "logs" / "servers"
    limits = limits_of(settings)
    chain = HubChain()
    logins = ServerLogins(
        settings.home,
        settings.servers,
        LoginNetwork(environment, _fault_of_address, settings.login_client_metadata_url),
        keyring=settings.keyring,
    )
    connector = Connector(
        loop,
        batch,
        processes,
        logs,
        environment,
        settings.max_line,
        limits.downloading,
        lambda: offered_to_servers(gateway.extensions),
        chain,
        logins.of,
        cages_of(settings, environment),
    )
    gateway = Gateway(
        servers,
        settings.home,
        logs,
        loop,
        connector,
        limits,
        reserved=RESERVED,
        embedding=lambda: embedding,
        validator=ArgumentValidator(ValidationPool(environment, errors=2)),
        list_wait=settings.list_wait,
        health_interval=settings.health_interval,
        on_changed=on_changed,
        on_log=on_log,
        obstacle=connector.obstacle,
        preparation=connector.preparation,
        passed=connector.passed,
        cages=connector.cages,
        extensions=carried(settings.extensions),
        chain=chain,
        logins=logins,
        scans=definition_scans(environment, errors=2),
        hold=hold_of(settings),
    )
    gateway.screening.later = batch.later
    _screen(gateway, settings, servers)
    return gateway


def _screen(gateway: Gateway, settings: Settings, servers: tuple[Server, ...]) -> None:
    gateway.screening.mode = settings.credentials_in_calls
    gateway.screening.know(secret for server in servers for secret in server.secrets)


def apply_settings(gateway: Gateway, settings: Settings, configuration: ServersConfiguration) -> None:
    """Put settings and servers in force, as they are after a reload."""
    gateway.list_wait, gateway.health.interval = settings.list_wait, settings.health_interval
    gateway.extensions = carried(settings.extensions)
    if gateway.logins is not None:
        gateway.logins.network.client_metadata_url = settings.login_client_metadata_url
    gateway.use_limits(limits_of(settings))
    gateway.use_hold(hold_of(settings))
    _screen(gateway, settings, configuration.servers)
    gateway.apply(configuration.servers)


def hold_of(settings: Settings) -> HoldPolicy:
    """Return which definitions of servers are held back."""
    return HoldPolicy(settings.definition_changes == "hold", settings.poisoned_definitions == "hold")


def kept_results(context: HubContext) -> LongResults:
    """Return what keeps long results. Large ones are in files without a name in the home."""

    def limits() -> KeptLimits:
        now = context.settings
        return KeptLimits(now.result_lifetime, most_bytes=now.result_memory, most_on_disk=now.result_disk)

    return LongResults(
        context.loop, limits, folder=context.home, queries=QueryPool(context.environment, errors=2)
    )


class UsedServersFile:
    """The servers file that a hub uses: its settings, and the follower of its files."""

    def __init__(self, context: HubContext, follower: FileFollower) -> None:
        self._context, self._follower = context, follower

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._context.settings.servers

    def reload(self) -> Message | None:
        """Put the file in force as it is now. Return why it has no effect; None if it has."""
        self._follower.now()
        return self._follower.problem

    def follow(self) -> Message | None:
        """Do the same if a file has changed since it was read."""
        self._follower.follow()
        return self._follower.problem


class HubTools:
    """The tools of servers and the hub's own, as operations; and the questions that servers ask meanwhile.

    They are called through the door of the hub, which :meth:`connect` hands over.
    """

    _door: Door
    _file: UsedServersFile
    _meter: HubMeter

    def __init__(self, context: HubContext, gateway: Gateway, long_results: LongResults) -> None:
        self._context, self._gateway, self._long_results = context, gateway, long_results
        long_results.on_read = self._read_again
        self.questions = HubQuestions(context.home, lambda: context.settings.questions_to_page, gateway.adopt)
        self._calls = Lazy(self._open_calls)
        self.result_types = HubResultTypes(context, gateway)
        self.scripts = HubScripts(context, gateway, self._perform, self._signing_key, self.result_types.of)
        tasks = HubTasks(context, self._target)
        self.tasks = TaskParts(tasks, gateway, gateway.loop, lambda: context.settings)

    def connect(
        self, door: Door, follower: FileFollower, meter: HubMeter, stores: Stores, limits: HubAccess
    ) -> None:
        """Call operations through ``door``, and count calls with ``meter``.

        The hub's own operations can be found among the tools of servers; a search leaves out those that have
        nothing to work on.
        """
        table = door.table
        self._door, self._file = door, UsedServersFile(self._context, follower)
        self._meter = self.scripts.meter = meter
        meter.used, meter.returned = self.note_use, self.result_types.returned
        names = cache(lambda: frozenset(own_names(table)))
        self._gateway.catalogs.provide(
            partial(own_tools, table),
            partial(old_names, table),
            lambda: _idle(names(), stores, limits),
        )

    def open(self) -> None:
        """Load the catalog, the tasks of earlier runs, and what was learned of results."""
        self._gateway.open()
        self.result_types.open()
        self.tasks.tasks.open()

    async def close(self) -> None:
        """Stop following tasks, then stop the servers."""
        await self.scripts.close()
        await self._long_results.close()
        await self.tasks.tasks.close()
        await self.result_types.close()
        await self._gateway.close()

    async def abandon(self) -> None:
        """Stop the servers, and write nothing more."""
        self.tasks.tasks.let_go()
        await self.scripts.close()
        self.result_types.abandon()
        await self._gateway.close()

    def apply(self, settings: Settings, configuration: ServersConfiguration) -> None:
        """Put settings and servers in force, as they are after a reload."""
        apply_settings(self._gateway, settings, configuration)
        self.result_types.apply()

    def source(self) -> ToolSource:
        """Return the tools as a source of the search over everything."""
        from tabane.catalog.tool_search import ToolSource

        return ToolSource(self._gateway)

    def table(self) -> list[Operation]:
        """Return the operations on tools, servers, questions, scripts and tasks."""
        from tabane.catalog.operations.table import gateway_table
        from tabane.hub.work.task_operations import TaskOperations

        return [
            *gateway_table(
                self._calls,
                Lazy(self._open_offers),
                Lazy(self._open_apps),
                Lazy(self._open_servers),
                Lazy(self._open_definitions),
                lambda: self._long_results,
            ),
            *self.questions.table(),
            *self.scripts.table(),
            *self.result_types.table(),
            *TaskOperations(self.tasks.tasks, self.tasks.follower).table(),
        ]

    def _read_again(self, caller: Caller, origin: CallTarget) -> None:
        """Note that a caller reads something of a kept result: the flow labels of its tool count again."""
        self.scripts.note_read(caller, origin)
        if self._meter.answered is not None:
            self._meter.answered(caller, origin)

    def note_use(self, target: CallTarget, holder: str, times: int) -> None:
        """Count calls of a server's tool. The counts outlive the hub unless calls are not to be recorded."""
        if target.server and target.kind == "tool":
            self._gateway.catalogs.note_use(
                holder, target.name, times, kept=self._context.settings.audit != "off"
            )

    async def _perform(self, caller: Caller, name: str, arguments: dict[str, Any]) -> Raw:
        """Call a tool for a script, as call_tool does, or as call_readonly_tool if it was called by that."""

        if name == OPEN:
            return await self._opened(caller, arguments)
        caller, looks = structs.replace(caller, looks=False), caller.looks
        script = self.scripts.running.get(caller.script)
        asker = script.question if script is not None else None
        result = await self._calls().perform(caller, name, arguments, read_only=looks, asker=asker)
        if len(result) <= LARGEST_QUESTION and result_type(result) not in (None, "complete"):
            raise question_of(name)
        if (tool := self._gateway.catalog.find(name)) is not None:
            self.scripts.note_read(caller, tool.target)
        return result

    def _open_calls(self) -> ToolOperations:
        from tabane.catalog.operations.tool_operations import ToolOperations

        return ToolOperations(
            self._gateway, self._admit, self._own, self._long_results, self._file, self.result_types.of
        )

    def _open_offers(self) -> OfferOperations:
        from tabane.catalog.operations.offer_operations import OfferOperations

        return OfferOperations(self._gateway, self._admit, self._long_results)

    def _open_apps(self) -> AppOperations:
        from tabane.catalog.operations.offer_operations import AppOperations

        return AppOperations(self._gateway, self._admit, self._calls().perform)

    def _open_servers(self) -> ServerOperations:
        from tabane.catalog.operations.server_operations import ServerOperations

        return ServerOperations(self._gateway, self._file)

    def _open_definitions(self) -> DefinitionOperations:
        from tabane.catalog.operations.definition_operations import DefinitionOperations

        return DefinitionOperations(self._gateway)

    async def _opened(self, caller: Caller, arguments: dict[str, Any]) -> Raw:
        """Return the value of a kept result for a script. Raises TabaneError."""
        result = await self._own(caller, "read_more", json.encode({**arguments, "whole": True}))
        if len(result) > (most := self._context.settings.script_memory // MEMORY_OF_VALUE):
            raise CallerError(
                say(
                    "The result has {size} MiB, which is too much for a script: at most {most} MiB (setting "
                    "script_memory). Open a part: open_result(handle, select='…')",
                    size=len(result) >> 20,
                    most=most >> 20,
                )
            )
        return result

    def _signing_key(self) -> bytes:
        """Return the key that signs snapshots of scripts; it is made if there is none."""
        return self.questions.signer().key

    def _target(self, alias: str, server: str) -> CallTarget:
        """Return a tool as what a caller wants to call, also if its server no longer lists it."""
        tool = self._gateway.catalog.find(alias)
        return tool.target if tool is not None and tool.server == server else CallTarget(alias, server)

    async def _own(self, caller: Caller, name: str, arguments: bytes) -> Raw:
        operation = self._door.table.get(name)

        def render(value: Any) -> bytes:
            return as_result(operation, value, caller.lang)

        try:
            return Raw(await self._door.respond(caller, name, arguments, render, face=Face.MCP))
        except TabaneError as error:
            if operation is None or operation.failure is None:
                raise
            return Raw(as_failure(operation, error, caller.lang))

    def _admit(self, caller: Caller, target: CallTarget, arguments: bytes) -> OpenCall:
        return self._door.admit(caller, target, arguments)
