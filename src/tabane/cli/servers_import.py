"""`tabane servers import`: the servers of other programs, previewed and merged into the servers file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import structs

from tabane.cli.install import machine
from tabane.cli.options import agreed_option, file_option, option, with_json
from tabane.cli.output import Command, Terminal, examples, lang, text
from tabane.cli.passphrase import check_passphrase
from tabane.cli.secrets import (
    accepted,
    naming_of,
    plain_option,
    report_kept,
    store_of,
)
from tabane.cli.servers_add import AddedServers, start_added
from tabane.cli.servers_file import ServersFile, ServersFileContent, files_changed
from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.assistants.importing import (
    ClientInput,
    ImportedServer,
    ImportSource,
    ServerImportPlan,
    input_ids,
    input_variable,
    plan,
    source_of,
    sources,
    with_inputs,
)
from tabane.servers.assistants.table import CLIENTS
from tabane.servers.configuration import configuration_of, why_disabled, written_definitions
from tabane.servers.editing import add_servers, check_addable
from tabane.servers.secret_store import SecretMoves, SecretNaming, keeping, moves_of, with_values
from tabane.servers.variables import escaped
from tabane.text.secret_values import looks_secret


class MissingInput(msgspec.Struct, frozen=True):
    """An input that nobody could be asked for: the servers that need it, and the name of its variable."""

    wanted: ClientInput
    variable: str
    servers: list[str] = msgspec.field(default_factory=list)


class InputAnswers:
    """Answers inputs, each once. ``values`` are the secrets among the answers, by name of the variable."""

    def __init__(self, terminal: Terminal, naming: SecretNaming, *, plain: bool) -> None:
        self._terminal, self._naming, self._plain = terminal, naming, plain
        self._texts: dict[ClientInput, str] = {}
        self._missing: dict[ClientInput, MissingInput] = {}
        self.values: dict[str, str] = {}

    @property
    def missing(self) -> tuple[MissingInput, ...]:
        """The inputs that have no answer."""
        return tuple(self._missing.values())

    def answered(
        self, taken: Sequence[ImportedServer], definitions: Mapping[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Return the definitions of these servers with the answers, or the variables of their secrets."""
        found: dict[str, dict[str, Any]] = {}
        for server in taken:
            definition = definitions[server.name]
            texts = {id: self._text(each, server) for id, each in server.inputs.items()}
            found[server.name] = with_inputs(definition, texts.__getitem__) if texts else definition
        return found

    def _text(self, wanted: ClientInput, server: ImportedServer) -> str:
        if wanted not in self._texts:
            self._texts[wanted] = self._first_text(wanted, server)
        if wanted in self._missing:
            self._missing[wanted].servers.append(server.name)
        return self._texts[wanted]

    def _first_text(self, wanted: ClientInput, server: ImportedServer) -> str:
        name = input_variable(wanted, server.name, server.definition)
        answer = self._asked(wanted, server.name) if self._terminal.asks else self._default(wanted)
        if answer is None:
            name = self._naming.name_for(name, server.name, None)
            self._missing[wanted] = MissingInput(wanted, name)
            return f"${{{name}}}"
        looks = not self._plain and (looks_secret(name, answer) or looks_secret(wanted.id, answer))
        if not answer or not (wanted.password or looks):
            return escaped(answer)
        name = self._naming.name_for(name, server.name, answer)
        self.values[name] = answer
        return f"${{{name}}}"

    def _default(self, wanted: ClientInput) -> str | None:
        """Return the answer of a file to its own question. A password or a command has none."""
        if wanted.default is None or wanted.password or wanted.type == "command":
            return None
        self._terminal.note(say("{title}: the default of the file is used.", title=wanted.title))
        return wanted.default

    def _asked(self, wanted: ClientInput, server: str) -> str:
        question = say("{title} (for {server!n})", title=wanted.title, server=server)
        if wanted.type == "command":
            self._terminal.note(
                say(
                    "{server!n} takes {id} from the VS Code command {command}, which only VS Code can run. "
                    "Enter the value.",
                    server=server,
                    id=wanted.id,
                    command=wanted.command or "?",
                )
            )
        if wanted.type == "pickString" and wanted.options:
            for number, (label, value) in enumerate(wanted.options, 1):
                shown = label if label == value else f"{label}: {value}"
                self._terminal.note(f"  {number}. {shown}")
            choices = {str(number): value for number, (_, value) in enumerate(wanted.options, 1)}
            choices |= dict(wanted.options)
            choices |= {value: value for _, value in wanted.options}
            values = [value for _, value in wanted.options]
            default = wanted.default if wanted.default in values else None
            while True:
                answer = self._terminal.ask(question, default=default).strip()
                if answer in choices:
                    return choices[answer]
                self._terminal.note(say("Enter a number from 1 to {count}.", count=len(values)))
        return self._terminal.ask(
            question,
            default=wanted.default or "",
            show_default=bool(wanted.default) and not wanted.password,
            hide_input=wanted.password,
        )


