"""`tabane projects`: projects whose MCP servers the user has trusted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tabane.cli.options import agreed_option, with_json
from tabane.cli.output import Group, TableState, Terminal, examples
from tabane.cli.passphrase import check_passphrase
from tabane.cli.servers_file import files_changed
from tabane.cli.terminal_text import clean
from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.messages import Message, say
from tabane.servers.projects.project_folders import PROJECT_FILES, project_of
from tabane.servers.projects.project_servers import (
    ProjectFile,
    ProjectTrust,
    TrustedFile,
    definitions_in,
    described,
    project_files,
    read_project_file,
    visible,
)
from tabane.settings import load_settings
from tabane.settings.files import home_folder


@click.group(
    "projects",
    cls=Group,
    help=say(
        "Trust the MCP servers of a project (.mcp.json, .cursor/mcp.json, .vscode/mcp.json). They are used "
        "only by assistants that work in its folder."
    ),
)
def projects() -> None: ...


@projects.command(
    "list",
    help=say("List the projects that are trusted, and those that assistants work in and that are not."),
    epilog=examples("tabane projects list", "tabane projects list --json"),
)
@with_json
def list_(terminal: Terminal) -> None:
    rows = [_row(each) for each in _trust(terminal).files()]
    hub = terminal.running_hub()
    offered = hub.call("hub_status").get("projects_offered", []) if hub else []
    known = {row["folder"] for row in rows}
    rows += [
        {
            "folder": offer["folder"],
            "file": None,
            "servers": offer["servers"],
            "problem": offer["problem"],
            "state": "offered",
        }
        for offer in offered
        if offer["folder"] not in known
    ]
    if terminal.show_json({"results": rows}):
        return
    if not rows:
        terminal.note(
            say("No project is trusted. Trust the one in the current folder: tabane projects trust")
        )
    terminal.table(
        [say("folder"), say("file"), say("state"), say("servers"), say("problem")],
        [
            (visible(row["folder"]), row["file"], _STATES[row["state"]], row["servers"], row["problem"])
            for row in rows
        ],
    )


@projects.command(
    "trust",
    help=say(
        "Show which servers the files of a project would run, ask, and then use them. FOLDER is the current "
        "project if it is not given. If a file changes, its servers stop until you trust it again."
    ),
    epilog=examples("tabane projects trust", "tabane projects trust ~/projects/shop"),
)
@click.argument("folder", required=False, type=click.Path())
@agreed_option
@with_json
def trust(terminal: Terminal, folder: str | None, agreed: bool) -> None:
    store = _trust(terminal)
    place = _project(folder)
    files = list(_usable(terminal, place))
    known = {each.key: each for each in store.files()}
    new = []
    for file in files:
        trusted = known.get((file.folder, file.name))
        if trusted is None or trusted.digest != file.digest:
            new.append(file)
    if not files:
        raise ConfigurationError(
            say(
                "{folder} defines no MCP servers. These files may: {files}",
                folder=visible(place),
                files=", ".join(PROJECT_FILES),
            )
        )
    if not terminal.json or not agreed:
        for file in new:
            _show(terminal, file, known.get((file.folder, file.name)))
    if new and not terminal.confirmed(
        say("Trust these servers of {folder}?", folder=visible(place)),
        agreed,
        say("Nothing was trusted, because nobody can be asked here. To trust these servers, add --yes."),
        default=False,
    ):
        return
    if new:
        check_passphrase(terminal, load_settings({"config": terminal.config}, os.environ).home)
    with files_changed(terminal):
        store.add(new)
    servers = sum(len(definitions_in(file)) for file in files)
    result = {
        "folder": place,
        "servers": servers,
        "status": "trusted",
        "files": [file.name for file in files],
    }
    done = say(
        "{folder} is trusted. {count} {count:server is|servers are} used by assistants that work there.",
        folder=visible(place),
        count=servers,
    )
    terminal.show(result, done)


def _trusted_folders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a trusted folder for the shell."""
    files = ProjectTrust(load_settings({}, os.environ).home).files()
    return [
        folder for folder in dict.fromkeys(each.folder for each in files) if folder.startswith(incomplete)
    ]


