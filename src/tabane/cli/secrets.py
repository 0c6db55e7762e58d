"""`tabane secrets`: values that servers and settings use as variables, kept outside their files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

from tabane.cli.options import json_option, option
from tabane.cli.output import Group, Terminal, examples
from tabane.cli.passphrase_check import check_passphrase
from tabane.cli.secret_offers import place_name, store_of
from tabane.cli.secrets_adopt import adopt
from tabane.cli.servers_file import ServersFile, file_option, files_changed
from tabane.errors import BadArguments, UnknownName
from tabane.messages import say
from tabane.servers.configuration import written_definitions
from tabane.servers.secret_store import LONGEST, SecretStore, check_name
from tabane.servers.variables import PLAIN, names_in, names_needed
from tabane.settings import load_settings
from tabane.text.nearest_names import nearest


@click.group(
    "secrets",
    cls=Group,
    help=say("Keep keys and passwords that servers use as ${NAME}, outside the servers file."),
)
def secrets() -> None: ...


secrets.add_command(adopt)


def _secret_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a secret for the shell."""
    return [name for name in store_of(load_settings({}, os.environ)).places() if name.startswith(incomplete)]


@secrets.command(
    "set",
    help=say(
        "Keep a secret. Its value is asked for, or read from standard input. It is never an argument, "
        "because other programs can read arguments. A running hub uses it at once."
    ),
    epilog=examples("tabane secrets set GITHUB_TOKEN", "tabane secrets set GITHUB_TOKEN < token.txt"),
)
@click.argument("name", metavar="NAME", shell_complete=_secret_names)
@option("--stdin", "piped", is_flag=True, help=say("Read the value from standard input without asking."))
@json_option
@click.pass_obj
def set_(terminal: Terminal, name: str, piped: bool) -> None:
    check_name(name)
    settings = load_settings({"config": terminal.config}, os.environ)
    check_passphrase(terminal, settings.home)
    store = store_of(settings)
    value = _value(terminal, name, piped)
    with files_changed(terminal):
        place = store.keep(name, value)
    terminal.show(
        {"name": name, "place": place, "status": "kept"},
        lambda: terminal.say(say("{name} is kept in {place}.", name=name, place=place_name(place))),
    )


@secrets.command(
    "list",
    help=say("List the names of secrets, where each is kept and which servers use it. Values are not shown."),
    epilog=examples("tabane secrets list", "tabane secrets list --json"),
)
@file_option
@json_option
@click.pass_obj
def list_(terminal: Terminal, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    rows = list(_rows(store_of(place.settings), _users(place)))
    terminal.show(
        {"results": rows},
        lambda: terminal.table(
            [say("name"), say("kept in"), say("used by")],
            [(row["name"], place_name(row["place"]), row["used_by"]) for row in rows],
        ),
    )


@secrets.command(
    "remove",
    help=say("Remove a secret. Servers that need it do not start any more."),
    epilog=examples("tabane secrets remove GITHUB_TOKEN"),
)
@click.argument("name", metavar="NAME", shell_complete=_secret_names)
@option("--yes", "-y", "agreed", is_flag=True, help=say("Do not ask for confirmation."))
@file_option
@json_option
@click.pass_obj
def remove(terminal: Terminal, name: str, agreed: bool, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    store = store_of(place.settings)
    known = store.places()
    if name not in known:
        near = nearest(name, known)
        raise UnknownName(
            say("There is no secret {name}. Did you mean {near}?", name=name, near=", ".join(near))
            if near
            else say("There is no secret {name}. List all secrets with: tabane secrets list", name=name),
            near,
        )
    users = _users(place).get(name, [])
    if users:
        terminal.note(say("{name} is used by: {users}.", name=name, users=", ".join(users)))
        if terminal.asks and not agreed and not terminal.agreed(say("Remove it?")):
            return
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        store.forget(name)
    terminal.show(
        {"name": name, "status": "removed", "used_by": users},
        lambda: terminal.say(say("{name} was removed.", name=name)),
    )


def _value(terminal: Terminal, name: str, piped: bool) -> str:
    if not piped and sys.stdin.isatty():
        question = say("Value of {name} (it is not shown)", name=name)
        return terminal.ask(question, hide_input=True)
    data = sys.stdin.buffer.read(4 * LONGEST + 3)
    try:
        given = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadArguments(say("The value on standard input is not UTF-8."), "value") from None
    # The line break that echo and editors add is not part of the value.
    return given.removesuffix("\n").removesuffix("\r")


def _users(place: ServersFile) -> dict[str, list[str]]:
    """Return the servers that use each variable, by its name; and settings, as ``tabane.toml``."""
    found: dict[str, list[str]] = {}
    for server, definition in written_definitions(place.path).items():
        for name in dict.fromkeys(names_needed(definition)):
            found.setdefault(name, []).append(server)
    values = asdict(place.settings)
    for key in ("oauth_client_secret", "model_key"):
        for name in names_in(values.get(key, "")):
            found.setdefault(name, []).append(f"tabane.toml ({key})")
    return found


def _rows(store: SecretStore, users: Mapping[str, list[str]]) -> Iterator[dict[str, Any]]:
    kept = store.places()
    for name in sorted({*kept, *(user for user in users if user not in PLAIN)}):
        place = kept.get(name) or ("environment" if os.environ.get(name) else None)
        yield {"name": name, "place": place, "used_by": users.get(name, [])}
