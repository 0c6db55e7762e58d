"""The plan of `tabane setup` and its edits: Tabane's entry in, the servers that Tabane runs now out.

A plan is made from the assistants' files, which are read and not changed. An entry moves out only if the hub
has its server, with all limits of the entry. Each file is then changed once. Its backup is on disk before
that, so a setup that is killed at any point can be undone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct, structs

from tabane.errors import ConfigurationError, TabaneError
from tabane.messages import Message, say
from tabane.servers.assistants.formats import Entry, FileFormat, definition, format_of
from tabane.servers.assistants.importing import (
    ImportSource,
    PlacedServer,
    ServerImportPlan,
    broken_file,
    is_off,
    is_tabane,
    plan,
    sources,
)
from tabane.servers.assistants.installation import Status, TabaneCommand, present, snippet
from tabane.servers.assistants.restoration import (
    TRIES,
    Backups,
    EntryChange,
    FileBackup,
    Keys,
    limits_in,
    merged_text,
    missing_folders,
    read_text,
    same_value,
    state_of,
    value_at,
)
from tabane.servers.assistants.table import CLIENTS, Client, ClientFile, ServersPlace, UserMachine
from tabane.servers.configuration import configuration_of, why_disabled
from tabane.servers.editing import folder_lock
from tabane.servers.foreign_keys import our_definition
from tabane.servers.variables import Variables
from tabane.settings import Mode
from tabane.settings.editing import FormatSyntaxError, UnsafeTextEdit
from tabane.settings.files import write_private

ENTRY_NAME = "tabane"
_OWN_OPTIONS = frozenset(("mode", "home", "config", "servers"))
_ELSEWHERE = frozenset(("url", "websocket"))


class MovedEntry(Struct, frozen=True):
    """An entry that moves out of a file: its name there, the keys that lead to it, and its name in Tabane.

    ``state`` is a hash of its value: an entry that changes before setup writes the file stays there.
    ``limits`` are its restrictions with our keys. ``project`` is the folder that it belongs to, if any.
    """

    name: str
    path: Keys
    server: str
    state: str
    limits: dict[str, Any] = {}
    project: str | None = None


class StayingEntry(Struct, frozen=True):
    """An entry, or several, that stays in a file, and why."""

    name: str
    why: Message


class AssistantPlan(Struct, frozen=True):
    """What setup does to one assistant.

    ``entries`` are Tabane's by name: one, and one for each server where the assistant needs that. ``status``
    says whether they are added (installed), updated or there already. ``problem`` says why nothing can be
    done; ``by_hand`` what a person has to do in a program without a file.
    """

    client: Client
    mode: str
    file: ClientFile | None = None
    status: Status = "absent"
    entries: dict[str, Entry] = {}
    moves: tuple[MovedEntry, ...] = ()
    stays: tuple[StayingEntry, ...] = ()
    problem: Message | None = None
    by_hand: Message | None = None

    @property
    def changes(self) -> bool:
        """Whether the file would be changed."""
        return self.problem is None and self.file is not None and (bool(self.moves) or self.pending)

    @property
    def pending(self) -> bool:
        """Whether Tabane's entry has to be written."""
        return self.status in ("installed", "updated")

    @property
    def own_entry(self) -> dict[str, Any]:
        """The entry for Tabane's own tools, as a definition; empty if there is none."""
        if self.file is None or not self.entries:
            return {}
        return definition(self.file.place.shape, next(iter(self.entries.values()))) or {}


class SetupPlan(Struct, frozen=True):
    """What setup would do: the assistants on this machine, and the servers that are imported for them.

    ``sources`` are the files that were read.
    """

    assistants: tuple[AssistantPlan, ...]
    servers: ServerImportPlan
    sources: tuple[ImportSource, ...] = ()

    def withheld(self, names: Mapping[str, Message]) -> SetupPlan:
        """Return the plan with the entries of these servers of Tabane left where they are, and why."""
        return structs.replace(self, assistants=tuple(_withheld(each, names) for each in self.assistants))


