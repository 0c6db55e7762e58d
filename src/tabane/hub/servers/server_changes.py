"""Changes of the servers file, and the first starts of new servers. Imported with the first operation."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.server_operations import server_detail
from tabane.errors import BadArguments, TabaneError, UnknownName
from tabane.guard.definitions.listing_scan import suspicious_definitions
from tabane.hub.clients.server_access import ProjectOffers
from tabane.hub.context import HubContext
from tabane.hub.servers.configuration import FileFollower
from tabane.hub.servers.project_trust import ProjectTrusts
from tabane.hub.servers.server_setup import (
    AddServer,
    ChangeServer,
    CheckDefinition,
    EnableServer,
    FindServers,
    NamedServer,
    StartNewServers,
    TryServer,
)
from tabane.hub.servers.trial import Trials, wait_listed
from tabane.hub.work.jobs import Jobs
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Progress
from tabane.servers.configuration import (
    check_definition,
    configuration_of,
    why_disabled,
    written_definitions,
)
from tabane.servers.editing import add_server, change_server, check_server_name, enable_server, remove_server
from tabane.servers.foreign_keys import our_definition
from tabane.servers.masking import masked, unmasked
from tabane.servers.plain_secrets import plain_secrets
from tabane.servers.secret_store import (
    SecretMove,
    SecretMoves,
    SecretNaming,
    SecretStore,
    keeping,
    moves_of,
    referred_names,
)
from tabane.servers.variables import Variables, variables_of
from tabane.text.nearest_names import nearest
from tabane.upstreams.launching.failure_causes import cause_in
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch

LARGEST = 64 << 10
"""Bytes of a definition as JSON."""

BEAT = 0.5
"""Seconds between two looks at the downloads."""


class StartedServers(Struct):
    """Progress of the first starts. ``suspicious`` has the definitions that look like an attack, by server.

    ``failed`` says why a server has not listed, by server. ``pending`` are those that have not ended a start.
    """

    pending: list[str]
    tools: dict[str, int] = field(default_factory=dict)
    suspicious: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class ServersFileNow(Struct, frozen=True):
    """The servers file, and the values of its variables, at one moment. Blocks on files and the keyring."""

    path: Path
    variables: Variables
    store: SecretStore
    settings_texts: tuple[str, ...]
    environment: Mapping[str, str]

    def moves(
        self, name: str, definition: Mapping[str, Any], replaced: str | None, written: Mapping[str, Any]
    ) -> SecretMoves:
        """Return how new secrets leave a definition. Those that the replaced one has in plain text stay."""
        others = {other: each for other, each in written_definitions(self.path).items() if other != replaced}
        referred = referred_names(others, self.settings_texts) | referred_names({name: definition})
        naming = SecretNaming(self.store.get, self.environment, referred)
        known = [secret.value for secret in plain_secrets(name, written)]
        return moves_of({name: definition}, naming, known)

    def written(self, name: str) -> dict[str, Any]:
        """Return the definition of a server as written. Raises UnknownName, and ConfigurationError."""
        known = written_definitions(self.path)
        found = known.get(name)
        if isinstance(found, dict):
            return found
        near = nearest(name, known)
        raise UnknownName(
            say("There is no server {name!n}. Did you mean {near}?", name=name, near=", ".join(near))
            if near
            else say("There is no server {name!n}.", name=name),
            near,
        )

    def secrets(self, name: str, written: object) -> tuple[str, ...]:
        """Return the values of a definition that are hidden wherever they appear."""
        server = configuration_of(self.path, {name: written}, self.variables).get(name)
        return server.secrets if server else ()

    def whole(self, name: str, definition: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
        """Return an edited definition with its hidden values. Raises BadArguments."""
        return unmasked(definition, written, self.secrets(name, written))

    def problems(self, name: str, definition: object, lang: Lang) -> list[dict[str, Any]]:
        """Return what has to be changed: key, text, and whether it prevents saving."""
        problems, _ = check_definition(self.path, name, definition, self.variables)
        return [
            {"key": found.key, "text": found.why.render(lang), "blocks": not found.unset}
            for found in problems
        ]

    def warnings(self, name: str, definition: object, lang: Lang) -> list[str]:
        """Return what is odd and does no harm, and the variables that have no value yet."""
        problems, warnings = check_definition(self.path, name, definition, self.variables)
        unset = [found.why for found in problems if found.unset]
        return [what.render(lang) for what in (*warnings, *unset)]

    def require(self, name: str, definition: object) -> None:
        """Raise BadArguments if the definition cannot be used as it is."""
        problems, _ = check_definition(self.path, name, definition, self.variables)
        for found in problems:
            if not found.unset:
                raise BadArguments(
                    say("The definition of {name!n} cannot be used: {why}", name=name, why=found.why),
                    f"definition.{found.key}" if found.key else "definition",
                )


class ServerChanges:
    """Shows, checks, tries, adds, changes and removes servers of the servers file.

    Each change is written in a thread, under the lock of the file's folder. Then the files are read at
    once, so that the answer has the new state.
    """

    def __init__(
        self,
        context: HubContext,
        batch: LineBatch,
        processes: ChildProcesses,
        gateway: Gateway,
        follower: FileFollower,
        jobs: Jobs,
        offers: ProjectOffers,
    ) -> None:
        self._context, self._gateway, self._follower = context, gateway, follower
        self._trials = Trials(context, batch, processes, gateway.remember, gateway.review.scans)
        self._jobs = jobs
        self.projects = ProjectTrusts(context, follower, offers)

    # -- without a change --------------------------------------------------------------------------

    async def show(self, caller: Caller, params: NamedServer) -> dict[str, Any]:
        """Return the definition with secrets masked, its problems, and a version for :meth:`change`."""

        def read() -> dict[str, Any]:
            file, name = self.file_now(), params.name
            written = file.written(name)
            shown = masked(written, file.secrets(name, written))
            return {
                "name": name,
                "path": str(file.path),
                "definition": shown,
                "ours": our_definition(shown.items(), name).values,
                "version": _version(shown),
                "problems": file.problems(name, written, caller.lang),
                "warnings": file.warnings(name, written, caller.lang),
            }

        return await asyncio.to_thread(read)

    async def check(self, caller: Caller, params: CheckDefinition) -> dict[str, Any]:
        """Return the problems by key, the warnings, and whether the definition can be saved.

        ``secrets`` are the new keys and passwords in it: where each is, and the name that it would be kept
        under. ``ours`` is the definition with our keys, if it has some of other programs.
        """

        def look() -> dict[str, Any]:
            file = self.file_now()
            problems = list(_name_problems(file, params, caller.lang))
            moves: tuple[SecretMove, ...] = ()
            try:
                _check_size(params.definition)
                written = file.written(params.replaces) if params.replaces is not None else {}
                whole = file.whole(params.replaces or params.name, params.definition, written)
            except BadArguments as wrong:
                text = wrong.message.render(caller.lang)
                problems.append({"key": wrong.parameter or "", "text": text, "blocks": True})
                whole = params.definition
            else:
                problems += file.problems(params.name, whole, caller.lang)
                moves = file.moves(params.name, whole, params.replaces, written).moves
            return {
                "name": params.name,
                "path": str(file.path),
                "usable": not any(found["blocks"] for found in problems),
                "problems": problems,
                "warnings": file.warnings(params.name, whole, caller.lang),
                "ours": our_definition(params.definition.items(), params.name).values,
                "secrets": [{"key": move.secret.key, "name": move.name} for move in moves],
            }

        return await asyncio.to_thread(look)

    async def try_out(self, caller: Caller, params: TryServer) -> dict[str, Any]:
        """Try a server, with the hidden values of the one that it replaces. Raises as :meth:`Trials.run`."""
        if params.replaces is not None:
            replaces, definition = params.replaces, params.definition

            def whole() -> dict[str, Any]:
                file = self.file_now()
                return file.whole(replaces, definition, file.written(replaces))

            params = msgspec.structs.replace(params, definition=await asyncio.to_thread(whole))
        return await self._trials.run(caller, params)

    # -- changes -----------------------------------------------------------------------------------

    async def add(self, caller: Caller, params: AddServer) -> dict[str, Any]:
        """Add a server. Raises BadArguments and ConfigurationError; then nothing was changed."""

        def write(file: ServersFileNow) -> tuple[str, ...]:
            check_server_name(params.name)
            _check_size(params.definition)
            definition = file.whole(params.name, params.definition, {})
            file.require(params.name, definition)
            moves = SecretMoves({params.name: definition})
            if params.keep_secrets:
                moves = file.moves(params.name, definition, None, {})
            with keeping(file.store, moves.values):
                add_server(file.path, params.name, moves.definitions[params.name])
            return moves.names

        return await self._changed(caller, params.name, "added", write)

    async def change(self, caller: Caller, params: ChangeServer) -> dict[str, Any]:
        """Replace a definition. Raises UnknownName, and as :meth:`add`."""

        def write(file: ServersFileNow) -> tuple[str, ...]:
            _check_size(params.definition)
            written = file.written(params.name)
            secrets = file.secrets(params.name, written)
            _check_version(params, written, secrets)
            definition = unmasked(params.definition, written, secrets)
            file.require(params.name, definition)
            moves = SecretMoves({params.name: definition})
            if params.keep_secrets:
                moves = file.moves(params.name, definition, params.name, written)

            def edit(now: dict[str, Any]) -> dict[str, Any]:
                if now != written:
                    raise _entry_changed(params.name)
                return moves.definitions[params.name]

            # The secrets are kept before the file is locked: both may be in the same folder.
            shown = masked(moves.definitions[params.name], secrets)
            with keeping(file.store, moves.values):
                change_server(file.path, params.name, edit, shown)
            return moves.names

        return await self._changed(caller, params.name, "changed", write)

    async def remove(self, caller: Caller, params: NamedServer) -> dict[str, Any]:
        """Remove a server. Raises UnknownName and ConfigurationError."""

        def write(file: ServersFileNow) -> tuple[str, ...]:
            remove_server(file.path, params.name)
            return ()

        return await self._changed(caller, params.name, "removed", write)

    async def enable(self, caller: Caller, params: EnableServer) -> dict[str, Any]:
        """Enable or disable a server. Raises UnknownName and ConfigurationError."""

        def write(file: ServersFileNow) -> tuple[str, ...]:
            enable_server(file.path, params.name, params.enabled)
            return ()

        done = "enabled" if params.enabled else "disabled"
        return await self._changed(caller, params.name, done, write)

    async def _changed(
        self, caller: Caller, name: str, done: str, write: Callable[[ServersFileNow], tuple[str, ...]]
    ) -> dict[str, Any]:
        """Write in a thread, read the files, and return the new state of the server.

        ``write`` returns the names of the secrets that it has kept. ``problem`` is why the change is not in
        force: another part of the files is wrong.
        """

        def work() -> tuple[Path, tuple[str, ...], list[str]]:
            kept = write(self.file_now())
            file = self.file_now()  # with the secrets that were kept
            there = written_definitions(file.path).get(name)
            return file.path, kept, file.warnings(name, there, caller.lang) if there is not None else []

        path, kept, warnings = await asyncio.to_thread(work)
        problem = self.read_again()
        server = self._gateway.servers.get(name)
        why = why_disabled(server) if server is not None and done != "disabled" else None
        return {
            "name": name,
            "path": str(path),
            "status": done,
            "server": server_detail(self._gateway, server, caller.lang) if server else None,
            "warnings": warnings,
            "secrets": list(kept),
            "remark": why.render(caller.lang) if why else None,
            "problem": problem.render(caller.lang) if problem else None,
        }

    def file_now(self) -> ServersFileNow:
        """Return the servers file of this hub, with the values of its variables now. Blocks."""
        settings = self._context.settings
        texts = (settings.oauth_client_secret or "", settings.model_key or "")
        variables = variables_of(settings, self._context.environment)
        store = SecretStore(settings.home, keyring=settings.keyring)
        return ServersFileNow(settings.servers, variables, store, texts, self._context.environment)

    def read_again(self) -> Message | None:
        """Put the files in force as they are now. Return why they have no effect; None if they have."""
        self._follower.now()
        return self._follower.problem

    # -- new servers ------------------------------------------------------------------------------

    async def find(self, caller: Caller, params: FindServers) -> dict[str, Any]:
        """Return servers, the best first. Raises ConfigurationError and RegistryUnavailable."""
        # on first use: most hubs never ask a registry
        from tabane.servers.registry.finding import open_registry

        settings = self._context.settings
        async with open_registry(settings.registry_url, self._context.environment, settings.home) as registry:
            found = await registry.find(params.query, params.limit, params.cursor)
            return found.row(registry.host, caller.lang)

    async def start_new(self, caller: Caller, params: StartNewServers) -> dict[str, Any]:
        """Return the state of the job, and what is known by now as ``found``. Raises HubError."""
        self._follower.now()
        found = StartedServers(list(dict.fromkeys(params.names)))
        count = len(found.pending)
        job = self._jobs.start(
            "start_new_servers",
            say("Testing {count} new {count:server|servers}", count=count),
            lambda job: self.start_all(caller, found, job),
        )
        end = asyncio.get_running_loop().time() + params.wait
        while job.status == "running" and (left := end - asyncio.get_running_loop().time()) > 0:
            await job.changed(job.version, left)
        return job.state(caller.lang) | {"found": _plain(found)}

    async def start_all(self, caller: Caller, found: StartedServers, job: Progress) -> dict[str, Any]:
        """Start the ``pending`` servers at the same time, and return what is known at the end."""
        waiting = {asyncio.ensure_future(self._one(caller, name, found)) for name in found.pending}
        total = len(waiting)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=BEAT, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                job.tell(total - len(waiting), total, self._note(found))
        finally:
            for task in waiting:
                task.cancel()
        return _plain(found)

    async def _one(self, caller: Caller, name: str, found: StartedServers) -> None:
        """Wait until a server has listed, and scan that."""
        settings = self._context.settings
        try:
            async with asyncio.timeout(settings.download_timeout + 2 * settings.start_timeout):
                instance = self._gateway.instance_for(caller, name)
                await wait_listed(instance)
            listing = self._gateway.catalogs.listing(name)
            if listing is None or "tools" not in listing.lists or instance.vitals.error is not None:
                why = instance.vitals.error or say("it has not been started")
                found.failed[name] = _short(why, caller.lang)
            else:
                found.tools[name] = len(listing.lists["tools"])
                rows = await suspicious_definitions(
                    name, listing.lists, self._gateway.review.scans, caller.lang
                )
                if rows:
                    found.suspicious[name] = rows
        except TimeoutError:
            found.failed[name] = say("{server!n} did not start in time.", server=name).render(caller.lang)
        except TabaneError as error:
            found.failed[name] = _short(error.message, caller.lang)
        finally:
            found.pending.remove(name)

    def _note(self, found: StartedServers) -> Message | None:
        """Return what is waited for: a download, or the names of servers."""
        for name in found.pending:
            for instance in self._gateway.instances(name):
                if instance.download is not None:
                    return instance.download.describe()
        return say("waiting for {names}", names=", ".join(found.pending[:5])) if found.pending else None


def _check_version(params: ChangeServer, written: Mapping[str, Any], secrets: tuple[str, ...]) -> None:
    if params.version not in (None, _version(masked(written, secrets))):
        raise _entry_changed(params.name)


def _entry_changed(name: str) -> BadArguments:
    return BadArguments(
        say("The entry of {name!n} has changed since you opened it. Open it again.", name=name), "version"
    )


def _version(shown: Mapping[str, Any]) -> str:
    """Return a short hash of a definition without its secrets."""
    return hashlib.sha256(repr(shown).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _name_problems(file: ServersFileNow, params: CheckDefinition, lang: Lang) -> Iterator[dict[str, Any]]:

    if params.replaces is not None:
        return
    try:
        check_server_name(params.name)
        if params.name in written_definitions(file.path):
            raise BadArguments(
                say(
                    "The server {name!n} already exists. Choose another name, or remove it first.",
                    name=params.name,
                )
            )
    except BadArguments as wrong:
        yield {"key": "name", "text": wrong.message.render(lang), "blocks": True}


def _check_size(definition: Mapping[str, Any]) -> None:
    if len(msgspec.json.encode(definition)) > LARGEST:
        raise BadArguments(
            say("The definition is larger than {limit} KiB.", limit=LARGEST >> 10), "definition"
        )


def _short(why: Message, lang: Lang) -> str:
    """Return why a start failed, without the end of its output."""
    failed = cause_in(why)
    return (failed.without_log() if failed is not None else why).render(lang)


def _plain(found: StartedServers) -> dict[str, Any]:
    return {
        "pending": list(found.pending),
        "tools": dict(found.tools),
        "suspicious": dict(found.suspicious),
        "failed": dict(found.failed),
    }
