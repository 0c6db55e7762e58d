"""Assistants of the hub's machine: found, connected to Tabane with their servers, and brought back.

A setup plans again what its preview showed, and changes nothing if the files are others by then. It adds the
servers to the servers file, changes the assistants' files, starts the servers, and makes a call through each
new entry. All of it is what `tabane setup` does in a terminal.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from tabane.errors import BadArguments, ConfigurationError, TabaneError, UnknownName
from tabane.hub.clients.server_access import folders_of
from tabane.hub.clients.session import ClientSessions, Session
from tabane.hub.context import HubContext
from tabane.hub.servers.server_changes import ServerChanges, ServersFileNow, StartedServers
from tabane.hub.servers.server_setup import (
    ChosenAssistants,
    DisconnectAssistant,
    PreviewSetup,
    SetUpAssistants,
)
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Face, NoParameters, Progress
from tabane.servers.assistants.consolidation import (
    AppliedPlan,
    AssistantPlan,
    MovedEntry,
    SetupOptions,
    SetupPlan,
    apply,
    blocked_servers,
    edited,
    plan_setup,
)
from tabane.servers.assistants.entry_check import EntryCheck, check_entry
from tabane.servers.assistants.first_requests import request_after
from tabane.servers.assistants.formats import format_of
from tabane.servers.assistants.importing import ImportedServer, input_variable, is_off, with_inputs
from tabane.servers.assistants.installation import TabaneCommand, launcher, snippet
from tabane.servers.assistants.restoration import (
    Backups,
    LineChange,
    Restoration,
    line_changes,
    read_text,
    state_of,
    undo,
    value_at,
)
from tabane.servers.assistants.table import CLIENTS, Client, UserMachine, client_named
from tabane.servers.configuration import written_definitions
from tabane.servers.editing import add_servers, check_addable
from tabane.servers.foreign_keys import our_definition
from tabane.servers.masking import MASK, masked, masked_value
from tabane.servers.plain_secrets import plain_secrets
from tabane.servers.redaction import Redactor, is_secret_name
from tabane.servers.secret_store import (
    SecretMoves,
    SecretNaming,
    keeping,
    moves_of,
    referred_names,
    with_values,
)
from tabane.servers.variables import escaped
from tabane.settings.files import home_folder

MOST_LINES = 400
"""Lines of a file that a preview shows."""

LONGEST_LINE = 500
"""Characters of a line that is shown as it is written. A file with longer ones is shown by its entries."""

NEAR = 3
"""Equal lines between two changes that are shown."""

MOST_SESSIONS = 100

_NO_ANSWERS: Mapping[str, str] = {}


class _Planned(Struct, frozen=True):
    """A plan for the servers file as it is now, and the servers that are added to it for that.

    Entries of servers that could not start stay in ``plan``. ``missing`` are names of variables that have no
    value yet, by server; ``given`` are values that the person has entered for others.
    """

    file: ServersFileNow
    plan: SetupPlan
    taken: tuple[ImportedServer, ...]
    moves: SecretMoves
    missing: Mapping[str, tuple[str, ...]]
    given: Mapping[str, str]

    @property
    def version(self) -> str:
        """A hash of everything that the setup would change."""
        parts: list[object] = [sorted(self.moves.definitions.items())]
        for part in self.plan.assistants:
            text = (read_text(part.file.path) or "") if part.file else ""
            moves = [(move.path, move.server) for move in part.moves]
            parts.append((part.client.name, state_of(text), moves, part.entries, part.status))
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class AssistantSetups:
    """Lists assistants, previews and does their setup, and undoes it. Files are read in threads."""

    def __init__(self, context: HubContext, changes: ServerChanges, sessions: ClientSessions) -> None:
        self._context, self._changes, self._sessions = context, changes, sessions
        self._turn = asyncio.Lock()

    # -- without a change --------------------------------------------------------------------------

    async def assistants(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return the assistants that are found, the others, and the sessions of now."""
        listed = await asyncio.to_thread(self._listed, caller.lang)
        sessions = self._sessions.latest(MOST_SESSIONS)
        return listed | {"sessions": await asyncio.to_thread(_session_rows, sessions)}

    async def preview(self, caller: Caller, params: PreviewSetup) -> dict[str, Any]:
        """Return what a setup would do: servers to import, lines to change, what stays, and a version.

        Raises UnknownName and ConfigurationError.
        """

        def look() -> dict[str, Any]:
            planned = self._planned(params.assistants, params.mode, params.secrets)
            # what cannot be added to the servers file is said before anybody agrees
            check_addable(planned.file.path, planned.moves.definitions)
            parts = planned.plan.assistants
            return {
                "version": planned.version,
                "path": str(planned.file.path),
                "files": [_file_row(part) for part in parts if part.changes],
                "assistants": [_assistant_row(part, caller.lang) for part in parts],
                "imports": [_import_row(server, planned) for server in planned.taken],
                "secrets": list(planned.moves.names),
            }

        return await asyncio.to_thread(look)

    # -- changes -----------------------------------------------------------------------------------

    async def set_up(self, caller: Caller, params: SetUpAssistants, job: Progress) -> dict[str, Any]:
        """Import and start the servers, then change the files. Return what was done to each assistant.

        Raises BadArguments if the files are others than in the preview, UnknownName, ConfigurationError.
        """
        async with self._turn:
            job.tell(0, None, say("Moving servers into Tabane"))
            done, added = await asyncio.to_thread(self._change, params)
            problem = self._changes.read_again()
            if problem is not None:
                raise ConfigurationError(problem)
            found = StartedServers(list(added))
            if added:
                job.tell(0, len(added), say("Starting the servers"))
                await self._changes.start_all(caller, found, job)
            job.tell(len(added), len(added) or None, say("Making a call through each entry"))
            checks = await asyncio.gather(*(asyncio.to_thread(self._check, each) for each in done))
            request = await asyncio.to_thread(self._request, done, found)
        return {
            "assistants": [
                _done_row(each, check, caller.lang) for each, check in zip(done, checks, strict=True)
            ],
            "servers": [
                {
                    "name": name,
                    "tools": found.tools.get(name),
                    "failed": found.failed.get(name),
                    "suspicious": len(found.suspicious.get(name, ())),
                }
                for name in added
            ],
            "request": request.render(caller.lang) if request is not None else None,
        }

    async def disconnect(self, caller: Caller, params: DisconnectAssistant) -> dict[str, Any]:
        """End the connection of an assistant. Raises UnknownName if it is over already."""
        session = self._sessions.find(params.session)
        if session is None or session.caller.face is not Face.MCP:
            raise UnknownName(say("This connection has ended already."))
        row = session.row()
        session.dismiss("a person has disconnected this client on the page of Tabane")
        return row

    async def undo(self, caller: Caller, params: ChosenAssistants) -> dict[str, Any]:
        """Take the changes of a setup out of the files again. Raises UnknownName and ConfigurationError."""

        def restore() -> list[dict[str, Any]]:
            backups = Backups(self._context.home)
            kept = backups.all([_client(name).name for name in params.assistants])
            done = [undo(backups, each) for each in kept if client_named(each.client) is not None]
            return [_undo_row(each, caller.lang) for each in (*done, *backups.unreadable(params.assistants))]

        async with self._turn:
            return {"results": await asyncio.to_thread(restore)}

    # -- inside ------------------------------------------------------------------------------------

    def _listed(self, lang: Lang) -> dict[str, Any]:
        plan = self._planned(()).plan
        backups = Backups(self._context.home)
        found = {part.client.name for part in plan.assistants}
        command = self._command()
        rows = []
        for part in plan.assistants:
            row = _assistant_row(part, lang, plan.servers.definitions)
            if part.file is None:
                row["lines"] = _lines_to_paste(part.client, command)
            kept = backups.all([part.client.name])
            looked = [undo(backups, each, dry=True) for each in kept]
            looked += backups.unreadable([part.client.name])
            row["undo"] = [_undo_row(each, lang) for each in looked]
            rows.append(row)
        others = [
            {
                "name": client.name,
                "title": client.title,
                "mode": client.mode,
                "by_hand": client.by_hand.render(lang) if client.by_hand else None,
                "path": str(file.path) if (file := client.user_file(self._machine())) else None,
                "lines": _lines_to_paste(client, command),
            }
            for client in CLIENTS
            if client.name not in found
        ]
        return {"assistants": rows, "others": others, "lines": _lines_to_paste(None, command)}

    def _planned(
        self, names: Iterable[str], mode: str | None = None, answers: Mapping[str, str] = _NO_ANSWERS
    ) -> _Planned:
        """Return the plan for these assistants. ``answers`` are values of variables that it lacks."""
        file = self._changes.file_now()
        clients = [_client(name) for name in dict.fromkeys(names)]
        ours = written_definitions(file.path)
        plan = plan_setup(
            self._machine(),
            self._context.home,  # a hub works in no project
            self._command(),
            ours,
            clients=clients or None,
            options=SetupOptions(mode, keep_mode=True),
            resolved=partial(with_values, values=file.store.values()),
        )
        wanted = {move.server for part in plan.assistants if part.changes for move in part.moves}
        taken = tuple(server for server in plan.servers.taken if server.name in wanted)
        definitions: dict[str, dict[str, Any]] = {}
        missing: dict[str, tuple[str, ...]] = {}
        for server in taken:
            definitions[server.name], names = _answered(server)
            if names:
                missing[server.name] = names
        referred = referred_names(ours, file.settings_texts) | referred_names(definitions)
        naming = SecretNaming(file.store.get, file.environment, referred)
        moves = moves_of(definitions, naming)
        asked = {name for names in missing.values() for name in names}
        given = {name: value for name, value in answers.items() if value and name in asked}
        missing = {
            server: left
            for server, names in missing.items()
            if (left := tuple(name for name in names if name not in given))
        }
        variables = file.variables.with_secrets({**moves.values, **given})
        blocked = blocked_servers(file.path, {**ours, **moves.definitions}, variables)
        return _Planned(file, plan.withheld(blocked), taken, moves, missing, given)

    def _machine(self) -> UserMachine:
        environ = self._context.environment
        return UserMachine(sys.platform, Path(home_folder(environ)), environ)

    def _command(self) -> TabaneCommand:
        """Return the command of entries, with the places of files that this hub was given."""
        settings = self._context.settings
        places: list[str] = []
        for name in ("home", "config", "servers"):
            source = settings.sources.get(name)
            if source is not None and source.kind in ("flag", "environment"):
                places += [f"--{name}", os.path.abspath(getattr(settings, name))]
        return TabaneCommand(tuple(launcher(self._context.environment)), tuple(places))

    def _change(self, params: SetUpAssistants) -> tuple[list[AppliedPlan], list[str]]:
        """Add the servers to the servers file, then change the files of the assistants.

        Return what was done, and the names of the servers to start. A file that cannot be changed does not
        stop the others.
        """
        planned = self._planned(params.assistants, params.mode, params.secrets)
        if params.version not in (None, planned.version):
            raise BadArguments(say("The files have changed since you looked at them. Look again."), "version")
        added, backups = planned.moves.definitions, Backups(self._context.home)
        if added:
            values = {**planned.moves.values, **planned.given}
            with backups.importing(), keeping(planned.file.store, values):
                add_servers(planned.file.path, added)
        done = []
        for part in planned.plan.assistants:
            try:
                done.append(apply(part, backups))
            except TabaneError as error:
                done.append(AppliedPlan(structs.replace(part, problem=error.message), "absent"))
        return done, [name for name, each in added.items() if not is_off(each)]

    def _check(self, done: AppliedPlan) -> EntryCheck | None:
        """Make a call through Tabane's entry, as the assistant will; None if it has none."""
        part = done.part
        if part.problem is not None or not part.own_entry:
            return None
        return check_entry(part.own_entry, self._context.environment)

    def _request(self, done: Sequence[AppliedPlan], found: StartedServers) -> Message | None:
        """Return what to say to an assistant first: about a server that has just moved, if there is one."""
        moved = {move.server for each in done for move in each.moves}
        written = written_definitions(self._changes.file_now().path)
        return request_after(written, moved, found.failed)