def blocked_servers(path: Path, definitions: Mapping[str, Any], variables: Variables) -> dict[str, Message]:
    """Return the servers that a hub would not start though they are switched on, and why."""
    found: dict[str, Message] = {}
    for server in configuration_of(path, definitions, variables).servers:
        why = why_disabled(server)
        if why is not None and not is_off(our_definition(definitions[server.name].items()).values):
            found[server.name] = say("Tabane cannot start it yet: {why}", why=why)
    return found


class SetupOptions(Struct, frozen=True):
    """Choices of a setup. ``mode`` replaces the mode that suits each assistant.

    ``keep``: entries are imported and stay. ``by_server``: one entry a server where that helps.
    ``keep_mode``: an entry of Tabane keeps the mode that it names, if none is chosen.
    """

    mode: str | None = None
    keep: bool = False
    by_server: bool = False
    keep_mode: bool = False


def plan_setup(
    machine: UserMachine,
    cwd: Path,
    command: TabaneCommand,
    ours: Mapping[str, Any],
    *,
    clients: Sequence[Client] | None = None,
    options: SetupOptions = SetupOptions(),  # noqa: B008 -- frozen
    resolved: Callable[[str], str] = str,
) -> SetupPlan:
    """Return what setup would do. Files are read, and nothing is changed.

    ``clients`` are those to set up, found or not; None stands for all that are found. ``ours`` are the
    definitions in the servers file, ``resolved`` as of :func:`tabane.servers.assistants.importing.plan`.
    """
    chosen = clients if clients is not None else [each for each in CLIENTS if present(each, machine)]
    read = tuple(sources(chosen, machine, cwd))
    own = [source for source in read if source.scope == "user"]
    servers = plan([found for source in own for found in source.servers], ours, resolved=resolved)
    planning = _Planner(machine, command, ours, servers, read, options)
    return SetupPlan(tuple(planning.assistant(client) for client in chosen), servers, read)


