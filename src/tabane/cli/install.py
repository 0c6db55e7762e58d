"""`tabane install` and `tabane uninstall`: Tabane in the files of assistants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.assistant_setup import AssistantSetup, entry_of, machine, setups
from tabane.cli.install_report import install_result, tell_installed, tell_uninstalled
from tabane.cli.options import combined, json_option, mode_option, option
from tabane.cli.output import FAILED, Command, Terminal, described, emit, examples
from tabane.errors import BadArguments, ConfigurationError, TabaneError
from tabane.messages import Message, say
from tabane.servers.assistants.table import CLIENTS, client_named

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(c.name, help=c.title) for c in CLIENTS if c.name.startswith(incomplete)]


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
        option("--dry-run", is_flag=True, help=say("Show what would be done, without changing anything.")),
        json_option,
    )
)


@click.command(
    "install",
    cls=Command,
    help=say(
        "Add Tabane to the configuration file of an assistant. Without a name, the assistants on this "
        "machine are found and offered. Assistants that search tools themselves get all tools (mode full); "
        "the others get a few tools that find the rest. The rest of the file is preserved, and the previous "
        "version is saved as a backup."
    ),
    epilog=examples(
        "tabane install",
        "tabane install claude-desktop",
        "tabane install codex --mode light",
        "tabane install cursor --project",
        "tabane install --list",
        "tabane install zed --print",
    ),
)
@click.argument("client", metavar="[CLIENT]", required=False, shell_complete=_names)
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
@_shared
@click.pass_obj
def install(
    terminal: Terminal,
    client: str | None,
    mode: str | None,
    only_print: bool,
    only_list: bool,
    force: bool,
    project: str | None,
    everywhere: bool,
    name: str,
    dry_run: bool,
) -> None:
    client, folder = _told_apart(client, project)
    if only_list:
        _list(terminal, folder, name)
        return
    if only_print:
        _print(terminal, client, folder, name, mode)
        return
    if client is not None and not everywhere:
        setup = AssistantSetup.of(client, folder)
        if not force and folder is None:
            setup.check_present()
        terminal.show(*_installation(terminal, setup, name, mode, force=force, dry=dry_run))
        return
    found: Sequence[AssistantSetup] | None = list(setups(folder))
    if not everywhere:
        found = _offered(terminal, found or [], name, mode, dry=dry_run)
    if found is not None:
        none = say("None of the assistants that Tabane knows was found here.")
        _each(
            terminal,
            found,
            none,
            lambda one: _installation(terminal, one, name, mode, force=force, dry=dry_run),
        )


@click.command(
    "uninstall",
    cls=Command,
    help=say("Remove Tabane from an assistant's configuration file. The rest of the file is preserved."),
    epilog=examples("tabane uninstall cursor", "tabane uninstall claude-desktop --dry-run"),
)
@click.argument("client", metavar="[CLIENT]", required=False, shell_complete=_names)
@_shared
@click.pass_obj
def uninstall(
    terminal: Terminal, client: str | None, project: str | None, everywhere: bool, name: str, dry_run: bool
) -> None:
    client, folder = _told_apart(client, project)
    if client is None and not everywhere:
        raise BadArguments(_name_one(), "client")
    if client is not None and not everywhere:
        terminal.show(*_removal(terminal, AssistantSetup.of(client, folder), name, dry=dry_run))
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


Done = tuple[dict[str, Any], Callable[[], None]]
"""The result of an installation, and the message about it."""


def _installation(
    terminal: Terminal, setup: AssistantSetup, name: str, mode: str | None, *, force: bool, dry: bool
) -> Done:
    from tabane.servers.assistants import installation

    place = setup.file.place
    wanted = entry_of(setup.client, place, name, mode, shared=setup.project is not None)
    change = installation.install(setup.file, name, wanted, force=force, dry=dry)
    if not dry:
        _record_environment()
    nested: Any = {name: wanted}
    for key in reversed(place.key):
        nested = {key: nested}
    lines = installation.snippet(place, name, wanted)
    return (
        install_result(setup, change, dry) | {"entry": nested},
        lambda: tell_installed(terminal, setup, change, dry, lines),
    )


def _removal(terminal: Terminal, setup: AssistantSetup, name: str, *, dry: bool) -> Done:
    from tabane.servers.assistants import installation

    stop = setup.project or machine().home
    change = installation.uninstall(setup.file, name, stop=stop, dry=dry)
    return install_result(setup, change, dry), lambda: tell_uninstalled(terminal, setup, change, dry)


def _each(
    terminal: Terminal, found: Sequence[AssistantSetup], none: Message, work: Callable[[AssistantSetup], Done]
) -> None:
    """Do the same for several assistants. One that fails does not stop the others. ``none`` is said if there
    are none.
    """
    results, failed = [], False
    for setup in found:
        try:
            result, tell = work(setup)
        except TabaneError as error:
            failed = True
            results.append({"client": setup.client.name, "status": "failed", **described(error)})
            if not terminal.json:
                terminal.warn(error)
            continue
        results.append(result)
        if not terminal.json:
            tell()
    if terminal.json:
        terminal.print_json(results)
    elif not found:
        terminal.note(none)
    if failed:
        click.get_current_context().exit(FAILED)


def _offered(
    terminal: Terminal, found: Sequence[AssistantSetup], name: str, mode: str | None, *, dry: bool
) -> list[AssistantSetup] | None:
    """Return the assistants that need an installation, if the user agrees; None if there is nothing to do."""
    if not terminal.asks:
        raise BadArguments(_name_one([setup.client.name for setup in found]), "client")
    todo = [setup for setup in found if _pending(setup, name, mode)]
    if found and not todo:
        titles = ", ".join(setup.client.title for setup in found)
        terminal.say(say("Tabane is already set up in: {titles}", titles=titles))
        return None
    rows = [(setup.client.name, setup.client.title, setup.file.path) for setup in todo]
    terminal.table([say("name"), say("assistant"), say("file")], rows)
    if todo and not dry and not terminal.agreed(say("Add Tabane to these files?")):
        terminal.say(say("Nothing was changed."))
        return None
    return todo


def _has(setup: AssistantSetup, name: str) -> bool:
    """Return whether an uninstallation would change the file, or fail."""
    from tabane.servers.assistants import installation

    try:
        return name in installation.installed(setup.file)
    except TabaneError:
        return True


def _pending(setup: AssistantSetup, name: str, mode: str | None) -> bool:
    """Return whether an installation would change the file, or fail."""
    from tabane.servers.assistants import installation

    wanted = entry_of(setup.client, setup.file.place, name, mode, shared=setup.project is not None)
    try:
        return installation.install(setup.file, name, wanted, dry=True).status != "unchanged"
    except TabaneError:
        return True


def _print(terminal: Terminal, client: str | None, folder: Path | None, name: str, mode: str | None) -> None:
    """Print what to write into a client's file, in its own format."""
    from tabane.servers.assistants import installation

    known = client_named(client) if client else None
    place = None
    if known is not None:
        place = known.project if folder is not None else known.user
    wanted = entry_of(known, place, name, mode, shared=folder is not None)
    lines = installation.snippet(place, name, wanted)
    if terminal.json and place is not None and place.form in ("toml", "yaml"):
        terminal.print_json({"client": client, "format": place.form, "text": lines})
        return
    emit(lines, nl=False)
    if known is not None and known.by_hand is not None:
        terminal.note(known.by_hand)


