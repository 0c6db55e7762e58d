"""`tabane install` and `tabane uninstall`: the entry that starts this Tabane, in assistants' files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from tabane.cli.operation_command import Column, print_rows
from tabane.cli.options import client_names, combined, dry_run_option, json_option, mode_option, option
from tabane.cli.output import FAILED, Command, Terminal, described, emit, examples
from tabane.cli.remote_hub import RemoteOptions, remote_options
from tabane.errors import BadArguments, ConfigurationError, TabaneError, UnknownName
from tabane.hub.local.endpoint import absolute, home_of
from tabane.hub.servers.recorded_environment import record_environment
from tabane.messages import Message, filled, say
from tabane.servers.assistants import installation
from tabane.servers.assistants.formats import Entry, definition, mode_of
from tabane.servers.assistants.installation import InstallChange, TabaneCommand, launcher, present
from tabane.servers.assistants.restoration import Backups
from tabane.servers.assistants.table import (
    CLIENTS,
    Client,
    ClientFile,
    ServersPlace,
    UserMachine,
    client_named,
)
from tabane.settings.files import home_folder, private_folder
from tabane.text.nearest_names import nearest

_HANDED_DOWN = ("home", "config", "servers")


class AssistantSetup(Struct, frozen=True):
    """An assistant and its configuration file on this machine; ``project`` is the folder whose file it is."""

    client: Client
    file: ClientFile
    project: Path | None = None

    @classmethod
    def of(cls, name: str, project: Path | None = None) -> AssistantSetup:
        """Return the assistant of that name.

        Raises UnknownName that lists the known ones, and ConfigurationError if it has no such file.
        """
        client = known_client(name)
        if client.by_hand is not None:
            raise ConfigurationError(
                say(
                    "{title} has no file that Tabane can write. {instruction} Then paste the output of: "
                    "tabane install {name} --print",
                    title=client.title,
                    instruction=client.by_hand,
                    name=name,
                )
            )
        file = client.project_file(project) if project else client.user_file(machine())
        if file is None:
            raise ConfigurationError(
                say(
                    "{title} has no file for the servers of a project. Leave out --project.",
                    title=client.title,
                )
            )
        return cls(client, file, project)

    def check_present(self) -> None:
        """Raise ConfigurationError if the assistant does not seem to be installed."""

        here = machine()
        if not present(self.client, here):
            path = self.file.path
            raise ConfigurationError(
                say(
                    "{title} does not seem to be installed: {folder} does not exist. To write its file "
                    "anyway, use --force.",
                    title=self.client.title,
                    folder=path if path.parent == here.home or path.parent.exists() else path.parent,
                )
            )


def known_client(name: str) -> Client:
    """Return the client of that name. Raises UnknownName."""
    client = client_named(name)
    if client is None:
        known = [client.name for client in CLIENTS]
        raise UnknownName(
            say(
                "Tabane does not know the assistant {name}. It knows {known}; for any other, add "
                "the output of tabane install --print to its configuration.",
                name=name,
                known=", ".join(known),
            ),
            nearest(name, known),
        )
    return client


def setups(project: Path | None = None, *, found_only: bool = True) -> Iterator[AssistantSetup]:
    """Yield the assistants that seem to be installed and have a file that can be written, or all of these."""

    here = machine()
    for client in CLIENTS:
        file = client.project_file(project) if project else client.user_file(here)
        if file is not None and (not found_only or present(client, here)):
            yield AssistantSetup(client, file, project)


def machine() -> UserMachine:
    """Return the platform, home and environment of this user."""
    return UserMachine(sys.platform, Path(home_folder(os.environ)), os.environ)


def entry_of(
    client: Client | None,
    place: ServersPlace | None,
    name: str,
    mode: str | None,
    *,
    shared: bool,
    url: str | None = None,
) -> Entry:
    """Return the entry that starts this Tabane, in the mode that suits the client unless one is given.

    A file that is ``shared`` with others names the command only: theirs is in another folder. With ``url``,
    the entry connects to a hub on another machine.
    """

    mode = mode or (client.mode if client else None)
    return tabane_command(shared=shared, url=url).entry(place, name, mode)


def tabane_command(*, shared: bool = False, url: str | None = None) -> TabaneCommand:
    """Return the command of entries, with the hub at a URL or the places that this environment sets.

    A program that starts it may lack that environment. For a ``shared`` file: see :func:`entry_of`.
    """
    elsewhere = ("--url", url) if url else ()
    if shared:
        return TabaneCommand(("tabane",), elsewhere)
    # the home has the key for the URL
    places = _places(("home",) if url else _HANDED_DOWN)
    return TabaneCommand(tuple(launcher(os.environ)), (*elsewhere, *places))


def _places(names: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        given = os.environ.get(f"TABANE_{name.upper()}")
        found += [f"--{name}", absolute(given, os.environ)] if given else []
    return tuple(found)


def install_result(setup: AssistantSetup, change: InstallChange, dry: bool) -> dict[str, Any]:
    return {
        "client": setup.client.name,
        "path": str(setup.file.path),
        "scope": setup.file.scope,
        "status": change.status,
        "dry_run": dry,
        "backup": str(change.backup) if change.backup else None,
        "other_servers": change.others,
    }


_INSTALLED = {
    "installed": say("{title} now starts Tabane: {path}"),
    "updated": say("Tabane's entry in {title} was updated: {path}"),
    "unchanged": say("Tabane is already set up in {title}: {path}"),
}
_WOULD_INSTALL = _INSTALLED | {
    "installed": say("Tabane would be added to {path} of {title}:"),
    "updated": say("Tabane's entry in {path} of {title} would be updated:"),
}
_UNINSTALLED = {
    "absent": say("Tabane is not set up in {title}: {path}"),
    "removed": say("Tabane was removed from {title}: {path}"),
}
_WOULD_UNINSTALL = _UNINSTALLED | {"removed": say("Tabane would be removed from {path} of {title}.")}


def tell_installed(
    terminal: Terminal, setup: AssistantSetup, change: InstallChange, dry: bool, lines: str
) -> None:
    changed = change.status != "unchanged"
    terminal.say(_outcome(setup, (_WOULD_INSTALL if dry else _INSTALLED)[change.status]))
    if dry and changed:
        emit(lines, nl=False)
    if not dry and changed:
        _tell_rest(terminal, setup, change)
        if setup.project is not None:
            terminal.advise(
                say(
                    "The entry names the command tabane without its folder, since others share this file: "
                    "tabane must be on their PATH."
                )
            )
    if change.others:
        terminal.advise(
            say(
                "{count} other {count:server is|servers are} in {paths}. Move them into Tabane with: tabane "
                "setup. Otherwise they run twice and fill the assistant's context.",
                count=change.others,
                paths=setup.file.path,
            )
        )


def _outcome(setup: AssistantSetup, outcome: Message) -> Message:
    return filled(outcome, {"title": setup.client.title, "path": setup.file.path})


def _tell_rest(terminal: Terminal, setup: AssistantSetup, change: InstallChange) -> None:
    if change.backup:
        terminal.advise(say("What was there before is saved as {paths}.", paths=change.backup))
    terminal.advise(say("It takes effect at the next start of {titles}.", titles=setup.client.title))


_shared = combined(
    (
        option(
            "--project",
            is_flag=False,
            flag_value=".",
            metavar="[FOLDER]",
            help=say("Use the file that a project shares instead of your own. Without FOLDER: this folder."),
        ),
        option("--all", "everywhere", is_flag=True, help=say("Do it for every assistant that is found.")),
        option("--name", default="tabane", show_default=True, help=say("Name of Tabane's entry there.")),
        dry_run_option,
        json_option,
    )
)


@click.command(
    "install",
    cls=Command,
    help=say(
        "Add Tabane to the configuration file of an assistant. tabane setup does it for all that are found, "
        "and moves their servers. Assistants that search tools themselves get all tools (mode full); the "
        "others get a few tools that find the rest. The rest of the file is preserved, and the previous "
        "version is saved as a backup."
    ),
    epilog=examples(
        "tabane install claude-desktop",
        "tabane install codex --mode light",
        "tabane install cursor --project",
        "tabane install --list",
        "tabane install zed --print",
        "tabane install cursor --url https://hub.local:8765 --ca ca.pem",
    ),
)
@click.argument("client", metavar="[CLIENT]", required=False, shell_complete=client_names)
@mode_option()
@option(
    "--print",
    "only_print",
    is_flag=True,
    help=say("Print what to write into the file of this client, or of any other."),
)
@option("--list", "only_list", is_flag=True, help=say("List the assistants that Tabane knows."))
@option(
    "--force",
    is_flag=True,
    help=say("Write it even if the assistant does not seem to be installed or the name is already used."),
)
@remote_options
@_shared
@click.pass_obj
def install(
    terminal: Terminal,
    client: str | None,
    mode: str | None,
    only_print: bool,
    only_list: bool,
    force: bool,
    remote: RemoteOptions,
    project: str | None,
    everywhere: bool,
    name: str,
    dry_run: bool,
) -> None:
    client, folder = _told_apart(client, project)
    if only_list:
        rows = list(_rows(folder, name))
        if not terminal.show_json(rows):
            print_rows(terminal, _LISTED, rows, whole=(0,))
        return
    url = remote.checked_url()
    if only_print:
        _print(terminal, client, folder, name, mode, url)
        return
    if client is not None and not everywhere:
        setup = AssistantSetup.of(client, folder)
        if not force and folder is None:
            setup.check_present()
        remote.keep(terminal, force=force, dry=dry_run)
        terminal.show_json(_installation(terminal, setup, name, mode, force=force, dry=dry_run, url=url))
        return
    found = list(setups(folder))
    if not everywhere:
        raise BadArguments(_name_one([setup.client.name for setup in found]), "client")
    remote.keep(terminal, force=force, dry=dry_run)
    none = say("None of the assistants that Tabane knows was found here.")
    _each(
        terminal,
        found,
        none,
        lambda one: _installation(terminal, one, name, mode, force=force, dry=dry_run, url=url),
    )


@click.command(
    "uninstall",
    cls=Command,
    help=say("Remove Tabane from an assistant's configuration file. The rest of the file is preserved."),
    epilog=examples("tabane uninstall cursor", "tabane uninstall claude-desktop --dry-run"),
)
@click.argument("client", metavar="[CLIENT]", required=False, shell_complete=client_names)
@_shared
@click.pass_obj
def uninstall(
    terminal: Terminal, client: str | None, project: str | None, everywhere: bool, name: str, dry_run: bool
) -> None:
    client, folder = _told_apart(client, project)
    if client is None and not everywhere:
        raise BadArguments(_name_one(), "client")
    if client is not None and not everywhere:
        terminal.show_json(_removal(terminal, AssistantSetup.of(client, folder), name, dry=dry_run))
        return
    found = [setup for setup in setups(folder, found_only=False) if _has(setup, name)]
    none = say("Tabane is not set up in any assistant.")
    _each(terminal, found, none, lambda setup: _removal(terminal, setup, name, dry=dry_run))


# -- inside --------------------------------------------------------------------------------------


def _told_apart(client: str | None, project: str | None) -> tuple[str | None, Path | None]:
    """Return the client and the project's folder: after ``--project``, a client's name is no folder."""
    if project is None:
        return client, None
    if client is None and client_named(project) is not None and not os.path.isdir(project):
        client, project = project, "."
    folder = Path(os.path.abspath(os.path.expanduser(project)))
    if not folder.is_dir():
        raise BadArguments(say("{path} is not a folder.", path=folder), "--project")
    if os.path.realpath(folder) == os.path.realpath(machine().home):
        raise BadArguments(
            say("{path} is your home. Leave out --project to write your own file.", path=folder), "--project"
        )
    return client, folder


def _installation(
    terminal: Terminal,
    setup: AssistantSetup,
    name: str,
    mode: str | None,
    *,
    force: bool,
    dry: bool,
    url: str | None = None,
) -> dict[str, Any]:
    """Add the entry to a file, print the message about it without ``--json``, and return the result."""
    place = setup.file.place
    wanted = entry_of(setup.client, place, name, mode, shared=setup.project is not None, url=url)
    change = installation.install(setup.file, name, wanted, force=force, dry=dry)
    if not dry and url is None:
        keep_environment()
    nested: Any = {name: wanted}
    for key in reversed(place.key):
        nested = {key: nested}
    if not terminal.json:
        tell_installed(terminal, setup, change, dry, installation.snippet(place, name, wanted))
    return install_result(setup, change, dry) | {"entry": nested}


def keep_environment() -> None:
    """Record the environment for servers of a hub that an assistant starts, if that is possible."""
    home = home_of(os.environ)
    with suppress(ConfigurationError, OSError):  # `tabane doctor` also checks that servers are found
        private_folder(home)
        record_environment(home, os.environ)


def _removal(terminal: Terminal, setup: AssistantSetup, name: str, *, dry: bool) -> dict[str, Any]:
    """Remove the entry from a file, print the message about it without ``--json``, and return the result."""
    stop = setup.project or machine().home
    change = installation.uninstall(setup.file, name, stop=stop, dry=dry)
    if not terminal.json:
        terminal.say(_outcome(setup, (_WOULD_UNINSTALL if dry else _UNINSTALLED)[change.status]))
        if not dry and change.status == "removed":
            _tell_rest(terminal, setup, change)
            moved = Backups(home_of(os.environ)).all([setup.client.name]) if setup.project is None else ()
            if any(backup.moved for backup in moved):
                terminal.note(
                    say(
                        "The servers that setup moved into Tabane are not in this file. To put them back: "
                        "tabane setup --undo {name}",
                        name=setup.client.name,
                    )
                )
    return install_result(setup, change, dry)


def _each(
    terminal: Terminal,
    found: Sequence[AssistantSetup],
    none: Message,
    work: Callable[[AssistantSetup], dict[str, Any]],
) -> None:
    """Do the same for several assistants. One that fails does not stop the others. ``none`` is said if there
    are none.
    """
    results, failed = [], False
    for setup in found:
        try:
            results.append(work(setup))
        except TabaneError as error:
            failed = True
            results.append({"client": setup.client.name, "status": "failed", **described(error)})
            if not terminal.json:
                terminal.warn(error)
    if terminal.json:
        terminal.print_json(results)
    elif not found:
        terminal.note(none)
    if failed:
        click.get_current_context().exit(FAILED)


def _has(setup: AssistantSetup, name: str) -> bool:
    """Return whether an uninstallation would change the file, or fail."""

    try:
        return name in installation.installed(setup.file)
    except TabaneError:
        return True


def _print(
    terminal: Terminal,
    client: str | None,
    folder: Path | None,
    name: str,
    mode: str | None,
    url: str | None,
) -> None:
    """Print what to write into a client's file, in its own format."""

    known = client_named(client) if client else None
    place = None
    if known is not None:
        place = known.project if folder is not None else known.user
    wanted = entry_of(known, place, name, mode, shared=folder is not None, url=url)
    lines = installation.snippet(place, name, wanted)
    if terminal.json and place is not None and place.form in ("toml", "yaml"):
        terminal.print_json({"client": client, "format": place.form, "text": lines})
        return
    emit(lines, nl=False)
    if known is not None and known.by_hand is not None:
        terminal.note(known.by_hand)


