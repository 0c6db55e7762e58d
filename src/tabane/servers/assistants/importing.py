"""Import of servers from other programs: their files are read, merged, and converted to ours.

Limits that programs keep beside their servers are kept: see :mod:`tabane.servers.assistants.limits`.

VS Code's files ask a person for inputs as ``${input:ID}``. Source: "Input variables" in its variables
reference. ``inputs`` lists objects with ``id`` and ``type``: promptString (``description``, ``default``,
``password``), pickString (``options``, ``default``) or command, which runs a command of the editor.

A server whose tools the hub already has is recognized by its command, and left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.assistants.formats import (
    FILE_INPUT,
    at_path,
    format_of,
    with_our_variables,
)
from tabane.servers.assistants.formats import definition as definition_of
from tabane.servers.assistants.limits import Rules, ServerFilters, project_rules, rules_beside
from tabane.servers.assistants.table import (
    CLIENTS,
    Client,
    ClientFile,
    Form,
    Scope,
    ServersPlace,
    UserMachine,
)
from tabane.servers.configuration import TABLES, open_document, server_tables
from tabane.servers.foreign_keys import narrow, our_definition, split_command, words_of_line
from tabane.servers.plain_secrets import variable_name, words_of
from tabane.servers.server import is_hub
from tabane.servers.server_keys import is_plain
from tabane.servers.variables import NAME, each_text
from tabane.settings.editing import FormatSyntaxError
from tabane.settings.files import read_owned

InputType = Literal["promptString", "pickString", "command"]

MOST_INPUTS = 200
MOST_OPTIONS = 200
LONGEST = 300
"""Characters of a description or label that are shown."""

_TYPES = ("promptString", "pickString", "command")
_INPUT = re.compile(r"\$\{input:([^{}]*)\}")


class ClientInput(Struct, frozen=True):
    """An input of a file. ``options`` are the choices of pickString: labels and values.

    ``origin`` is the file: the same id in another file is another input. An id that the file does not declare
    is asked for as text.
    """

    id: str
    origin: str = ""
    type: InputType = "promptString"
    description: str = ""
    default: str | None = None
    password: bool = False
    options: tuple[tuple[str, str], ...] = ()
    command: str = ""

    @property
    def title(self) -> str:
        """Return what it asks for, for people."""
        return self.description or self.id


def inputs_of(value: object, origin: str) -> dict[str, ClientInput]:
    """Return the inputs of a file by id. ``value`` is its member ``inputs``. What is no input is left out."""
    found: dict[str, ClientInput] = {}
    for item in value[:MOST_INPUTS] if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            kind = item.get("type")
            default = item.get("default")
            found.setdefault(
                item["id"],
                ClientInput(
                    item["id"],
                    origin,
                    cast("InputType", kind) if kind in _TYPES else "promptString",
                    _shown_text(item.get("description")),
                    default if isinstance(default, str) and default else None,
                    item.get("password") is True,
                    tuple(_input_options(item.get("options"))),
                    _shown_text(item.get("command")),
                ),
            )
    return found


def input_ids(definition: Any) -> tuple[str, ...]:
    """Return the ids of the inputs that a definition asks for, each once."""
    return tuple(
        dict.fromkeys(found[1] for text in _texts_within(definition) for found in _INPUT.finditer(text))
    )


def with_inputs(definition: Any, answer: Callable[[str], str]) -> Any:
    """Return a definition with each ``${input:ID}`` replaced by the text that ``answer`` gives for the id."""
    return each_text(definition, lambda text: _INPUT.sub(lambda found: answer(found[1]), text))


def input_variable(wanted: ClientInput, server: str, definition: Mapping[str, Any]) -> str:
    """Return a name for the variable of an input.

    That is the variable of ``env`` that it fills, if it fills only one, else its id.
    """
    whole = f"${{input:{wanted.id}}}"
    env = definition.get("env")
    names = [name for name, text in env.items() if text == whole] if isinstance(env, dict) else []
    if len(names) == 1 and NAME.fullmatch(names[0]):
        return str(names[0])
    own = words_of(wanted.id)
    return own if NAME.fullmatch(own) and "_" in own else variable_name(server, wanted.id)


def agrees(written: object, found: object) -> bool:
    """Return whether a text of ours is one of a client's, with any text in the place of an input."""
    if not isinstance(found, str) or not isinstance(written, str) or "${input:" not in found:
        return written == found
    first, *middle, last = _INPUT.split(found)[::2]
    position, end = len(first), len(written) - len(last)
    if not written.startswith(first) or not written.endswith(last):
        return False
    for part in middle:
        at = written.find(part, position, end)
        if at < 0:
            return False
        position = at + len(part)
    return position <= end