class _Planner:
    def __init__(
        self,
        machine: UserMachine,
        command: TabaneCommand,
        ours: Mapping[str, Any],
        servers: ServerImportPlan,
        read: Sequence[ImportSource],
        options: SetupOptions,
    ) -> None:
        self._machine, self._command, self._options = machine, command, options
        self._sources = read
        self._placed = servers.placed
        self._taken = {server.name: server for server in servers.taken}
        self._known = {
            name: our_definition(written.items(), name).values
            for name, written in ours.items()
            if isinstance(written, dict)
        }

    def assistant(self, client: Client) -> AssistantPlan:
        mode = self._options.mode or client.mode
        file = client.user_file(self._machine)
        if file is None:
            return AssistantPlan(client, mode, by_hand=client.by_hand)
        problem = next(
            (s.problem for s in self._sources if s.problem and _same_file(s.path, file.path)), None
        )
        if problem is not None:
            return AssistantPlan(client, mode, file, problem=problem)
        try:
            return self._of_file(client, mode, file)
        except FormatSyntaxError as broken:
            return AssistantPlan(client, mode, file, problem=broken_file(file.path, broken).message)
        except TabaneError as error:
            return AssistantPlan(client, mode, file, problem=error.message)

    def _of_file(self, client: Client, mode: str, file: ClientFile) -> AssistantPlan:
        editing = format_of(file.place.form)
        text = (read_text(file.path) or "").removeprefix("\ufeff")
        value = editing.value(text)
        table = value_at(value, file.place.key)
        there: dict[str, Any] = table if isinstance(table, dict) else {}
        moves, stays = self._moves(client, file, editing, text)
        stays += _forms_that_stay(file.place, there)
        stays += self._other_files(client, file)
        name = _name_of_ours(file.place, there)
        if self._options.keep_mode and not self._options.mode:
            mode = _mode_of(file.place, there.get(name)) or mode
        if _is_elsewhere(file.place, there.get(name)):
            why = say("it connects to a hub by URL, so the servers of this assistant stay")
            return AssistantPlan(client, mode, file, "unchanged", stays=(StayingEntry(name, why),))
        if self._options.keep:
            moves = []
        moved = {move.path for move in moves}
        entries = {
            name: self._command.entry(file.place, name, mode, _own_options(file.place, there.get(name)))
        }
        if client.by_server and self._options.by_server:
            entries |= self._by_server(file, moves, there, moved, mode)
        for each in entries:
            taken = each in there and (*file.place.key, each) not in moved
            if taken and not _is_ours(file.place, there[each]):
                why = say("another server there has the name {name}. Rename it, and try again.", name=each)
                return AssistantPlan(client, mode, file, stays=tuple(stays), problem=why)
        status = _status(editing, file, text, value, moved, entries)
        return AssistantPlan(client, mode, file, status, entries, tuple(moves), tuple(stays))

    def _by_server(
        self,
        file: ClientFile,
        moves: Sequence[MovedEntry],
        there: Mapping[str, Any],
        moved: set[Keys],
        mode: str,
    ) -> dict[str, Entry]:
        """Return an entry for each server that moves out, beside the one for Tabane's own tools."""
        found: dict[str, Entry] = {}
        for move in moves:
            free = move.server not in there or (*file.place.key, move.server) in moved
            if move.path[:-1] == file.place.key and free and move.limits.get("enabled") is not False:
                found[move.server] = self._command.entry(
                    file.place, move.server, mode, ("--server", move.server)
                )
        return found

    def _moves(
        self, client: Client, file: ClientFile, editing: FileFormat, text: str
    ) -> tuple[list[MovedEntry], list[StayingEntry]]:
        moves: list[MovedEntry] = []
        stays: list[StayingEntry] = []
        value = editing.value(text)
        own = [
            placed
            for placed in self._placed
            if placed.found.client == client.name and _same_file(placed.found.path, file.path)
        ]
        for placed in own:
            found = placed.found
            if is_tabane(found.definition):
                continue
            why = self._why_it_stays(placed)
            if why is None:
                try:
                    text = editing.without_entry(text, found.place)
                except UnsafeTextEdit:
                    why = say("it cannot be removed from the file safely. Remove it yourself.")
            if why is not None:
                stays.append(
                    StayingEntry(f"{found.name} ({found.folder.name})" if found.folder else found.name, why)
                )
                continue
            folder = str(found.folder) if found.folder else None
            limits, state = limits_in(placed.definition), _state_at(value, found.place)
            moves.append(
                MovedEntry(found.name, found.place, placed.name or found.name, state, limits, folder)
            )
        # of a key that is there twice, both move or none
        kept = {placed.found.place for placed in own if self._why_it_stays(placed)}
        return [move for move in moves if move.path not in kept], stays

    def _why_it_stays(self, placed: PlacedServer) -> Message | None:
        if placed.name is None:
            return placed.why
        taken = self._taken.get(placed.name)
        if taken is not None and taken.narrowing:
            return say(
                'Tabane cannot translate the limit {keys}. Write it as "allow" or "deny" in Tabane.',
                keys=", ".join(taken.narrowing),
            )
        there = taken.definition if taken is not None else self._known.get(placed.name, {})
        if is_off(placed.definition) and not is_off(there):
            return say("it is switched off here, and on in Tabane as {name!n}", name=placed.name)
        if taken is None and not _covers(there, placed.definition):
            return say(
                "{name!n} in Tabane allows more than this entry. Add its limits there.", name=placed.name
            )
        return None

    def _other_files(self, client: Client, file: ClientFile) -> Iterator[StayingEntry]:
        """Yield the servers in files that are not changed: of projects, and of older versions."""
        for source in self._sources:
            names = [
                found.name
                for found in source.servers
                if found.client == client.name and not is_tabane(found.definition)
            ]
            if not names or _same_file(source.path, file.path):
                continue
            why = say("{path} is not changed by setup", path=source.path)
            if source.scope == "project":
                why = say("{path} belongs to a project that others may share", path=source.path)
            yield StayingEntry(", ".join(dict.fromkeys(names)), why)


def _withheld(part: AssistantPlan, names: Mapping[str, Message]) -> AssistantPlan:
    moves = tuple(move for move in part.moves if move.server not in names)
    stays = [StayingEntry(move.name, names[move.server]) for move in part.moves if move.server in names]
    own = next(iter(part.entries), None)  # the entry for Tabane's own tools
    entries = {name: entry for name, entry in part.entries.items() if name == own or name not in names}
    return structs.replace(part, moves=moves, stays=(*part.stays, *stays), entries=entries)