@projects.command(
    "forget",
    help=say(
        "Trust the files of a project no more. Its servers stop. FOLDER is the current project if it is not "
        "given."
    ),
    epilog=examples("tabane projects forget", "tabane projects forget ~/projects/shop"),
)
@click.argument("folder", required=False, type=click.Path(), shell_complete=_trusted_folders)
@with_json
def forget(terminal: Terminal, folder: str | None) -> None:
    store = _trust(terminal)
    places = _places(folder, [each.folder for each in store.files()])
    with files_changed(terminal):
        gone = [each for place in places for each in store.forget(place)]
        if not gone:
            raise UnknownName(
                say(
                    "{folder} is not trusted. List all trusted projects with: tabane projects list",
                    folder=visible(places[0]),
                )
            )
    terminal.show(
        {"folder": gone[0].folder, "status": "forgotten", "files": [each.name for each in gone]},
        say("{folder} is not trusted any more. Its servers stop.", folder=visible(gone[0].folder)),
    )


def _trust(terminal: Terminal) -> ProjectTrust:
    return ProjectTrust(load_settings({"config": terminal.config}, os.environ).home)


def _project(folder: str | None) -> str:
    """Return the folder of a project, without links. Raises BadArguments."""
    home = os.path.realpath(home_folder(os.environ))
    if folder is None:
        here = os.path.realpath(os.getcwd())
        return project_of(here, home) or here
    place = os.path.realpath(os.path.expanduser(folder))
    if not os.path.isdir(place):
        raise BadArguments(say("There is no folder {folder}.", folder=visible(place)), "folder")
    if os.path.join(home, "").startswith(os.path.join(place, "")):
        raise BadArguments(
            say(
                "{folder} contains your home folder, so it is no project. To use the servers of your own "
                "configuration files, run: tabane servers import",
                folder=visible(place),
            ),
            "folder",
        )
    return place


def _places(folder: str | None, trusted: Sequence[str]) -> list[str]:
    """Return the folders that may be meant. One that does not exist any more can be forgotten too."""
    if folder is not None:
        path = os.path.expanduser(folder)
        return list(dict.fromkeys((os.path.realpath(path), os.path.abspath(path))))
    here = Path(os.path.realpath(os.getcwd()))
    above = [str(place) for place in (here, *here.parents) if str(place) in trusted]
    return above[:1] or [str(here)]


def _usable(terminal: Terminal, folder: str) -> Iterator[ProjectFile]:
    """Yield the files of a project that define servers. Prints why others cannot be used."""
    for file in project_files(folder):
        try:
            if isinstance(file, ConfigurationError):
                raise file
            if definitions_in(file):
                yield file
        except ConfigurationError as error:
            terminal.warn(error)


def _show(terminal: Terminal, file: ProjectFile, before: TrustedFile | None) -> None:
    """Print what a file would run, and what has changed since it was trusted."""
    now = {name: tuple(described(value)) for name, value in definitions_in(file).items()}
    if before is None:
        terminal.note(say("{path} defines these servers:", path=visible(str(file.path))))
        for name, lines in now.items():
            _print(terminal, " ", name, lines)
        return
    terminal.note(say("{path} has changed since you trusted it:", path=visible(str(file.path))))
    for name, lines in now.items():
        old = before.servers.get(name)
        if old is None:
            _print(terminal, "+", name, lines)
        elif old != lines:
            _print(terminal, "-", name, old)
            _print(terminal, "+", name, lines)
    for name, lines in before.servers.items():
        if name not in now:
            _print(terminal, "-", name, lines)
    if now == dict(before.servers):
        terminal.note(
            say("The commands, URLs and names of variables are the same. Something else in the file differs.")
        )


def _print(terminal: Terminal, mark: str, name: str, lines: Iterable[str]) -> None:
    terminal.note(f"{mark} {visible(name)}")
    for line in lines:
        terminal.note(f"{mark}     {clean(line)}")


def _row(trusted: TrustedFile) -> dict[str, Any]:
    row = {"folder": trusted.folder, "file": trusted.name, "servers": len(trusted.servers), "problem": None}
    try:
        file = read_project_file(trusted.folder, trusted.name)
    except FileNotFoundError:
        return row | {"state": "missing"}
    except ConfigurationError as error:
        return row | {"state": "unusable", "problem": str(error)}
    return row | {"state": "trusted" if file.digest == trusted.digest else "changed"}


_STATES: dict[str, Message | TableState] = {
    "trusted": say("trusted"),
    "changed": say("changed, not trusted"),
    "missing": say("file missing"),
    "unusable": say("cannot be used"),
    "offered": say("not trusted"),
}