def _input_options(value: object) -> Iterator[tuple[str, str]]:
    for option in value[:MOST_OPTIONS] if isinstance(value, list) else ():
        if isinstance(option, str):
            yield _shown_text(option), option
        elif isinstance(option, dict) and isinstance(option.get("value"), str):
            yield _shown_text(option.get("label")) or _shown_text(option["value"]), option["value"]


def _shown_text(value: object) -> str:
    """Return a text of a file for a terminal: one line without control characters."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in value[:LONGEST]).split())


def _texts_within(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts_within(part)


_VERSION = re.compile(r"(?<=.)[@:].*")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _ComparedCommand(NamedTuple):
    """A definition as it is compared. ``parts``: segments of its paths and packages, in lower case."""

    name: str
    words: frozenset[str]
    parts: frozenset[str]
    env: frozenset[str]
    host: str


def replacement_for(name: str, definition: Mapping[str, Any]) -> Message | None:
    """Return why a server is not needed behind the hub, and the replacement; None for any other server."""
    definition = our_definition(definition.items()).values
    args = definition.get("args")
    given = [definition.get("command"), *(args if isinstance(args, list) else ())]
    words = [word for text in given if isinstance(text, str) for word in text.split()]
    cwd, env = definition.get("cwd"), definition.get("env")
    places = [*words, *(cwd.split() if isinstance(cwd, str) else ())]
    command = _ComparedCommand(
        name.lower(),
        frozenset(words),
        frozenset(part for place in places for part in _path_segments(place)),
        frozenset(env) if isinstance(env, Mapping) else frozenset(),
        _host_of(definition.get("url")),
    )
    return next((why for is_it, why in _SERVERS if is_it(command)), None)


def _is_twilog(command: _ComparedCommand) -> bool:
    return not command.parts.isdisjoint(
        ("twilog-mcp-server", "twilog_mcp_server", "twilog_mcp_server.py", "twilog-search", "twilog-mcp")
    )


def _is_semche(command: _ComparedCommand) -> bool:
    if "SEMCHE_CHROMA_DIR" in command.env or "semche" in command.parts:
        return True
    return command.name == "semche" and command.host in _LOOPBACK


_SERVERS: tuple[tuple[Callable[[_ComparedCommand], bool], Message], ...] = (
    (
        _is_twilog,
        say(
            "Tabane has twilog's tools built in (search_similar and others). Import its "
            "archive with: tabane posts import"
        ),
    ),
    (
        _is_semche,
        say(
            "Tabane has semche's tools built in (put_document, search and others). Import its "
            "documents with: tabane docs import-chroma"
        ),
    ),
    (
        lambda found: "monoread" in found.parts and "mcp" in found.words,
        say("Tabane has monoread's tool built in (read_url_content)"),
    ),
    (
        lambda found: "search-mcp" in found.parts,
        say(
            "Tabane replaces search-mcp. To import its servers, give its configuration file: "
            "tabane servers import --from config/mcp-servers.json"
        ),
    ),
)

_OWNERS = frozenset({"@yukukotani", "@7shi", "@paterapatera", "@krtw00"})


def _path_segments(word: str) -> Iterable[str]:
    """Return the segments of a path, or the name of a package without its version.

    A package with the same name from another owner is another package.
    """
    segments = [segment for segment in re.split(r"[/\\=]", word.strip("'\"").lower()) if segment]
    if segments and segments[0].startswith("@") and segments[0] not in _OWNERS:
        return ()
    return (_VERSION.sub("", segment) for segment in segments)


def _host_of(url: object) -> str:
    try:
        return (urlsplit(url).hostname or "") if isinstance(url, str) else ""
    except ValueError:
        return ""


LIMIT = 64 * 1024 * 1024
"""Bytes of another program's file: Claude Code keeps its history beside its servers."""

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """A server in a file of another program. ``title`` is the program's own name.

    ``origin`` is the short word that distinguishes it from others; ``folder`` is its project, if it has one.
    ``client`` is the program's name in the table; empty for a file that was named by hand.
    """

    name: str
    definition: Definition = field(repr=False)
    title: str
    origin: str
    path: Path
    folder: Path | None = None
    client: str = ""
    scope: Scope = "user"
    inputs: Mapping[str, ClientInput] = field(default_factory=dict)
    """The inputs that the definition asks a person for, by id."""
    place: tuple[str, ...] = ()
    """The keys that lead to it in the file; empty for a file that was named by hand."""
    limited: Path | None = None
    """A project in which the user limits or disables it. The hub would offer the same tools everywhere."""