def _list(terminal: Terminal, folder: Path | None, name: str) -> None:
    rows = list(_rows(folder, name))
    headers = [say("name"), say("assistant"), say("found"), say("set up"), say("mode"), say("file")]
    terminal.show(
        rows,
        lambda: terminal.table(
            headers,
            [
                (
                    row["name"],
                    row["title"],
                    say("yes") if row["found"] else "",
                    say("yes") if row["installed"] else "",
                    row["mode"],
                    row["path"] or say("by hand"),
                )
                for row in rows
            ],
            whole=(0,),
        ),
    )


def _rows(folder: Path | None, name: str) -> Iterator[dict[str, Any]]:
    from tabane.servers.assistants import installation
    from tabane.servers.assistants.entries import definition, mode_of

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
    known = ", ".join(client.name for client in CLIENTS)
    if found:
        return say(
            "Name an assistant: {known}. Found here: {found}. To set up all of these, use --all.",
            known=known,
            found=", ".join(found),
        )
    return say(
        "Name an assistant: {known}. For any other, add the output of tabane install "
        "--print to its configuration.",
        known=known,
    )


def _record_environment() -> None:
    from tabane.hub.local.endpoint import home_of
    from tabane.hub.servers.recorded_environment import record_environment
    from tabane.settings.files import private_folder

    home = home_of(os.environ)
    # the entry is written; `tabane doctor` also checks that servers are found
    with suppress(ConfigurationError, OSError):
        private_folder(home)
        record_environment(home, os.environ)
