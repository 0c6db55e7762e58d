"""`tabane service`: a hub that systemd or launchd starts at login."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tabane.cli.assistant_setup import launcher
from tabane.cli.hub_process import end_hub
from tabane.cli.options import json_option, option
from tabane.cli.output import FAILED, Group, TableState, Terminal, emit, examples, lang
from tabane.cli.service.definitions import MARK, kept_variables
from tabane.cli.service.managers import ServiceManager, Systemd, service_manager
from tabane.errors import ConfigurationError
from tabane.hub.servers.recorded_environment import record_environment
from tabane.messages import say
from tabane.settings.files import home_folder, write_private

_MOST_BYTES = 1 << 20


@click.group(
    "service", cls=Group, help=say("Start the hub at each login, and again if it fails (systemd, launchd).")
)
def service() -> None: ...


@service.command(
    help=say(
        "Install the hub as a service of your user: a systemd unit on Linux, a launch agent on macOS. It "
        "keeps PATH, the TABANE_ variables, and proxies and certificates of this environment, but no "
        "secrets. A hub that is running is replaced."
    ),
    epilog=examples("tabane service install", "tabane service install --print"),
)
@option("--print", "only_print", is_flag=True, help=say("Print the file, and change nothing."))
@option("--dry-run", is_flag=True, help=say("Show what would be done, without changing anything."))
@option("--force", is_flag=True, help=say("Replace a file that Tabane did not write."))
@json_option
@click.pass_obj
def install(terminal: Terminal, only_print: bool, dry_run: bool, force: bool) -> None:
    manager = _manager()
    command = [*launcher(os.environ), "start", "--foreground"]
    written = manager.definition(command, kept_variables(os.environ))
    result = {"file": str(manager.path), "content": written}
    if only_print:
        terminal.show(result, lambda: emit(written, nl=False))
        return
    if dry_run:
        words = say("Would write {file} and start the service.", file=manager.path)
        terminal.show(result, lambda: terminal.say(words))
        return
    _check_ours(manager, force)
    manager.check()
    record_environment(terminal.endpoint().home, os.environ)
    manager.path.parent.mkdir(parents=True, exist_ok=True)
    write_private(manager.path, written.encode(), 0o644)
    with terminal.working(say("Starting the hub")):
        end_hub(terminal.endpoint(), lang(), restart=False)
        manager.enable()
    terminal.show(result, lambda: terminal.say(say("The service is running: {file}", file=manager.path)))
    if isinstance(manager, Systemd):
        terminal.note(say("To keep it running when you are not logged in: loginctl enable-linger"))


@service.command(
    help=say("Stop the service and remove its file."),
    epilog=examples("tabane service remove"),
)
@option("--dry-run", is_flag=True, help=say("Show what would be done, without changing anything."))
@json_option
@click.pass_obj
def remove(terminal: Terminal, dry_run: bool) -> None:
    manager = _manager()
    there = os.path.lexists(manager.path)
    result = {"file": str(manager.path), "removed": there and not dry_run}
    if not there:
        terminal.show(result, lambda: terminal.say(say("The service is not installed.")))
        return
    _check_ours(manager, force=False)
    if dry_run:
        words = say("Would stop the service and remove {file}.", file=manager.path)
        terminal.show(result, lambda: terminal.say(words))
        return
    manager.check()
    with terminal.working(say("Stopping the hub and its servers")):
        manager.disable()
    manager.path.unlink()
    manager.forget()
    terminal.show(result, lambda: terminal.say(say("Removed {file}.", file=manager.path)))


@service.command(
    help=say("Show whether the service is installed and running. The exit status is 1 if it is not running."),
    epilog=examples("tabane service status", "tabane service status --json"),
)
@json_option
@click.pass_obj
def status(terminal: Terminal) -> None:
    manager = _manager()
    installed = manager.path.exists()
    state = manager.state() if installed else None
    running = state is not None and state.running
    word = state.state if state else "not installed"
    result = {"file": str(manager.path), "installed": installed, "running": running, "state": word}
    rows = [(say("file"), manager.path), (say("state"), TableState("running" if running else word))]
    terminal.show(result, lambda: terminal.pairs(rows))
    if not running:
        raise click.exceptions.Exit(FAILED)


def _manager() -> ServiceManager:
    return service_manager(Path(home_folder(os.environ)), os.environ)


def _check_ours(manager: ServiceManager, force: bool) -> None:
    """Raise ConfigurationError if the file exists and Tabane did not write it."""
    try:
        with manager.path.open("rb") as file:
            written = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationError(
            say("{file} cannot be read: {reason}", file=manager.path, reason=error.strerror)
        ) from None
    if MARK.encode() not in written and not force:
        raise ConfigurationError(
            say(
                "{file} was not written by Tabane, so it is not changed. To replace it: "
                "tabane service install --force",
                file=manager.path,
            )
        )