def report_missing(terminal: Terminal, missing: Sequence[MissingInput]) -> None:
    """Say which inputs have no value yet, and the command that sets each."""
    for each in missing:
        terminal.note(
            say(
                "{servers}: a value is missing for {title}. Set it with: tabane secrets set {variable}",
                servers=", ".join(each.servers),
                title=each.wanted.title,
                variable=each.variable,
            )
        )


_NAMES = [client.name for client in CLIENTS]


@click.command(
    "import",
    cls=Command,
    help=say(
        "Import the servers of other programs, such as Claude Code, Cursor, VS Code, Codex or goose, from "
        "your user settings and from the current folder. tabane install --list names them all. The servers "
        "are shown first, with secrets hidden. Once they are imported, each is started, and what it lists is "
        "scanned for attacks. Keys and passwords in them are kept as secrets, and what VS "
        "Code would ask for is asked for. The files of those programs are not changed."
    ),
    epilog=examples(
        "tabane servers import",
        "tabane servers import --dry-run",
        "tabane servers import cursor vscode --yes",
        "tabane servers import --from ./mcp.json",
    ),
)
@click.argument("clients", metavar="[CLIENT]…", nargs=-1, type=click.Choice(_NAMES))
@option(
    "--from",
    "given",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=say("Import the servers of this file."),
)
@option("--dry-run", is_flag=True, help=say("Show what would be imported, without changing anything."))
@agreed_option
@plain_option
@option("--no-try", "untried", is_flag=True, help=say("Do not start them to scan what they list."))
@option(
    "--force",
    "forced",
    is_flag=True,
    help=say("Also import servers whose tools are built into Tabane, or that only some projects limit."),
)
@file_option
@with_json
def import_(
    terminal: Terminal,
    clients: Sequence[str],
    given: Path | None,
    dry_run: bool,
    agreed: bool,
    plain: bool,
    untried: bool,
    forced: bool,
    file: str | None,
) -> None:
    place = ServersFile.found(terminal, file)
    store = store_of(place.settings)
    with terminal.working(say("Looking for servers")):
        if given:
            found_sources = [source_of(Path(os.path.abspath(given)))]
            if problem := found_sources[0].problem:
                raise ConfigurationError(problem)
        else:
            known = [client for client in CLIENTS if not clients or client.name in clients]
            found_sources = list(sources(known, machine(), Path.cwd()))
        found = [server for source in found_sources for server in source.servers]
        ours = written_definitions(place.path)
        resolved = partial(with_values, values=store.values())
        planned = plan(found, ours, forced=forced, resolved=resolved)
    naming = naming_of(place, planned.definitions)
    moves = SecretMoves(planned.definitions) if plain else moves_of(planned.definitions, naming)
    preview = ImportPreview(place, found_sources, planned, moves.definitions, moves.values)
    preview.show(terminal)
    if planned.taken and not dry_run:
        # report a file that cannot be changed before asking
        check_addable(place.path, moves.definitions)
    if (
        not planned.taken
        or dry_run
        or not terminal.confirmed(
            say("Add these servers to {path}?", path=place.path),
            agreed,
            say("Nothing was changed. To import these servers, add --yes."),
        )
    ):
        if not terminal.show_json(preview.result("unchanged")):
            preview.tell(terminal, done=False)
        return
    check_passphrase(terminal, place.settings.home)
    if not accepted(terminal, moves, place.settings, agreed=agreed):
        moves = SecretMoves(planned.definitions)
    answers = InputAnswers(terminal, naming, plain=plain)
    wanted = answers.answered(planned.taken, moves.definitions)
    values = {**moves.values, **answers.values}
    with files_changed(terminal), keeping(store, values):
        add_servers(place.path, wanted)
    preview = ImportPreview(place, found_sources, planned, wanted, values)
    if not terminal.json:
        preview.tell(terminal, done=True)
    report_kept(terminal, place.settings, values, plain=bool(moves.moves))
    report_missing(terminal, answers.missing)
    off = {name for name, each in wanted.items() if each.get("enabled") is False or each.get("disabled")}
    on = [name for name in wanted if name not in off and not untried]
    started = start_added(terminal, place, on) if on else AddedServers()
    terminal.show_json(preview.result("imported") | structs.asdict(started))
    started.tell(terminal)