class ImportSource(Struct, frozen=True):
    """A file that was read: its servers, or why it could not be read. ``scope`` says whose it is."""

    title: str
    path: Path
    servers: tuple[ImportCandidate, ...] = ()
    problem: Message | None = None
    scope: Scope = "user"


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """A server to be added, the program that has it, and the keys that are not imported.

    ``inputs`` are what its definition asks a person for, by id. ``narrowing`` are keys of ``left`` that limit
    what may be used: the definition is switched off, because it would allow more without them.
    """

    name: str
    definition: Definition = field(repr=False)
    titles: tuple[str, ...]
    left: tuple[str, ...] = ()
    narrowing: tuple[str, ...] = ()
    inputs: Mapping[str, ClientInput] = field(default_factory=dict)


class SkippedServer(Struct, frozen=True):
    """A server that is not added, and why."""

    name: str
    title: str
    why: Message


class PlacedServer(Struct, frozen=True):
    """Where a server of another program runs in the hub: under ``name``. None: it is not there, see ``why``.

    ``definition`` is what it allows itself, with our keys.
    """

    found: ImportCandidate
    name: str | None = None
    why: Message | None = None
    definition: Definition = {}


class ServerImportPlan(Struct, frozen=True):
    """The changes that an import would make. ``placed`` has every server that was looked at."""

    taken: tuple[ImportedServer, ...] = ()
    skipped: tuple[SkippedServer, ...] = ()
    placed: tuple[PlacedServer, ...] = ()

    @property
    def definitions(self) -> dict[str, Definition]:
        return {taken.name: taken.definition for taken in self.taken}


# -- reading -------------------------------------------------------------------------------------


def sources(clients: Iterable[Client], machine: UserMachine, cwd: Path) -> Iterator[ImportSource]:
    """Yield the existing files of the clients. A broken one has an error, and the others are read."""
    seen: set[tuple[Path, tuple[str, ...]]] = set()
    broken: set[Path] = set()
    for client in clients:
        for file in client.files(machine, cwd):
            path = Path(os.path.realpath(file.path))
            # one file may have servers under two keys
            if (path, file.place.key) in seen or path in broken or not path.exists():
                continue
            seen.add((path, file.place.key))
            source = _of_client(client, file, cwd, machine)
            if source.problem:
                broken.add(path)
            yield source


def source_of(path: Path) -> ImportSource:
    """Return one named file. It belongs to no project, since it may be a copy from anywhere."""
    if not path.exists():
        return ImportSource(path.name, path, problem=say("There is no file {path}.", path=path))
    origin = _name_part(path.stem)
    try:
        found = [
            ImportCandidate(name, value, path.name, origin, path, inputs=inputs)
            for name, value, inputs in _of_any_program(path)
        ]
        projects = _of_projects(_read_value(path, "json"), path.name, path) if _form(path) == "json" else ()
    except ConfigurationError as error:
        return ImportSource(path.name, path, problem=error.message)
    return ImportSource(path.name, path, (*found, *projects))


