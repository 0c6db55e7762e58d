"""`tabane restore`: a backup gets into place, and the user is told what this machine lacks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabane.build import this_build
from tabane.cli.backup import byte_progress, described, not_usable, opened
from tabane.cli.hub_process import end_hub
from tabane.cli.options import json_option, keep, option
from tabane.cli.output import Command, Terminal, examples, lang, text
from tabane.cli.passphrase_check import check_passphrase
from tabane.errors import HubError, TabaneError
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.hub.backup.restoring import RestoredBackup
    from tabane.hub.local.endpoint import Endpoint
    from tabane.hub.local.lock import HomeLock

_LOCK_LIMIT = 10.0  # seconds in which hubs that assistants start again are ended


@click.command(
    "restore",
    cls=Command,
    help=say(
        "Restore the backup FILE into TABANE_HOME, the settings file and the servers file. - is standard "
        "input. The whole backup is verified first. No hub may run in that home. What is missing on this "
        "machine is listed: secrets, programs of servers, and folders."
    ),
    epilog=examples(
        "tabane restore tabane.tar.gz",
        "tabane restore --stop --force tabane.tar.gz",
        "tabane backup --list tabane.tar.gz",
    ),
)
@click.argument("archive", metavar="FILE", type=click.Path())
@option(
    "--force",
    "forced",
    is_flag=True,
    help=say("Replace an existing home. Its former content is kept beside it."),
)
@option("--stop", "stopping", is_flag=True, help=say("Stop the hub first if one runs in that home."))
@option(
    "--servers",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=say("Where to put the servers file."),
)
@option(
    "--config", metavar="FILE", type=click.Path(), expose_value=False, callback=keep("config"),
    help=say("The settings file."),
)  # fmt: skip
@json_option
@click.pass_obj
def restore(terminal: Terminal, archive: str, forced: bool, stopping: bool, file: Path | None) -> None:
    from tabane.hub.backup.restore_journal import complete_restore
    from tabane.hub.backup.restoring import RestoreTarget, restore_backup
    from tabane.hub.process.home_version import FORMAT, refuse_downgrade
    from tabane.settings.files import config_folder, private_folder

    endpoint = terminal.endpoint()
    given = terminal.config or os.environ.get("TABANE_CONFIG")
    settings_file = Path(os.path.abspath(given)) if given else config_folder(os.environ) / "tabane.toml"
    with opened(archive) as stream:
        private_folder(endpoint.home)
        refuse_downgrade(endpoint.home)
        check_passphrase(terminal, Path(endpoint.home))
        with _locked(endpoint, stopping=stopping):
            complete_restore(endpoint.home)
            target = RestoreTarget(
                home=Path(os.path.realpath(endpoint.home)),
                settings_file=settings_file,
                environ=os.environ,
                build=this_build().name,
                home_format=FORMAT,
                servers_file=Path(os.path.abspath(file)) if file else None,
                forced=forced,
            )
            with byte_progress(say("Restoring a backup"), archive) as told:
                try:
                    done = restore_backup(stream, archive, target, told)
                except OSError as error:
                    raise not_usable(error, archive) from None
    _tell(terminal, endpoint, done)


@contextmanager
def _locked(endpoint: Endpoint, *, stopping: bool) -> Iterator[None]:
    """Hold the lock of the home, so that no hub starts. Raises HubError if one runs."""
    held = _lock(endpoint, stopping=stopping)
    try:
        yield
    finally:
        held.release()


def _lock(endpoint: Endpoint, *, stopping: bool) -> HomeLock:
    from tabane.hub.local import lock

    deadline = time.monotonic() + _LOCK_LIMIT
    while (held := lock.acquire(endpoint.lock)) is None:
        if not stopping:
            raise HubError(
                say(
                    "A hub runs in {home}, so nothing was changed. Stop it with tabane stop, or add --stop.",
                    home=endpoint.home,
                )
            )
        if time.monotonic() > deadline:
            raise HubError(
                say(
                    "Assistants start the hub in {home} again. Close them, and try again. Nothing was "
                    "changed.",
                    home=endpoint.home,
                )
            )
        end_hub(endpoint, lang(), restart=False)
    return held


def _tell(terminal: Terminal, endpoint: Endpoint, done: RestoredBackup) -> None:
    secrets, problems = _missing(terminal, done)
    result: dict[str, Any] = {
        "status": "restored",
        "home": endpoint.home,
        "settings_file": str(done.settings_file),
        "servers_file": str(done.servers_file),
        "kept": dict(done.kept),
        "audit_log": str(done.audit) if done.audit else None,
        "missing_secrets": {name: list(users) for name, users in secrets.items()},
        "problems": [text(problem) for problem in problems],
        "backup": described(done.manifest),
    }
    terminal.show(result, lambda: _print(terminal, endpoint, done, secrets, problems))


def _print(
    terminal: Terminal,
    endpoint: Endpoint,
    done: RestoredBackup,
    secrets: dict[str, tuple[str, ...]],
    problems: list[Message],
) -> None:
    made = done.manifest.created
    terminal.say(say("The backup of {made} was restored to {home}.", made=made, home=endpoint.home))
    for folder in dict.fromkeys(_kept_places(endpoint, done)):
        terminal.say(say("The former files are kept: {path}", path=folder))
    if done.audit is not None:
        terminal.say(
            say(
                "The audit log of the backup is in {path}, and a new log begins: the key of the log is not "
                "in the backup.",
                path=done.audit,
            )
        )
    for problem in problems:
        terminal.say(problem)
    if secrets:
        terminal.say(say("Secrets that are not set here, and how to set them:"))
        for name, users in secrets.items():
            terminal.say(f"  tabane secrets set {name}" + (f"    # {', '.join(users)}" if users else ""))
    terminal.say(say("Start the hub with: tabane start"))


def _kept_places(endpoint: Endpoint, done: RestoredBackup) -> Iterator[str]:
    home = os.path.realpath(endpoint.home)
    for target, kept in done.kept.items():
        yield os.path.dirname(kept) if os.path.dirname(target) == home else kept


def _missing(terminal: Terminal, done: RestoredBackup) -> tuple[dict[str, tuple[str, ...]], list[Message]]:
    """Return the secrets that nobody sets here, and other problems."""
    from tabane.hub.backup.restored_problems import missing_secrets, server_problems, setting_problems
    from tabane.servers.configuration import read_configuration, written_definitions
    from tabane.servers.variables import keyring_lookup, load_variables
    from tabane.settings import load_settings

    try:
        given = {"config": str(done.settings_file)} if done.settings_file.exists() else {}
        settings = load_settings(given, os.environ)
        keyring = keyring_lookup() if settings.keyring else None
        variables = load_variables(settings.home, os.environ, keyring)
        definitions = written_definitions(done.servers_file)
        secrets = missing_secrets(definitions, settings, variables, done.manifest.secrets)
        configuration = read_configuration(done.servers_file, variables)
        problems = [*setting_problems(settings), *server_problems(configuration, os.environ)]
    except TabaneError as error:  # restored as it was: the hub says the same
        return {}, [error.message]
    removed = [
        say("The setting {name} contained a secret and was left out. Set it again.", name=name)
        for name in done.manifest.settings_removed
    ]
    return secrets, [*removed, *problems]