# -- rows ----------------------------------------------------------------------------------------


def _session_rows(sessions: Iterable[Session]) -> list[dict[str, Any]]:
    """Return rows of sessions with the folders that each works in. Links are resolved, which blocks."""
    return [session.row() | {"folders": list(folders_of(session.caller))} for session in sessions]


def _client(name: str) -> Client:
    client = client_named(name)
    if client is None:
        raise UnknownName(say("Tabane does not know the assistant {name}.", name=name))
    return client


def _answered(server: ImportedServer) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a definition with the defaults of its inputs, and the variables of those without one."""
    missing: dict[str, str] = {}

    def answer(id: str) -> str:
        wanted = server.inputs[id]
        if wanted.default is not None and not wanted.password and wanted.type != "command":
            return escaped(wanted.default)
        missing[id] = input_variable(wanted, server.name, server.definition)
        return f"${{{missing[id]}}}"

    made = with_inputs(server.definition, answer) if server.inputs else dict(server.definition)
    return made, tuple(dict.fromkeys(missing.values()))


def _lines_to_paste(client: Client | None, command: TabaneCommand) -> str:
    place = client.user if client is not None else None
    return snippet(place, "tabane", command.entry(place, "tabane", client.mode if client else None))


def _assistant_row(part: AssistantPlan, lang: Lang, new: Collection[str] = ()) -> dict[str, Any]:
    """Return an assistant for people. ``new`` are servers that Tabane does not have yet."""
    if part.problem is not None:
        state = "problem"
    elif part.file is None:
        state = "by_hand"
    else:
        state = {"installed": "absent", "updated": "outdated"}.get(part.status, "connected")
    return {
        "name": part.client.name,
        "title": part.client.title,
        "state": state,
        "mode": part.mode,
        "usual_mode": part.client.mode,
        "path": str(part.file.path) if part.file else None,
        "moves": [_move_row(move, new) for move in part.moves],
        "stays": [{"name": each.name, "why": each.why.render(lang)} for each in part.stays],
        "problem": part.problem.render(lang) if part.problem else None,
        "by_hand": part.by_hand.render(lang) if part.by_hand else None,
        "changes": part.changes,
    }


def _move_row(move: MovedEntry, new: Collection[str]) -> dict[str, Any]:
    return {
        "name": move.name,
        "server": move.server,
        "project": move.project,
        "limits": list(move.limits),
        "new": move.server in new,
    }


def _done_row(done: AppliedPlan, check: EntryCheck | None, lang: Lang) -> dict[str, Any]:
    return _assistant_row(done.part, lang) | {
        "status": done.status,
        "moves": [_move_row(move, ()) for move in done.moves],
        "backup": str(done.backup) if done.backup else None,
        "check": None if check is None else check.row(lang),
    }


def _undo_row(found: Restoration, lang: Lang) -> dict[str, Any]:
    return {
        "name": found.client,
        "title": known.title if (known := client_named(found.client)) else found.client,
        "path": str(found.path),
        "outcome": found.outcome,
        "remarks": [remark.render(lang) for remark in found.remarks],
        "servers": list(found.servers),
        "kept": str(found.kept) if found.kept else None,
    }


def _import_row(server: ImportedServer, planned: _Planned) -> dict[str, Any]:
    written = planned.moves.definitions[server.name]
    secrets = [secret.value for secret in plain_secrets(server.name, server.definition)]
    shown = masked(written, secrets)
    words = [shown.get("command"), *(shown.get("args") or ())]
    return {
        "name": server.name,
        "from": list(server.titles),
        "command": " ".join(map(str, words)) if shown.get("command") else None,
        "url": shown.get("url"),
        "secrets": [move.name for move in planned.moves.moves if move.server == server.name],
        "missing": list(planned.missing.get(server.name, ())),
        "off": is_off(written),
        "left_out": list(server.left),
    }


# -- lines ---------------------------------------------------------------------------------------


def _file_row(part: AssistantPlan) -> dict[str, Any]:
    """Return the changed lines of a file, without secrets. ``cut``: there are more of them."""
    file = part.file
    assert file is not None
    editing = format_of(file.place.form)
    before = (read_text(file.path) or "").removeprefix("\ufeff")
    after = edited(editing, file, before, [move.path for move in part.moves], part.entries)
    lines = before.splitlines()
    changes = line_changes(lines, after.splitlines())
    rows = list(_changed_lines(lines, changes or ()))
    value = editing.value(before)
    places = {file.place.key, *(move.path[:-1] for move in part.moves)}
    hidden = [secret for place in places for secret in _hidden_in(value_at(value, place))]
    hidden += _named_secrets(value)  # lines between two changes may be of anything else
    long = changes is None or any(len(row["text"]) > LONGEST_LINE for row in rows)
    if long or not _are_written(hidden, before):
        rows = list(_entry_lines(part))
    redactor = Redactor(hidden)
    shown = [row | {"text": redactor.text(row["text"])} for row in rows[:MOST_LINES]]
    return {
        "name": part.client.name,
        "title": part.client.title,
        "path": str(file.path),
        "new": not file.path.exists(),
        "lines": shown,
        "cut": len(rows) > MOST_LINES,
    }


def _named_secrets(value: Any) -> Iterator[str]:
    """Yield the texts of a whole file that have the name of a secret."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from _named_secrets(part)
        elif isinstance(part, str) and isinstance(key, str) and is_secret_name(key):
            yield part