def broken_file(path: Path, broken: FormatSyntaxError) -> ConfigurationError:
    """Return the error of a file that is not in its format."""
    if not broken.line:
        return ConfigurationError(say("{path}: {expected}.", path=path, expected=broken.expected))
    return ConfigurationError(
        say(
            "{path}:{line}:{column}: {expected}.",
            path=path,
            line=broken.line,
            column=broken.column,
            expected=broken.expected,
        )
    )


def _of_client(client: Client, file: ClientFile, cwd: Path, machine: UserMachine) -> ImportSource:
    folder = cwd if file.scope == "project" else None
    try:
        beside = rules_beside(client, machine, _read_any, folder)
        found = [
            ImportCandidate(
                *(name, value, client.title, client.name, file.path, folder, client.name, file.scope, inputs),
                (*file.place.key, name),
            )
            for name, value, inputs in _read_entries(file.path, file.place, beside)
        ]
        if client.per_project and folder is None:
            root = _read_value(file.path, file.place.form)
            limited = _limits_of_projects(root, client, [each.name for each in found])
            found = [replace(each, limited=limited.get(each.name)) for each in found]
            found += _of_projects(root, client.title, file.path, client, machine)
    except ConfigurationError as error:
        return ImportSource(client.title, file.path, problem=error.message, scope=file.scope)
    except FileNotFoundError:
        return ImportSource(client.title, file.path, scope=file.scope)
    return ImportSource(client.title, file.path, tuple(found), scope=file.scope)


_Entry = tuple[str, Definition, Mapping[str, ClientInput]]


def _of_any_program(path: Path) -> Iterator[_Entry]:
    """Yield the servers of a file under the keys that the programs of the table use in this format."""
    form = _form(path)
    seen: set[tuple[str, ...]] = {(key,) for key in TABLES} if form == "json" else set()
    if form == "json":
        yield from _read_entries(path, _place_of(path))
    value = _read_value(path, form)
    for client in CLIENTS:
        for place in (client.user, client.project, *client.also):
            if place is None or _family(place.form) != form or place.key in seen:
                continue
            if at_path(value, place.key) is not None:
                seen.add(place.key)
                yield from _read_entries(path, place)


def _place_of(path: Path) -> ServersPlace:
    """Return the place in the table that a file seems to be a copy of, with the key of most programs."""
    places = [place for client in CLIENTS for place in (client.user, client.project) if place is not None]
    usual = [place for place in places if place.key[0] in TABLES]
    return next((place for place in usual if path.as_posix().endswith(place.paths)), ServersPlace(()))


def _read_entries(path: Path, place: ServersPlace, beside: Rules = ()) -> Iterator[_Entry]:
    if _family(place.form) == "json" and place.key[0] in TABLES:
        # by members, so that an error has a line, and a key that is there twice counts twice
        document = open_document(path, lambda path: read_owned(path, LIMIT))
        tables = [member.value for member in server_tables(path, document)]
        root = document.value
    else:
        root = _read_value(path, place.form)
        tables = [_table(at_path(root, place.key), place)]
    filters = ServerFilters(root, beside)
    entries = [
        (name, with_our_variables(filters.applied(name, definition), dollars=place.dollars))
        for table in tables
        for name, definition in _usable(table, place)
    ]
    asks = any(input_ids(definition) for _, definition in entries)
    declared: Mapping[str, ClientInput] = {}
    if asks:  # a file declares its inputs beside its servers
        declared = inputs_of(at_path(_read_value(path, place.form), (*place.key[:-1], "inputs")), str(path))
    for name, definition in entries:
        yield (
            name,
            definition,
            {id: declared.get(id) or _undeclared_input(id, path) for id in input_ids(definition)},
        )


