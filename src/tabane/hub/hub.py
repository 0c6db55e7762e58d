"""Hub: settings, gateway, operations and sessions, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
    secret_of,
)
from tabane.hub.servers.tools import HubTools, count_servers, gateway_of, kept_results
from tabane.hub.sources.archive import PostArchive, given_archive
from tabane.hub.sources.documents import DocumentStore
from tabane.hub.sources.embedding import CollectionEmbedder, embedded, stores_of
from tabane.hub.sources.models import HubModels
from tabane.hub.sources.reader import PageReader
from tabane.hub.telemetry.audit import HubAudit
from tabane.hub.work.jobs import Jobs
from tabane.messages import Lang
from tabane.operations import Door, Operation, OperationTable, of_source
from tabane.settings import Settings
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch


class Hub:
    """Everything that runs in one hub, and the only place that knows all of it.

    :meth:`open` starts it. Clients come in through ``sessions``, programs through ``door``.
    ``environment`` is that of the hub: variables of the servers file are looked up in it.
    """

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._given = environment
        self.context = HubContext(settings, hub_environment(settings, environment), loop)
        self.environment, self.loop = self.context.environment, loop
        self.batch = LineBatch()
        self.on_reload: Callable[[], None] = lambda: None
        self.configuration = read_servers(settings, self.environment)
        self.processes = ChildProcesses(log_fd=2)
        self.gateway = gateway_of(
            self.configuration.servers,
            settings,
            self.environment,
            loop,
            self.batch,
            self.processes,
            embedding=lambda: self.models,
            on_changed=lambda kind, project: self.sessions.changed(kind, project),
            on_log=lambda server, params: self.sessions.logged(server, params),
        )
        self.long_results = kept_results(loop, settings.home, self.environment, lambda: self.settings)
        self.tools = HubTools(self.gateway, lambda: self.door, lambda: self.settings, lambda: self.follower)
        self.stores = stores_of(settings, self.environment)
        self.jobs = Jobs(loop)
        self.models = HubModels(
            lambda: self.settings, self.environment,
            lambda: self.stores.kept(self.settings.embedding_cache), errors=2,
        )  # fmt: skip
        self.embedding = CollectionEmbedder(
            settings.home, self.stores, self.models, self.jobs, embedded, self._model_is_named
        )
        self.models.collections = self.embedding.own_models
        self.posts = PostArchive(
            settings.home, self.stores, self.models, self.embedding, self.jobs,
            lambda: self.settings.posts_zone,
        )  # fmt: skip
        self.flows = HubFlows(lambda: self.settings, self.gateway, lambda: self.audit.live.flows_changed())
        self.documents = DocumentStore(
            settings.home, self.stores, self.models, self.embedding, lambda: self.settings,
            self._model_is_named,
            lambda data, name: self.reader.convert(data, name),
            lambda key, listed: self.audit.live.document_changed(self.sessions, key, listed),
            self.flows,
        )  # fmt: skip
        self.reader = PageReader(
            lambda: self.settings, self.environment, self.stores, self.models, self.embedding,
            lambda caller, page: self.documents.remember(self.door, caller, page),
            lambda name: secret_of(self.settings, self.environment, name),
            self.flows,
            errors=2,
        )  # fmt: skip
        self.access = HubAccess(lambda: self.settings, loop, self.gateway, lambda: self.table)
        self.audit = HubAudit(loop, self.access, settings, self.environment, self.gateway, self.jobs)
        self.audit.meter.later = self.batch.later
        self.gateway.screening.note = self.audit.credentials_found
        self.tools.read_more_of(self.long_results)
        self.tools.report_to(self.audit.meter, self.audit.live.questions_changed)
        self.guards = HubGuards(
            self.gateway, lambda: self.settings, loop, self.audit.live, self.flows, self.tools.scripts
        )
        self.guards.apply(self.configuration)
        self.audit.meter.answered = self.guards.guard.answered
        self.table = OperationTable(self._operations)
        self.door = Door(self.table, self.jobs, self.audit.meter, self.guards.guard)
        self.tools.provide(self.table, self.stores, self.access)
        self.follower = FileFollower(loop, self._files, self._reload, lambda: self.configuration.projects)
        self.sessions = ClientSessions(
            self.context, self.batch, self.gateway, self.long_results,
            client_methods(
                self.gateway, self.door, self.long_results, self.documents, self.tools.tasks,
                self.tools.scripts,
            ),
            self.tools.questions, self.guards, self.access,
        )  # fmt: skip
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
        from tabane.hub.servers.server_setup import ServerSetup
        from tabane.hub.sources.manual import ManualSource, documentation_table
        from tabane.hub.sources.search_everything import EverythingSearch

        return [
            *self.tools.table(self.long_results),
            *ServerSetup(
                lambda: self.settings,
                self.environment,
                (self.loop, self.batch, self.processes),
                self.gateway,
                lambda: self.follower,
                self.jobs,
            ).table(),
            *self.stores.table(),
            *self.jobs.table(),
            *self.models.table(),
            *self.embedding.table(),
            *of_source("posts", self.posts.table()),
            *of_source("documents", self.documents.table()),
            *of_source("pages", self.reader.table()),
            *EverythingSearch(
                {
                    "posts": self.posts.source,
                    "documents": self.documents.source,
                    "pages": self.reader.source,
                    "tools": self.tools.source(),
                    "docs": ManualSource(self.stores, self.models, self.embedding),
                },
                self.flows,
            ).table(),
            *of_source("docs", documentation_table()),
            *self.access.table(),
            *self.guards.table(),
            *self.audit.table(),
            *self.flows.table(self.access.find_target, self.access.known),
        ]

    def _model_is_named(self) -> bool:
        return self.settings.model not in ("auto", "none")

    def _files(self) -> list[Path]:
        settings = self.settings
        return [settings.servers, settings.config, *(settings.home / name for name in HOME_FILES)]

    def _reload(self) -> None:
        """Put settings and servers file in force as they are now. Raises TabaneError, changing nothing."""
        settings, configuration = read_again(self.settings, self._given, self.environment)
        self.access.reload()
        log_warnings(settings, configuration)
        self.context.settings, self.configuration = settings, configuration
        self.tools.apply(settings, configuration)
        self.guards.apply(configuration)
        self.on_reload()
        self.audit.event("admin", "settings_reload")
