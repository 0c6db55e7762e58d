"""`tabane install` and `tabane uninstall`: Tabane in the files of assistants."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.options import combined, json_option, mode_option, option
from tabane.cli.output import Command, Terminal, examples
from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.gateway.servers.clients import CLIENTS, Client, client_named
from tabane.gateway.servers.installation import InstallChange
from tabane.messages import Message, say
from tabane.settings.files import home_folder
from tabane.text.nearest_names import nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_HANDED_DOWN = ("home", "config", "servers")


@dataclass(frozen=True)
class AssistantSetup:
    """An assistant and its configuration file on this machine."""

    client: Client
    path: Path
    home: Path

    @classmethod
    def of(cls, name: str) -> AssistantSetup:
        """Return the assistant of that name. Raises UnknownName that lists the known ones."""
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
        home, config = Path(home_folder(os.environ)), os.environ.get("XDG_CONFIG_HOME", "")
        files = client.files(sys.platform, home, None, Path(config) if os.path.isabs(config) else None)
        return cls(client, files[0].path, home)

    def check_present(self) -> None:
        """Raise ConfigurationError if the assistant does not seem to be installed."""
        from tabane.gateway.servers.installation import present

        if not present(self.client, self.path, self.home):
            raise ConfigurationError(
                say(
                    "{title} does not seem to be installed: {folder} does not exist. To write its file "
                    "anyway, use --force.",
                    title=self.client.title,
                    folder=self.path if self.path.parent == self.home else self.path.parent,
                )
            )


def launcher(environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts this Tabane from a program with any PATH, as an absolute path.

    The command on PATH if it is this Tabane's (it survives an upgrade), else the one beside the interpreter,
    else the interpreter itself.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "tabane")
    on_path = shutil.which("tabane", path=environ.get("PATH"))
    if on_path and os.path.realpath(on_path) == os.path.realpath(beside):
        return [os.path.abspath(on_path)]
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "tabane"]


def arguments(client: Client | None, mode: str | None, environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of ``tabane mcp``: the mode if it is not the hub's default, and the locations
    that this environment sets, which the assistant's environment may lack.
    """
    from tabane.gateway.servers.installation import SEARCHING
    from tabane.hub.local.endpoint import absolute

    mode = mode or ("full" if client is not None and client.name in SEARCHING else None)
    found = ["--mode", mode] if mode else []
    for name in _HANDED_DOWN:
        given = environ.get(f"TABANE_{name.upper()}")
        found += [f"--{name}", absolute(given, environ)] if given else []
    return found


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(c.name, help=c.title) for c in CLIENTS if c.name.startswith(incomplete)]


_shared = combined(
    (
        option("--name", default="tabane", show_default=True, help=say("Name of Tabane's entry there.")),
        option("--dry-run", is_flag=True, help=say("Show what would be done, without changing anything.")),
        json_option,
    )
)


@click.command(
    "install",
    cls=Command,
    help=say(
        "Add Tabane to the configuration file of an assistant: claude-desktop, "
        "claude-code, cursor, vscode or windsurf. Assistants that search tools themselves "
        "get all tools (mode full); the others get a few tools that find the rest. The "
        "rest of the file is preserved, and the previous version is saved as a backup."
    ),
    epilog=examples(
        "tabane install claude-desktop",
        "tabane install cursor --mode light",
        "tabane install vscode --dry-run",
        "tabane install --print",
    ),
)
@click.argument("client", metavar="[CLIENT]", required=False, shell_complete=_names)
@mode_option()
@option(
    "--print",
    "only_print",
    is_flag=True,
    help=say("Print what to write into the configuration file of any client."),
)
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
    name: str,
    dry_run: bool,
    force: bool,
) -> None:
    from tabane.gateway.servers import installation

    if only_print:
        known = client_named(client) if client else None
        wanted = installation.entry(known, launcher(os.environ), arguments(known, mode, os.environ))
        terminal.print_json({known.key if known else "mcpServers": {name: wanted}})
        return
    setup = AssistantSetup.of(_named(client))
    if not force:
        setup.check_present()
    wanted = installation.entry(setup.client, launcher(os.environ), arguments(setup.client, mode, os.environ))
    key = setup.client.key
    change = installation.install(setup.path, key, name, wanted, force=force, dry=dry_run)
    if not dry_run:
        _record_path()
    terminal.show(
        _result(setup, change, dry_run) | {"entry": {key: {name: wanted}}},
        lambda: _tell_installed(terminal, setup, change, dry_run, {key: {name: wanted}}),
    )