def _are_written(hidden: Iterable[str], text: str) -> bool:
    """Return whether a redactor finds each value in a text: escapes and folded lines can hide one from it."""
    lines = (line.strip() for value in hidden for line in value.splitlines())
    return all(
        line in text or any(json.dumps(line, ensure_ascii=ascii)[1:-1] in text for ascii in (True, False))
        for line in lines
    )


def _changed_lines(before: Sequence[str], changes: Iterable[LineChange]) -> Iterator[dict[str, Any]]:
    """Yield the lines that changes remove and add, and before each place the number of its line.

    Of equal lines, only those between two changes that are close together are shown.
    """
    end = -1
    for change in changes:
        if end >= 0 and change.begin - end <= NEAR:
            yield from ({"mark": " ", "text": line} for line in before[end : change.begin])
        else:
            yield {"mark": "@", "text": "", "line": change.begin + 1}
        yield from ({"mark": "-", "text": line} for line in before[change.begin : change.end])
        yield from ({"mark": "+", "text": line} for line in change.lines)
        end = change.end


def _entry_lines(part: AssistantPlan) -> Iterator[dict[str, Any]]:
    """Yield the names of the entries that move out, and the new ones: of a file whose lines show too much."""
    assert part.file is not None
    yield from ({"mark": "-", "text": ".".join(move.path)} for move in part.moves)
    for name, entry in part.entries.items():
        lines = snippet(part.file.place, name, entry).splitlines()
        yield from ({"mark": "+", "text": line} for line in lines)


def _hidden_in(entry: Any, name: str = "") -> Iterator[str]:
    """Yield the values of an entry that are not shown: of variables and headers, and what looks secret."""
    if not isinstance(entry, Mapping):
        return
    ours = our_definition(entry.items()).values  # the words of a command are in a list or in two
    yield from (secret.value for each in (entry, ours) for secret in plain_secrets(name or "x", each))
    for key, value in entry.items():
        if not isinstance(value, Mapping):
            continue
        if key in ("env", "envs", "environment", "headers", "http_headers"):
            texts = [str(each) for each in value.values() if isinstance(each, str | int | float)]
            yield from (text for text in texts if MASK in masked_value(text))
        else:
            yield from _hidden_in(value, str(key))