_LISTED = (
    Column(say("name"), "name"),
    Column(say("assistant"), "title"),
    Column(say("found"), lambda row: say("yes") if row["found"] else ""),
    Column(say("set up"), lambda row: say("yes") if row["installed"] else ""),
    Column(say("mode"), "mode"),
    Column(say("file"), lambda row: row["path"] or say("by hand")),
)


def _rows(folder: Path | None, name: str) -> Iterator[dict[str, Any]]:

    here = machine()
    for client in CLIENTS:
        file = client.project_file(folder) if folder else client.user_file(here)
        there: Any = None
        if file is not None:
            with suppress(ConfigurationError):
                there = definition(file.place.shape, installation.installed(file).get(name))
        elif folder is not None:
            continue
        yield {
            "name": client.name,
            "title": client.title,
            "found": installation.present(client, here),
            "installed": there is not None,
            "mode": (mode_of(there) if there else None) or client.mode,
            "scope": "project" if folder else "user",
            "path": str(file.path) if file else None,
            "format": file.place.form if file else None,
            "key": list(file.place.key) if file else None,
            "transport": client.transport,
            "platforms": list(client.platforms),
            "why": client.why,
            "source": client.source,
            "looked_up": client.looked_up,
            "remark": client.remark or None,
        }


def _name_one(found: Sequence[str] = ()) -> Message:
    if found:
        return say(
            "Name an assistant. Found here: {found}. To set up all of these with their servers, run: tabane "
            "setup. To add only Tabane to them, use --all.",
            found=", ".join(found),
        )
    return say(
        "Name an assistant: {known}. For any other, add the output of tabane install "
        "--print to its configuration.",
        known=", ".join(client.name for client in CLIENTS),
    )