@dataclass(frozen=True)
class ImportPreview:
    """The effect of an import, shown to a user or a program without secrets.

    ``definitions`` are those for the servers file, by name. ``secrets`` are what is kept for them.
    """

    place: ServersFile
    sources: Sequence[ImportSource]
    plan: ServerImportPlan
    definitions: Mapping[str, dict[str, Any]] = field(repr=False)
    secrets: Mapping[str, str] = field(repr=False)

    def show(self, terminal: Terminal) -> None:
        """Print the files and the servers to import. A program gets nothing on stdout."""
        for source in self.sources:
            if source.problem and not terminal.json:
                terminal.note(say("{title}: {problem}", title=source.title, problem=source.problem))
        if terminal.json:
            return
        rows = [(row["name"], row["from"], row["command"], _remark(row)) for row in self._rows()]
        skipped = [
            (part.name, [part.title], None, text(say("not imported: {why}", why=part.why)))
            for part in self.plan.skipped
        ]
        if rows or skipped:
            headers = [say("name"), say("from"), say("command"), say("remark")]
            terminal.table(headers, [*rows, *skipped])

    def tell(self, terminal: Terminal, done: bool) -> None:
        """Print the result of the import."""
        names = ", ".join(self.plan.definitions)
        if done:
            terminal.say(say("Added to {path}: {names}.", path=self.place.path, names=names))
        elif names:
            terminal.say(say("Nothing was changed."))
        elif self.plan.skipped:
            terminal.say(say("There are no new servers to import."))
        else:
            terminal.say(
                say(
                    "No servers were found. Give a file with --from FILE, or add a server with: tabane "
                    "servers add"
                )
            )

    def result(self, status: str) -> dict[str, Any]:
        """Return the result for ``--json``."""
        return {
            "path": str(self.place.path),
            "status": status,
            "servers": self._rows(),
            "secrets": list(self.secrets),
            "skipped": [
                {"name": part.name, "from": part.title, "why": part.why.render(lang())}
                for part in self.plan.skipped
            ],
            "files": [
                {
                    "client": source.title,
                    "path": str(source.path),
                    "servers": len(source.servers),
                    "problem": source.problem.render(lang()) if source.problem else None,
                }
                for source in self.sources
            ],
        }

    def _rows(self) -> list[dict[str, Any]]:
        wanted = self.definitions
        variables = self.place.variables().with_secrets(self.secrets)
        # What an input is answered with is not known yet, and no fault of the definition.
        filled = with_inputs(dict(wanted), lambda id: "?")
        why = {
            server.name: why_disabled(server)
            for server in configuration_of(self.place.path, filled, variables).servers
        }
        book = ServersFileContent(configuration_of(self.place.path, wanted, variables), wanted, None)
        return [self._row(book, taken, why.get(taken.name)) for taken in self.plan.taken]

    def _row(self, book: ServersFileContent, taken: ImportedServer, why: Message | None) -> dict[str, Any]:
        return {
            "name": taken.name,
            "from": list(taken.titles),
            "command": book.row(taken.name)["command"],
            "definition": book.definition(taken.name, reveal=False),
            "disabled": why.render(lang()) if why else None,
            "left_out": list(taken.left),
            "narrowing": list(taken.narrowing),
            "inputs": [taken.inputs[id].title for id in input_ids(self.definitions[taken.name])],
        }


def _remark(row: dict[str, Any]) -> str:
    parts = []
    if row["narrowing"]:
        what = say(
            "imported, but switched off, because Tabane cannot translate what {keys} allows or forbids. "
            'Write that as "allow" or "deny", then run: tabane servers enable {server!c}',
            keys=", ".join(row["narrowing"]),
            server=row["name"],
        )
        parts.append(text(what))
    elif row["disabled"]:
        parts.append(text(say("does not start: {why}", why=row["disabled"])))
    if row["inputs"]:
        parts.append(text(say("asks for: {inputs}", inputs=", ".join(row["inputs"]))))
    if row["left_out"]:
        parts.append(text(say("not imported: {keys}", keys=", ".join(row["left_out"]))))
    return " ".join(parts)
