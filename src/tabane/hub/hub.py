"""Hub: settings, gateway, operations and sessions, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tabane.hub.clients.methods import client_methods
from tabane.hub.clients.session import ClientSessions
from tabane.hub.context import HubContext
from tabane.hub.people.access import HubAccess
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.people.guards import HubGuards
from tabane.hub.servers.configuration import (
    HOME_FILES,
    FileFollower,
    hub_environment,
    log_warnings,
    read_again,
    read_servers,
)
from tabane.hub.servers.tools import HubTools, count_servers, gateway_of, kept_results
from tabane.hub.sources.archive import PostArchive, given_archive
from tabane.hub.sources.documents import DocumentStore
from tabane.hub.sources.embedding import CollectionEmbedder, stores_of
from tabane.hub.sources.models.hub_models import HubModels
from tabane.hub.sources.reader import PageReader
from tabane.hub.telemetry.audit import HubAudit
from tabane.hub.work.jobs import Jobs
from tabane.messages import Lang
from tabane.operations import Door, Lazy, Operation, OperationTable
from tabane.settings import Settings
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch

if TYPE_CHECKING:
    from tabane.hub.people.access_operations import AccessOperations
    from tabane.hub.people.flows.operations import FlowOperations
    from tabane.hub.servers.assistant_setup import AssistantSetups
    from tabane.hub.servers.server_changes import ServerChanges

MOST_SHOWN = 8
"""MCP clients that the status names: the latest."""


class Hub:
    """Everything that runs in one hub, and the only place that knows all of it.

    :meth:`open` starts it. Clients come in through ``sessions``, programs through ``door``.
    ``environment`` is that of the hub: variables of the servers file are looked up in it.
    """

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._launch_environment = environment
        self.context = context = HubContext(settings, hub_environment(settings, environment), loop)
        self.environment, self.loop = context.environment, loop
        self.batch = LineBatch()
        self.on_reload: Callable[[], None] | None = None
        self.configuration = read_servers(settings, self.environment)
        self.processes = ChildProcesses(log_fd=2)
        self.stores = stores_of(settings, self.environment)
        self.jobs = Jobs(loop)
        self.models = HubModels(context, self.stores.kept, errors=2)
        self.embedding = CollectionEmbedder(context, self.stores, self.models, self.jobs)
        self.models.collections = self.embedding.own_models
        self.gateway = gateway_of(
            self.configuration.servers,
            context,
            self.batch,
            self.processes,
            self.models,
            on_changed=lambda kind, project: self.sessions.changed(kind, project),
            on_log=lambda server, params: self.sessions.logged(server, params),
        )
        self.long_results = kept_results(context)
        self.table = OperationTable(self._operations)
        self.access = HubAccess(context, self.gateway, self.table)
        self.audit = HubAudit(context, self.gateway, self.jobs, self.access.limits_of, self.access.people)
        self.audit.meter.later = self.batch.later
        self.gateway.screening.note = self.audit.credentials_found
        self.flows = HubFlows(context, self.gateway, partial(self.audit.live.topic_changed, "flows"))
        self.tools = HubTools(context, self.gateway, self.long_results)
        self.tools.questions.open.watcher = partial(self.audit.live.topic_changed, "questions")
        self.guards = HubGuards(context, self.gateway, self.audit.live, self.flows, self.tools.scripts)
        self.guards.apply(self.configuration)
        self.audit.meter.answered = self.guards.guard.answered
        self.door = Door(self.table, self.jobs, self.audit.meter, self.guards.guard)
        files = (settings.servers, settings.config, *(settings.home / name for name in HOME_FILES))
        self.follower = FileFollower(loop, files, self._reload)
        self.follower.projects = self.configuration.projects
        self.tools.connect(self.door, self.follower, self.audit.meter, self.stores, self.access)
        self.posts = PostArchive(context, self.stores, self.models, self.embedding, self.jobs)
        self.reader = PageReader(
            context, self.stores, self.models, self.embedding, self.flows, self.jobs, errors=2
        )
        self.documents = self.reader.documents = DocumentStore(
            context, self.stores, self.models, self.embedding, self.reader.convert, self.flows, self.door
        )
        self.sessions = ClientSessions(
            self.context, self.batch, self.gateway, self.long_results,
            client_methods(
                self.gateway, self.door, self.long_results, self.documents, self.tools.tasks,
                self.tools.scripts,
            ),
            self.tools.questions, self.guards, self.access,
        )  # fmt: skip
        self.documents.on_change = self._document_changed
        self._watching: asyncio.Task[None] | None = None

    @property
    def settings(self) -> Settings:
        """Settings in force now."""
        return self.context.settings

    @property
    def lang(self) -> Lang:
        """Language for clients that request none."""
        return self.context.lang

    def open(self) -> None:
        """Begin the audit, load the catalog, and start servers if the settings say so. Raises AuditError."""
        log_warnings(self.settings, self.configuration)
        self.audit.open(self.settings)
        self.tools.open()
        self.follower.start()
        self.embedding.open()
        self.posts.open(given_archive(self.settings), self.lang)
        self.reader.open()
        self._watching = self.loop.create_task(self.documents.open())
        if self.settings.start_servers == "at_start":
            self.gateway.start_all()

    def status(self) -> dict[str, Any]:
        """Return the counts that ``tabane status`` shows beside its own."""
        problem = self.follower.problem
        model, why = self.models.summary()
        return {
            "problem": problem.render(self.lang) if problem else None,
            **count_servers(self.configuration, self.gateway),
            "model": model,
            "model_problem": why.render(self.lang) if why else None,
            "audit_problem": self.audit.problem.render(self.lang) if self.audit.problem else None,
            "sessions": len(self.sessions),
            "clients": [session.row() for session in self.sessions.latest(MOST_SHOWN)],
            "jobs": self.jobs.running,
            "in_flight": self.sessions.in_flight,
        }

    async def drain(self, grace: float) -> None:
        """Take no new request; wait, at most ``grace`` seconds, for answers to be given and read."""
        self.sessions.draining = True
        self.jobs.drain()  # followers of a job are answered at once
        await self.sessions.idle(grace)

    async def close(self) -> None:
        """Close sessions, then upstreams, then the keeper. Bounded by the upstreams' stop times."""
        self.follower.close()
        self.guards.close()
        self.sessions.close()
        await self.jobs.close()  # before what they work with
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self.documents.close()
        await self.reader.close()
        await self.embedding.close()
        await self.models.close()
        await self.tools.close()
        await self.access.close()
        await self.stores.close()
        await self.processes.close()
        await self.guards.written()
        self.flows.close()
        await self.audit.close()

    async def abandon(self) -> None:
        """End as :meth:`close` does, but write nothing more, because the hub's files were deleted.

        Another hub may have files of the same names by now. The process has to end after this.
        """
        self.follower.close()
        self.guards.close()
        self.flows.abandon()
        self.sessions.close()
        await self.tools.abandon()
        await self.processes.close()

    # -- composition -----------------------------------------------------------------------------

    def _operations(self) -> list[Operation]:
        from tabane.access.table import access_table
        from tabane.hub.people.approvals.operations import ApprovalOperations, PassphraseOperations
        from tabane.hub.people.flows.table import flow_table
        from tabane.hub.servers.server_setup import setup_table
        from tabane.hub.sources.manual import documentation_table
        from tabane.hub.sources.search_everything import EverythingSearch, Manual
        from tabane.search.source import OnDemandSource

        access, changes = Lazy(self._open_access), Lazy(self._server_changes)
        return [
            *self.tools.table(),
            *setup_table(changes, Lazy(partial(self._assistant_setups, changes))),
            *self.stores.table(),
            *self.jobs.table(),
            *self.models.table(),
            *self.embedding.table(),
            *self.posts.table(),
            *self.documents.table(),
            *self.reader.table(),
            *EverythingSearch(
                {
                    "posts": OnDemandSource(self.posts),
                    "documents": OnDemandSource(self.documents),
                    "pages": OnDemandSource(self.reader),
                    "tools": self.tools.source(),
                    "docs": OnDemandSource(Manual(self.stores, self.models, self.embedding)),
                },
                self.flows,
            ).table(),
            *documentation_table(),
            *access_table(
                lambda: access().keys,
                lambda: access().profiles,
                lambda: access().limits,
                lambda: access().policy,
            ),
            *ApprovalOperations(self.guards).table(),
            *PassphraseOperations(self.guards).table(),
            *self.audit.table(),
            *flow_table(Lazy(self._flow_operations)),
        ]

    def _flow_operations(self) -> FlowOperations:
        from tabane.hub.people.flows.operations import FlowOperations

        return FlowOperations(self.flows, self.access)

    def _server_changes(self) -> ServerChanges:
        from tabane.hub.servers.server_changes import ServerChanges

        return ServerChanges(
            self.context,
            self.batch,
            self.processes,
            self.gateway,
            self.follower,
            self.jobs,
            self.sessions.offers,
        )

    def _assistant_setups(self, changes: Lazy[ServerChanges]) -> AssistantSetups:
        from tabane.hub.servers.assistant_setup import AssistantSetups

        return AssistantSetups(self.context, changes(), self.sessions)

    def _open_access(self) -> AccessOperations:
        from tabane.hub.people.access_operations import AccessOperations

        return AccessOperations(self.access, self.context)

    def _document_changed(self, key: str, listed: bool) -> None:
        self.sessions.document_changed(key, listed)
        self.audit.live.topic_changed("documents")

    def _reload(self) -> None:
        """Put settings and servers file in force as they are now. Raises TabaneError, changing nothing."""
        settings, configuration = read_again(self.settings, self._launch_environment, self.environment)
        self.access.reload()
        log_warnings(settings, configuration)
        self.context.settings, self.configuration = settings, configuration
        self.follower.projects = configuration.projects
        self.tools.apply(settings, configuration)
        self.guards.apply(configuration)
        if self.on_reload is not None:
            self.on_reload()
        self.audit.event("admin", "settings_reload")