def _undeclared_input(id: str, path: Path) -> ClientInput:
    if not id.startswith(FILE_INPUT):
        return ClientInput(id, str(path))
    return ClientInput(id, str(path), description=f"{{file:{id.removeprefix(FILE_INPUT)}}}", password=True)


def _usable(table: Mapping[str, Any], place: ServersPlace) -> Iterator[tuple[str, Definition]]:
    for name, entry in table.items():
        found = definition_of(place.shape, entry) if isinstance(name, str) else None
        if name and found is not None and is_plain(name):
            yield name, found


def _table(value: Any, place: ServersPlace) -> Mapping[str, Any]:
    if place.listed:
        items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        return {
            item["name"]: {key: part for key, part in item.items() if key != "name"}
            for item in items
            if isinstance(item.get("name"), str)
        }
    return value if isinstance(value, dict) else {}


def _read_value(path: Path, form: Form) -> Any:
    try:
        return format_of(form).value(read_owned(path, LIMIT).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None
    except FormatSyntaxError as broken:
        raise broken_file(path, broken) from None


def _read_any(path: Path) -> Any:
    return _read_value(path, _form(path))


def _form(path: Path) -> Form:
    forms: Mapping[str, Form] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
    return forms.get(path.suffix.lower(), "json")


def _family(form: Form) -> Form:
    return "json" if form == "jsonc" else form


def _of_projects(
    root: Any, title: str, path: Path, client: Client | None = None, machine: UserMachine | None = None
) -> Iterator[ImportCandidate]:
    projects = root.get("projects") if isinstance(root, dict) else None
    for name, project in projects.items() if isinstance(projects, dict) else ():
        table = project.get("mcpServers") if isinstance(project, dict) else None
        if not isinstance(table, dict) or not table:
            continue
        off, folder = project.get("disabledMcpServers"), Path(name)
        beside = rules_beside(client, machine, _read_any, folder) if client and machine else ()
        filters = ServerFilters({}, beside)
        for server, definition in _usable(table, ServersPlace(())):
            made = with_our_variables(filters.applied(server, definition), dollars=False)
            if isinstance(off, list) and server in off:
                made["enabled"] = False
            yield ImportCandidate(
                *(server, made, f"{title} ({folder.name})", _name_part(folder.name), path, folder),
                client=client.name if client else "",
                place=("projects", name, "mcpServers", server),
            )


def _limits_of_projects(root: Any, client: Client, names: Collection[str]) -> dict[str, Path]:
    """Return the servers of the user that a project limits or disables, and the folder of that project."""
    projects = root.get("projects") if isinstance(root, dict) else None
    limited: dict[str, Path] = {}
    for name, project in projects.items() if isinstance(projects, dict) and names else ():
        folder = Path(name)
        if not folder.is_dir():
            continue
        off = project.get("disabledMcpServers") if isinstance(project, dict) else None
        filters = ServerFilters({}, project_rules(client, folder, _read_any))
        for server in names:
            if (isinstance(off, list) and server in off) or filters.applied(server, {}):
                limited.setdefault(server, folder)
    return limited


# -- planning ------------------------------------------------------------------------------------


def plan(
    found: Iterable[ImportCandidate],
    ours: Mapping[str, Any],
    *,
    forced: bool = False,
    resolved: Callable[[str], str] = str,
) -> ServerImportPlan:
    """Return what to add to ``ours``, the servers that the file already contains.

    ``resolved`` puts the secrets that are kept into a text: a key that an earlier import has kept is then
    the same as in the other program's file.

    Pure, except that project folders are read to resolve relative paths. The same command, arguments and URL
    are one server, unless their environments contradict each other. If a name is taken, the other server
    gets the client's name as a suffix. Servers whose tools the hub already has are left out, unless
    ``forced``.
    """
    planning = _ServerImportPlanner(ours, forced, resolved)
    for server in found:
        planning.take(server)
    return ServerImportPlan(tuple(planning.taken.values()), tuple(planning.skipped), tuple(planning.placed))


class _ServerImportPlanner:
    def __init__(self, ours: Mapping[str, Any], forced: bool, resolved: Callable[[str], str]) -> None:
        self._forced, self._resolved = forced, resolved
        self._ours = {
            name: our_definition(written.items(), name).values
            for name, written in ours.items()
            if isinstance(written, dict)
        }
        self._names = set(ours)
        self.taken: dict[str, ImportedServer] = {}
        self.skipped: list[SkippedServer] = []
        self.placed: list[PlacedServer] = []

    def take(self, found: ImportCandidate) -> None:
        if is_tabane(found.definition):
            self._skip_server(found, say("this is Tabane itself"))
            return
        needless = None if self._forced else replacement_for(found.name, found.definition)
        if needless is not None:
            self._skip_server(found, needless)
            return
        if found.limited is not None and not self._forced:
            self._skip_server(found, say("it is limited in the project {folder} alone", folder=found.limited))
            return
        definition, left, narrowing = adopted(found)
        if not definition.get("command") and not definition.get("url"):
            self._skip_server(found, say("it has neither command nor url"))
            return
        for name, written in self._ours.items():
            if _is_there(written, definition, self._resolved):
                why = say("it already exists as {name!n}", name=name)
                self.skipped.append(SkippedServer(found.name, found.title, why))
                self.placed.append(PlacedServer(found, name, why, definition))
                return
        known = self._fold_into(found, definition, left, narrowing)
        if known is None:
            candidates = [found.name, f"{found.name}-{found.origin}"]
            candidates += [f"{candidates[1]}-{number}" for number in range(2, len(self._names) + 3)]
            known = next(name for name in candidates if name not in self._names)
            self._names.add(known)
            asked = {id: found.inputs[id] for id in input_ids(definition) if id in found.inputs}
            self.taken[known] = ImportedServer(known, definition, (found.title,), left, narrowing, asked)
        self.placed.append(PlacedServer(found, known, None, definition))

    def _fold_into(
        self,
        found: ImportCandidate,
        definition: Definition,
        left: tuple[str, ...],
        narrowing: tuple[str, ...],
    ) -> str | None:
        """Add it to the same server of another program, and return its name; None if there is none."""
        for name, taken in self.taken.items():
            whole = joined(taken.definition, definition)
            if whole is not None:
                titles = tuple(dict.fromkeys((*taken.titles, found.title)))
                kept = tuple(dict.fromkeys((*taken.left, *left)))
                asked = {id: found.inputs[id] for id in input_ids(whole) if id in found.inputs}
                limits = tuple(dict.fromkeys((*taken.narrowing, *narrowing)))
                if is_off(taken.definition) != is_off(definition):  # one program uses it
                    whole = {key: part for key, part in whole.items() if key not in ("enabled", "disabled")}
                self.taken[name] = replace(
                    taken,
                    definition=whole | ({"enabled": False} if limits else {}),
                    titles=titles,
                    left=kept,
                    narrowing=limits,
                    inputs={**asked, **taken.inputs},
                )
                return name
        return None

    def _skip_server(self, found: ImportCandidate, why: Message) -> None:
        self.skipped.append(SkippedServer(found.name, found.title, why))
        self.placed.append(PlacedServer(found, None, why))


def adopted(found: ImportCandidate) -> tuple[Definition, tuple[str, ...], tuple[str, ...]]:
    """Return the definition with our keys, the names of keys without an equivalent, and those that narrow.

    A definition that would allow more here than there is switched off. A project's server still runs in its
    folder, if that makes a difference.
    """
    ours = our_definition(found.definition.items(), found.name)
    definition = dict(ours.values)
    args = definition.get("args")
    if isinstance(args, str):
        definition["args"] = args = words_of_line(args)
    command = definition.get("command")
    words = split_command(command, "", os.environ.get("PATH")) if isinstance(command, str) else []
    if words and (args is None or isinstance(args, list)):
        definition["command"], definition["args"] = words[0], [*words[1:], *(args or ())]
    if isinstance(args := definition.get("args"), list):
        definition["args"] = [_as_text(part) for part in args]
    for key in ("env", "headers"):
        if isinstance(definition.get(key), dict):
            definition[key] = {
                name: _as_text(part) for name, part in definition[key].items() if part is not None
            }
    if ours.narrowing:
        definition["enabled"] = False
    folder = _folder_for(found, definition)
    return (definition | {"cwd": folder} if folder else definition), ours.left, ours.narrowing


def _as_text(value: Any) -> Any:
    """Return a number or a switch as the text that a program gets; YAML and VS Code allow them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> Definition | None:
    """Return both definitions as one if they are the same server; None if they are not.

    It may use what both may use.
    """
    if _identity(one) != _identity(other):
        return None
    whole = dict(one)
    for key in ("env", "headers"):
        both = one.get(key) or {}, other.get(key) or {}
        if not all(isinstance(part, dict) for part in both):
            return None
        mine, theirs = both
        if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
            return None
        if mine or theirs:
            whole[key] = {**mine, **theirs}
    limits: Definition = {}
    for key in ("allow", "deny", "confirm"):
        whole.pop(key, None)
        for part in (one, other):
            if isinstance(part.get(key), list):
                narrow(limits, key, part[key])
    return whole | limits


def _is_there(written: Mapping[str, Any], found: Mapping[str, Any], resolved: Callable[[str], str]) -> bool:
    """Return whether the file has that server: as found, or with secrets kept and inputs answered."""
    if joined(written, found) is not None:
        return True
    mine, theirs = each_text(written, resolved), each_text(found, resolved)
    if not _agree(_identity(mine), _identity(theirs)):
        return False
    for key in ("env", "headers"):
        one, other = mine.get(key) or {}, theirs.get(key) or {}
        if not isinstance(one, dict) or not isinstance(other, dict):
            return False
        if not all(agrees(one[name], other[name]) for name in one.keys() & other.keys()):
            return False
    return True


def _agree(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(_agree, mine, theirs))
    return agrees(mine, theirs)


def is_tabane(written: Mapping[str, Any]) -> bool:
    """Return whether a definition is this hub: importing it would make the hub call itself."""
    definition = our_definition(written.items()).values
    if is_hub(_url(definition)):
        return True
    args = definition.get("args")
    words = [definition.get("command"), *(args if isinstance(args, list) else ())]
    plain = [word for word in words if isinstance(word, str)]
    at = next((index for index, word in enumerate(plain) if _TABANE.fullmatch(word)), None)
    return at is not None and "mcp" in plain[at + 1 :]


def is_off(definition: Mapping[str, Any]) -> bool:
    """Return whether a definition with our keys is switched off."""
    return definition.get("enabled") is False or definition.get("disabled") is True


def _folder_for(found: ImportCandidate, definition: Definition) -> str | None:
    if found.folder is None or not definition.get("command"):
        return None
    given = definition.get("cwd")
    if isinstance(given, str):
        return given if given.startswith(("~", "${")) else os.path.normpath(found.folder / given)
    args = definition.get("args")
    words = [definition["command"], *(args if isinstance(args, list) else ())]
    relative = (word for word in words if isinstance(word, str) and word and not os.path.isabs(word))
    return str(found.folder) if any(os.path.exists(found.folder / word) for word in relative) else None


def _identity(definition: Mapping[str, Any]) -> tuple[Any, ...]:
    url = _url(definition)
    args = definition.get("args") or []
    cwd = definition.get("cwd") or None
    return definition.get("command") or None, args, url.rstrip("/") or None, cwd


def _url(definition: Mapping[str, Any]) -> str:
    return str(definition.get("url") or "")


def _name_part(text: str) -> str:
    """Return a text in a form that fits into a server's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "2"


_TABANE = re.compile(r"(?:.*[/\\])?tabane(?:\.exe)?(?:[@=~<>!].*)?")