@click.command(
    "uninstall",
    cls=Command,
    help=say("Remove Tabane from an assistant's configuration file. The rest of the file is preserved."),
    epilog=examples("tabane uninstall cursor", "tabane uninstall claude-desktop --dry-run"),
)
@click.argument("client", metavar="CLIENT", shell_complete=_names)
@_shared
@click.pass_obj
def uninstall(terminal: Terminal, client: str, name: str, dry_run: bool) -> None:
    from tabane.gateway.servers import installation

    setup = AssistantSetup.of(client)
    change = installation.uninstall(setup.path, setup.client.key, name, dry=dry_run)
    terminal.show(
        _result(setup, change, dry_run), lambda: _tell_uninstalled(terminal, setup, change, dry_run)
    )


# -- inside --------------------------------------------------------------------------------------


def _named(client: str | None) -> str:
    if client:
        return client
    known = ", ".join(client.name for client in CLIENTS)
    raise BadArguments(
        say(
            "Name an assistant: {known}. For any other, add the output of tabane install "
            "--print to its configuration.",
            known=known,
        ),
        "client",
    )


def _record_path() -> None:
    from tabane.hub.local.endpoint import home_of
    from tabane.hub.servers import record_path
    from tabane.settings.files import private_folder

    home = home_of(os.environ)
    # the entry is written; `tabane doctor` also checks that servers are found
    with suppress(ConfigurationError, OSError):
        private_folder(home)
        record_path(home, os.environ)


def _result(setup: AssistantSetup, change: InstallChange, dry: bool) -> dict[str, Any]:
    return {
        "client": setup.client.name,
        "path": str(setup.path),
        "status": change.status,
        "dry_run": dry,
        "backup": str(change.backup) if change.backup else None,
        "other_servers": change.others,
    }


def _tell_installed(
    terminal: Terminal, setup: AssistantSetup, change: InstallChange, dry: bool, snippet: Mapping[str, Any]
) -> None:
    tell = _would_install if dry else _installed
    terminal.say(tell(change.status, setup.client.title, setup.path))
    if dry and change.status != "unchanged":
        terminal.print_json(snippet)
    if not dry and change.status != "unchanged":
        _tell_rest(terminal, setup, change)
    if change.others:
        terminal.note(
            say(
                "That file also has {count} other {count:server|servers}. Run tabane servers "
                "import to copy them into Tabane, then delete them from that file. Otherwise they "
                "run twice and fill the assistant's context.",
                count=change.others,
            )
        )


def _tell_uninstalled(terminal: Terminal, setup: AssistantSetup, change: InstallChange, dry: bool) -> None:
    terminal.say(_uninstalled(change.status, setup.client.title, setup.path, dry))
    if not dry and change.status == "removed":
        _tell_rest(terminal, setup, change)


def _tell_rest(terminal: Terminal, setup: AssistantSetup, change: InstallChange) -> None:
    if change.backup:
        terminal.note(say("The previous version is saved as {path}.", path=change.backup))
    terminal.note(say("It takes effect when {title} is started the next time.", title=setup.client.title))


def _installed(status: str, title: str, path: Path) -> Message:
    if status == "installed":
        return say("{title} now starts Tabane: {path}", title=title, path=path)
    if status == "updated":
        return say("Tabane's entry in {title} was updated: {path}", title=title, path=path)
    return say("Tabane is already set up in {title}: {path}", title=title, path=path)


def _would_install(status: str, title: str, path: Path) -> Message:
    if status == "installed":
        return say("Tabane would be added to {path} of {title}:", title=title, path=path)
    if status == "updated":
        return say("Tabane's entry in {path} of {title} would be updated:", title=title, path=path)
    return _installed(status, title, path)


def _uninstalled(status: str, title: str, path: Path, dry: bool) -> Message:
    if status == "absent":
        return say("Tabane is not set up in {title}: {path}", title=title, path=path)
    if dry:
        return say("Tabane would be removed from {path} of {title}.", title=title, path=path)
    return say("Tabane was removed from {title}: {path}", title=title, path=path)