def _same_file(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _state_at(value: Any, path: Keys) -> str:
    return state_of(repr(value_at(value, path)))


def _is_ours(place: ServersPlace, there: object) -> bool:
    found = definition(place.shape, there)
    return found is not None and is_tabane(found)


def _name_of_ours(place: ServersPlace, there: Mapping[str, Any]) -> str:
    """Return the name of Tabane's entry: another one if the user named it so."""
    if _is_ours(place, there.get(ENTRY_NAME)):
        return ENTRY_NAME
    ours = (name for name, entry in there.items() if _is_ours(place, entry))
    whole = (name for name in ours if "server" not in dict(_options_of(place, there[name])))
    return next(whole, ENTRY_NAME)


def _options_of(place: ServersPlace, there: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the options after ``mcp`` of an entry of Tabane, with their words."""
    found = definition(place.shape, there)
    args = our_definition(found.items()).values.get("args") if found else None
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    rest = words[words.index("mcp") + 1 :] if "mcp" in words else []
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.removeprefix("--").partition("=")
        takes = not equals and rest and not rest[0].startswith("--")
        yield name, (word, rest.pop(0)) if takes else (word,)


def _own_options(place: ServersPlace, there: object) -> tuple[str, ...]:
    """Return the options that the user added to an entry of Tabane, such as a profile."""
    if not _is_ours(place, there):
        return ()
    return tuple(
        word for name, words in _options_of(place, there) if name not in _OWN_OPTIONS for word in words
    )


def _mode_of(place: ServersPlace, there: object) -> str:
    """Return the mode that an entry of Tabane names; empty if it names none that there is."""
    options = dict(_options_of(place, there)) if _is_ours(place, there) else {}
    words = options.get("mode", ())
    found = words[-1].removeprefix("--mode=") if words else ""
    return found if found in get_args(Mode) else ""


def _is_elsewhere(place: ServersPlace, there: object) -> bool:
    """Return whether an entry of Tabane connects by URL, to a hub that may be another one."""
    if not _is_ours(place, there):
        return False
    found = our_definition((definition(place.shape, there) or {}).items()).values
    return bool(found.get("url")) or any(name in _ELSEWHERE for name, _ in _options_of(place, there))


def _covers(there: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether a server in Tabane has all limits of a definition."""
    limits, own = limits_in(found), limits_in(there)
    if own.get("enabled") is False:
        return True
    for key in ("deny", "confirm"):
        known = {*own.get(key, ()), *own.get("deny", ())}
        if not set(limits.get(key, ())) <= known and "*" not in own.get("deny", ()):
            return False
    return "allow" not in limits or ("allow" in own and set(own["allow"]) <= set(limits["allow"]))


def _forms_that_stay(place: ServersPlace, there: Mapping[str, Any]) -> Iterator[StayingEntry]:
    """Yield the entries that are no servers of their own: only their program can run them."""
    names = [name for name, entry in there.items() if definition(place.shape, entry) is None]
    why = say("only this program can run it")
    if place.shape == "zed":
        why = say("it is an extension of Zed, which Zed itself runs")
    elif place.shape == "goose":
        why = say("it is built into goose")
    for name in names:
        yield StayingEntry(str(name), why)


def _status(
    editing: FileFormat,
    file: ClientFile,
    text: str,
    value: Any,
    moved: Iterable[Keys],
    entries: Mapping[str, Entry],
) -> Status:
    """Return whether Tabane's entries are new, change or are there. Raises as :func:`edited`."""
    edited(editing, file, text, moved, entries)
    found = [value_at(value, (*file.place.key, name)) for name in entries]
    if not all(_is_ours(file.place, each) for each in found):
        return "installed"
    wanted = zip(found, entries.values(), strict=True)
    same = all(same_value({**there, **entry}, there) for there, entry in wanted)
    return "unchanged" if same else "updated"


def edited(
    editing: FileFormat,
    file: ClientFile,
    text: str,
    moved: Iterable[Keys],
    entries: Mapping[str, Entry],
) -> str:
    """Return the text of a file without the entries that moved out, and with Tabane's. Pure.

    Raises FormatSyntaxError if it is broken, and ConfigurationError with the lines to write by hand.
    """
    try:
        for path in moved:
            text = editing.without_entry(text, path)
        for name, entry in entries.items():
            text = editing.with_entry(text, (*file.place.key, name), entry)
    except UnsafeTextEdit:
        lines = "\n".join(snippet(file.place, name, entry).rstrip("\n") for name, entry in entries.items())
        raise ConfigurationError(
            say(
                "{path} cannot be changed safely. Edit it yourself: add these lines:\n{lines}",
                path=file.path,
                lines=lines,
            )
        ) from None
    return text


# -- writing -------------------------------------------------------------------------------------


class AppliedPlan(Struct, frozen=True):
    """What was done to one assistant. ``backup`` is None if its file was not changed."""

    part: AssistantPlan
    status: Status
    moves: tuple[MovedEntry, ...] = ()
    backup: Path | None = None


def apply(part: AssistantPlan, backups: Backups) -> AppliedPlan:
    """Change the file of one assistant in one step, after its backup is on disk.

    The servers must be in the servers file by now. Raises ConfigurationError if the file cannot be changed;
    then it is as before.
    """
    file = part.file
    if file is None or part.problem is not None:
        return AppliedPlan(part, "absent")
    target = Path(os.path.realpath(file.path))
    made = missing_folders(target.parent)
    try:
        os.makedirs(target.parent, mode=0o700, exist_ok=True)
        with folder_lock(target):
            for _ in range(TRIES):
                current = read_text(target)
                text, moves = _new_text(part, file, current)
                if text == current:
                    return AppliedPlan(part, "unchanged")
                backup = _backup(part, file, target, (current, text), moves, backups, made)
                saved = backups.save(backup)
                if read_text(target) == current:  # else the program has just written it
                    mode = stat.S_IMODE(target.stat().st_mode) if current is not None else 0o600
                    write_private(target, text.encode(), mode)
                    status = part.status if part.pending else "unchanged"
                    return AppliedPlan(part, status, tuple(moves), saved)
    except FormatSyntaxError as broken:
        raise broken_file(file.path, broken) from None
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=file.path, reason=error.strerror)
        ) from None
    raise ConfigurationError(
        say(
            "{title} keeps changing {path}. Close it, and try again.", title=part.client.title, path=file.path
        )
    )


