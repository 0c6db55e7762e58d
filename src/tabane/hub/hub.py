"""The hub: settings, gateway, operations and sessions put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.build import this_build
from tabane.errors import ConfigurationError, TabaneError
from tabane.gateway.gateway import Gateway
from tabane.gateway.long_results import LongResults
from tabane.gateway.operations import ServerOperations, ToolOperations
from tabane.gateway.parallel import Parallel
from tabane.gateway.processes.processes import Processes
from tabane.gateway.servers.configuration import Configuration, read_configuration
from tabane.gateway.servers.secrets import keyring_lookup, load_variables
from tabane.gateway.tools.disclosure import signature
from tabane.gateway.tools.index import Query
from tabane.gateway.tools.judging import Judging
from tabane.gateway.tools.validation import Validator
from tabane.gateway.upstreams.connector import Connector
from tabane.hub.archive import ImportPosts, Posts
from tabane.hub.clients.disclosure import DISCLOSING, Disclosure, old_names, own_tools
from tabane.hub.clients.library import Library
from tabane.hub.clients.news import News
from tabane.hub.clients.outlet import LineOutlet, Outlet
from tabane.hub.clients.session import Session
from tabane.hub.clients.tool_results import as_failure, as_result
from tabane.hub.collections import EMBEDDED, SHAPES
from tabane.hub.documentation import documentation_table
from tabane.hub.documents import DocumentStore, Terms
from tabane.hub.embedding import CollectionEmbedder
from tabane.hub.finding import Answer, Finding, Hit, Manual
from tabane.hub.jobs import Jobs
from tabane.hub.limits import limits_of
from tabane.hub.local.hello import Hello
from tabane.hub.models import HubModels
from tabane.hub.reader import PageReader
from tabane.hub.reference import Reference
from tabane.hub.reload import Follower
from tabane.hub.search_path import with_recorded_path
from tabane.hub.stores import Stores
from tabane.hub.trial import Trials
from tabane.messages import language
from tabane.operations import AllowLocal, Caller, Door, Face, Operation, Privilege, Table
from tabane.posts.clock import zone_of
from tabane.search.embedding.cached import VectorCache
from tabane.settings import Mode, Settings, load_settings
from tabane.wire.channel import Batch
from tabane.wire.era import Era

if TYPE_CHECKING:
    from tabane.gateway.tools.tool import Tool
    from tabane.reader.page import Page

log = logging.getLogger(__name__)


FIXED = (
    *("home", "config", "servers", "keyring", "start_servers", "log_size", "log_files", "stuck_after"),
    *("http", "host", "port", "http_token", "embedding_cache"),
    *("posts_embeddings", "posts_reasoning", "posts_summary"),
)
"""Settings that a running hub keeps: a change of them waits for the next start."""

MOST_TOOLS = 50
"""Tools that one search finds."""

MODES: tuple[Mode, ...] = ("search", "light", "full")

RESERVED = frozenset(
    {
        *DISCLOSING, "search_everything", "read_url_content", "remember_url", "hello",
        "search_similar", "search_posts_by_text", "get_user_stats", "get_database_stats", "suggest_users",
        "get_status", "embed_text", "put_document", "put_documents", "put_file", "search_documents",
        "get_document", "list_documents", "delete_document", "get_documents_by_prefix", "get_document_stats",
        "get_post", "get_documentation",
    }
)  # fmt: skip
"""Names that no upstream's tool is given: the hub's own tools have them, now or in a later version."""


class Hub:
    """Everything that runs in one hub, and the only place that knows all of it.

    Made first, then :meth:`open`; clients come in through :meth:`attach`, programs through ``door``.
    ``environment`` is the hub's own, where variables of the servers file are looked up.
    """

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.settings, self.loop = settings, loop
        self.environment = with_recorded_path(environment, settings.home)
        self.batch = Batch()
        self.draining = False
        # Marks the ids of this hub's questions: a bridge may outlive it and meet the next.
        self.mark = f"tabane-{os.urandom(4).hex()}"
        self.on_reload: Callable[[], None] = lambda: None
        self.info = {"name": "tabane", "title": "Tabane", "version": this_build().name}
        self.configuration = self._configuration(settings)
        self.processes = Processes(log_fd=2)
        self.gateway = self._gateway()
        self.long_results = LongResults(loop)
        self.stores = Stores(settings.home, SHAPES)
        self.jobs = Jobs(loop)
        self.models = HubModels(lambda: self.settings, self.environment, self._kept, errors=2)
        self.embedding = CollectionEmbedder(
            settings.home, self.stores, self.models, self.jobs, EMBEDDED, self._model_is_named
        )
        self.posts = Posts(
            settings.home,
            self.stores,
            self.models,
            self.embedding,
            self.jobs,
            lambda: zone_of(self.settings.posts_zone),
        )
        self.documents = DocumentStore(
            settings.home,
            self.stores,
            self.models,
            self.embedding,
            self._document_terms(),
            lambda data, name: self.reader.convert(data, name),
            self._document_changed,
        )
        self.reader = PageReader(
            lambda: self.settings,
            self.environment,
            self.stores,
            self.models,
            self.embedding,
            self._remember,
            self._key,
            errors=2,
        )
        self.table = Table(self._operations())
        self.door = Door(self.table, AllowLocal(), self.jobs)
        self.gateway.provide(own_tools(self.table), old_names(self.table))
        self.follower = Follower(loop, self._files, self._reload)
        self._disclosure = Disclosure(self.table, self.gateway)
        self._sessions: dict[str, Session] = {}
        self._count = 0
        self._idle: asyncio.Future[None] = loop.create_future()
        self._news = News(loop, self._tell)
        self._watching: asyncio.Task[None] | None = None

    @property
    def sessions(self) -> int:
        """MCP clients attached now."""
        return len(self._sessions)

    def open(self) -> None:
        """Take the catalogue from disk, and start servers where the settings say at once."""
        for warning in (*self.settings.warnings, *self.configuration.warnings):
            log.warning("%s", warning)
        self.gateway.open()
        self.follower.start()
        self.embedding.open()
        self.posts.open(self._archive_given(), language(self.settings.lang, self.environment.get("LANG")))
        self.reader.open()
        self._watching = self.loop.create_task(self._watch())
        if self.settings.start_servers == "at_start":
            self.gateway.start_all()

    def attach(self, read_fd: int, write_fd: int, hello: Hello) -> Session:
        """An MCP client on a pair of non-blocking descriptors, which are the session's from here on."""
        caller = Caller(
            identity="local",
            face=Face.MCP,
            session=str(self._count + 1),
            lang=language(self.settings.lang, hello.lang, self.environment.get("LANG")),
            client=hello.client,
            cwd=hello.cwd,
            roots=tuple(hello.roots),
        )
        mode: Mode = hello.mode if hello.mode in MODES else self.settings.mode
        outlet = LineOutlet(self.loop, lingers=hello.role == "stdio")
        session = self.session(caller, mode, outlet)
        limits = self.settings
        outlet.open(
            session, self.batch, read_fd, write_fd, max_line=limits.max_line, max_outbox=limits.outbox
        )
        return session

    def session(
        self, caller: Caller, mode: Mode, outlet: Outlet, era: Era | None = None, *, shared: bool = False
    ) -> Session:
        """A session of that caller. ``shared``: one of several that the caller has at the same time."""
        self._count += 1
        key = f"{caller.session}.{self._count}" if shared else caller.session
        session = Session(self, caller, mode, outlet, era, key=key, shared=shared)
        self._sessions[key] = session
        return session

    def left(self, session: Session) -> None:
        """A session is over: what ran for it alone is ended."""
        self._sessions.pop(session.key, None)
        self.gateway.leave(session.key)
        if not session.shared:
            self.long_results.leave(session.key)

    # -- what a client is shown ------------------------------------------------------------------

    def instructions(self, mode: Mode) -> str:
        return self._disclosure.instructions(mode)

    def tool_list(self, mode: Mode) -> bytes:
        """The definitions of a whole list of tools, joined by commas."""
        return self._disclosure.tool_list(mode)

    def tool_count(self, mode: Mode) -> int:
        """How many tools that list has, at most."""
        return self._disclosure.tool_count(mode)

    def tool_items(self, mode: Mode) -> list[tuple[str, bytes]]:
        """The list as its tools: name and definition of each."""
        return self._disclosure.tool_items(mode)

    def list_is_ready(self, mode: Mode) -> bool:
        """Whether the list of that mode can be given without waiting for a server."""
        return self._disclosure.list_is_ready(mode)

    async def definition(self, caller: Caller, name: str) -> bytes:
        """One tool, whole: built in, or of an upstream. Raises UnknownName."""
        built_in = self._disclosure.built_in(name)
        return built_in or (await self.gateway.find(caller, name)).definition

    def in_parts(self, caller: Caller, tool: Tool, result: Raw) -> Raw:
        """A tool's result, or its first part where its text passes the budget of its server."""
        return self.long_results.first_part(caller, result, self._tokens(tool))

    async def large_in_parts(self, caller: Caller, tool: Tool, result: Raw) -> Raw:
        """Do the same with the work in a thread."""
        return await self.long_results.first_part_of_large(caller, result, self._tokens(tool))

    def _tokens(self, tool: Tool) -> int:
        server = self.gateway.servers.get(tool.server)
        return (server.max_result_tokens if server else None) or self.settings.result_tokens

    def as_tool_result(self, caller: Caller, name: str, value: Any) -> bytes:
        """What an operation answered, as the result of a tool of MCP."""
        return as_result(self.table.get(name), value, caller.lang)

    def as_tool_failure(self, caller: Caller, name: str, error: TabaneError) -> bytes:
        """What a built-in tool failed with, as its result."""
        return as_failure(self.table.get(name), error, caller.lang)

    # -- the end ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The counts that ``tabane status`` shows beside its own."""
        servers = self.configuration.servers
        lang = language(self.settings.lang, self.environment.get("LANG"))
        problem = self.follower.problem
        model, why = self.models.summary()
        return {
            "problem": problem.render(lang) if problem else None,
            "servers": len(servers),
            "servers_disabled": sum(1 for server in servers if server.disabled),
            "servers_running": sum(
                1 for server in servers if any(i.connection for i in self.gateway.instances(server.name))
            ),
            "tools": self.gateway.catalogue.count,
            "model": model,
            "model_problem": why.render(lang) if why else None,
            "sessions": self.sessions,
            "jobs": self.jobs.running,
            "in_flight": sum(session.in_flight for session in self._sessions.values()),
        }

    async def drain(self, grace: float) -> None:
        """Take no new request; wait, at most ``grace`` seconds, for answers to be given and read."""
        self.draining = True
        self.jobs.drain()  # who follows one is answered at once
        self._check_idle()
        await asyncio.wait([self._idle], timeout=grace)

    async def close(self) -> None:
        """Close sessions, then upstreams, then the keeper. Bounded by the upstreams' stop times."""
        self._dismiss()
        await self.jobs.close()  # before what they work with
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self.documents.close()
        await self.reader.close()
        await self.embedding.close()
        await self.models.close()
        await self.gateway.close()
        await self.stores.close()
        await self.processes.close()

    async def leave(self) -> None:
        """End as :meth:`close` does, for a hub whose files were deleted: nothing more is written to them.

        Another hub may have files of the same names by now. The process has to end after this.
        """
        self._dismiss()
        await self.gateway.close()
        await self.processes.close()

    def _dismiss(self) -> None:
        self.draining = True
        self.follower.close()
        for session in list(self._sessions.values()):
            session.close("the hub ended")

    def _runs(self, server: str) -> bool:
        return any(instance.connection for instance in self.gateway.instances(server))

    def _check_idle(self) -> None:
        if not any(session.in_flight or session.unsent for session in self._sessions.values()):
            if not self._idle.done():
                self._idle.set_result(None)
        elif not self._idle.done():
            self.loop.call_later(0.02, self._check_idle)

    def _files(self) -> list[Path]:
        settings = self.settings
        return [settings.servers, settings.config, settings.home / "secrets.env"]

    def _reload(self) -> None:
        """Put settings and servers file in force as they are now. Raises TabaneError, changing nothing."""
        flags = {
            name: getattr(self.settings, name)
            for name, source in self.settings.sources.items()
            if source.kind == "flag"
        }
        settings = load_settings(flags, self.environment)
        for name in FIXED:
            if getattr(settings, name) != getattr(self.settings, name):
                log.warning("%s takes effect with the next start: tabane restart", name)
        settings = replace(settings, **{name: getattr(self.settings, name) for name in FIXED})
        configuration = self._configuration(settings)
        for warning in (*settings.warnings, *configuration.warnings):
            log.warning("%s", warning)
        self.settings, self.configuration = settings, configuration
        self.gateway.list_wait, self.gateway.health_interval = settings.list_wait, settings.health_interval
        self.gateway.use_limits(limits_of(settings))
        self.gateway.apply(configuration.servers)
        self.on_reload()
        log.info("settings and servers were read again")

    def _configuration(self, settings: Settings) -> Configuration:
        lookup = keyring_lookup() if settings.keyring else None
        variables = load_variables(settings.home, self.environment, lookup)
        # A file that was named has to be there; the default one may not be, yet.
        named = settings.sources.get("servers")
        return read_configuration(
            settings.servers, variables, required=bool(named and named.kind != "default")
        )

    def _gateway(self) -> Gateway:
        settings = self.settings
        logs = settings.home / "logs" / "servers"
        connector = Connector(
            self.loop,
            self.batch,
            self.processes,
            logs,
            self.environment,
            settings.max_line,
        )
        return Gateway(
            self.configuration.servers,
            settings.home,
            logs,
            self.loop,
            connector,
            limits_of(settings),
            reserved=RESERVED,
            validator=Validator(Judging(self.environment, errors=2)),
            list_wait=settings.list_wait,
            health_interval=settings.health_interval,
            on_changed=self._changed,
            on_log=self._logged,
            obstacle=connector.obstacle,
        )

    def _operations(self) -> list[Operation]:
        trials = Trials(
            lambda: self.settings,
            self.environment,
            self.loop,
            self.batch,
            self.processes,
            self.gateway.remember,
        )
        tools = ToolOperations(self.gateway, self._permit, self._own)
        return [
            *tools.table(),
            *Parallel(tools.perform).table(),
            *ServerOperations(self.gateway).table(),
            *self.long_results.table(),
            *trials.table(),
            *self.stores.table(),
            *self.jobs.table(),
            *self.models.table(),
            *self.embedding.table(),
            *self.posts.table(),
            *self.documents.table(),
            *self.reader.table(),
            *Finding(
                {
                    "posts": self.posts.find,
                    "documents": self.documents.find,
                    "pages": self.reader.find,
                    "tools": self._find_tools,
                    "docs": Manual(self.stores, self.models, self.embedding),
                }
            ).table(),
            *documentation_table(),
        ]

    @property
    def library(self) -> Library:
        """The documents, as clients of MCP see them."""
        return self.documents

    def _document_terms(self) -> Terms:
        return Terms(
            roots=lambda: [Path(root).expanduser() for root in self.settings.documents_roots],
            largest=lambda: self.settings.documents_size,
            named=self._model_is_named,
            zone=lambda: zone_of(self.settings.posts_zone),
        )

    def _model_is_named(self) -> bool:
        return self.settings.model not in ("auto", "none")

    def _key(self, name: str) -> str | None:
        """A secret by its name. One that cannot be read is as good as none: pages can be read without."""
        lookup = keyring_lookup() if self.settings.keyring else None
        with contextlib.suppress(ConfigurationError):
            return load_variables(self.settings.home, self.environment, lookup).get(name)
        return None

    async def _remember(self, caller: Caller, page: Page) -> str:
        """Put a page that was read into documents, under its URL: never under one that it names itself."""
        self.door.check(caller, Privilege.WRITE, "put_document")
        return await self.documents.keep(page.url, page.markdown, page.title)

    async def _watch(self) -> None:
        """Watch the folders again that were watched before. A failure does not affect the rest of the hub."""
        try:
            await self.documents.open()
        except (TabaneError, OSError) as error:
            log.warning("folders are not watched: %s", error)

    def _document_changed(self, key: str, listed: bool) -> None:
        for session in list(self._sessions.values()):
            session.updated(key)
        if listed:
            self._changed("resources")

    def _archive_given(self) -> ImportPosts | None:
        """The folders of posts that the settings name."""
        settings = self.settings
        folders = (settings.posts_embeddings, settings.posts_reasoning, settings.posts_summary)
        paths = [str(folder) if folder else None for folder in folders]
        embeddings, reasoning, summary = paths
        if not any(paths):
            return None
        return ImportPosts(embeddings=embeddings, reasoning=reasoning, summary=summary, once=True)

    async def _kept(self) -> VectorCache:
        return await self.stores.kept(self.settings.embedding_cache)

    async def _find_tools(self, caller: Caller, query: str, limit: int) -> Answer:
        unlisted = await self.gateway.wait_listed(caller)
        hits = await self.gateway.search(Query(query, min(limit, MOST_TOOLS)))
        found = ((self.gateway.catalogue.get(hit.alias), hit.score) for hit in hits.hits)
        return Answer(
            [
                Hit(
                    "tools",
                    tool.alias,
                    signature(tool),
                    "",
                    Reference("describe_tools", {"names": [tool.alias]}),
                    score,
                )
                for tool, score in found
                if tool is not None
            ],
            next(iter(unlisted.failed.values()), None),
        )

    async def _own(self, caller: Caller, name: str, arguments: bytes) -> Raw:
        try:
            value = await self.door.invoke(replace(caller, face=Face.MCP), name, arguments)
        except TabaneError as error:
            operation = self.table.get(name)
            if operation is None or operation.failure is None:
                raise
            return Raw(as_failure(operation, error, caller.lang))
        return Raw(self.as_tool_result(caller, name, value))

    def _permit(self, caller: Caller, tool: str) -> None:
        self.door.check(caller, Privilege.CALL, tool)

    def _logged(self, server: str, params: Raw) -> None:
        for session in list(self._sessions.values()):
            session.logged(params)

    def _changed(self, kind: str = "tools") -> None:
        if self._sessions:
            self._news.changed(kind)

    def _tell(self, kind: str) -> None:
        for session in list(self._sessions.values()):
            session.changed(kind)