def _new_text(part: AssistantPlan, file: ClientFile, current: str | None) -> tuple[str, list[MovedEntry]]:
    editing = format_of(file.place.form)
    mark = "\ufeff" if (current or "").startswith("\ufeff") else ""
    text = (current or "").removeprefix(mark)
    value = editing.value(text)
    moves = [move for move in part.moves if _state_at(value, move.path) == move.state]
    return mark + edited(editing, file, text, [move.path for move in moves], part.entries), moves


def _backup(
    part: AssistantPlan,
    file: ClientFile,
    target: Path,
    texts: tuple[str | None, str],
    moves: Sequence[MovedEntry],
    backups: Backups,
    made: Sequence[Path],
) -> FileBackup:
    """Return the backup of this change, joined with that of an earlier setup.

    Its ``before`` is then what the file would be without both.
    """
    current, text = texts
    changes = [EntryChange(move.path, move.server, move.limits) for move in moves]
    changes += [EntryChange((*file.place.key, name)) for name in part.entries]
    before, states, folders = current, [state_of(text)], tuple(map(str, made))
    earlier = backups.find(part.client.name, target)
    if earlier is not None and current is None:
        backups.set_aside(earlier)
    elif earlier is not None and current is not None:
        try:
            before = merged_text(earlier, current).text
        except UnsafeTextEdit:
            raise ConfigurationError(
                say(
                    "{path} was changed since an earlier setup. Undo that first: tabane setup --undo {name}",
                    path=target,
                    name=part.client.name,
                )
            ) from None
        states.append(state_of(current))
        changes = [*earlier.changes, *changes]
        folders = earlier.folders
    by_path: dict[Keys, EntryChange] = {}
    for change in changes:  # one for each path: that of a moved entry if there is one
        if change.path not in by_path or by_path[change.path].server is None:
            by_path[change.path] = change
    mode = f"{stat.S_IMODE(target.stat().st_mode):04o}" if current is not None else None
    return FileBackup(
        client=part.client.name,
        path=str(target),
        form=file.place.form,
        shape=file.place.shape,
        mode=mode,
        before=before,
        after=text,
        states=tuple(states),
        changes=tuple(by_path.values()),
        folders=folders,
    )
