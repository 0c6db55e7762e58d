"""`tabane secrets`: values that servers and settings use as variables, kept outside their files.

Other commands offer to keep secrets by :func:`accepted`; `tabane secrets adopt` moves those in plain text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from tabane.cli.options import agreed_option, file_option, option, server_names, with_json
from tabane.cli.output import Command, Group, Terminal, examples, unknown_name
from tabane.cli.passphrase import check_passphrase
from tabane.cli.servers_file import ServersFile, files_changed
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.servers.configuration import written_definitions
from tabane.servers.editing import change_servers
from tabane.servers.secret_store import (
    LONGEST,
    SecretMoves,
    SecretNaming,
    SecretStore,
    check_name,
    keeping,
    moves_of,
    referred_names,
)
from tabane.servers.variables import PLAIN, escaped, names_in, names_needed
from tabane.settings import Settings, load_settings

plain_option = option(
    "--plain", is_flag=True, help=say("Write keys and passwords into the servers file as they are.")
)
"""Adds ``--plain``: what looks like a secret is not kept outside the servers file."""


def store_of(settings: Settings) -> SecretStore:
    """Return the store of secrets of these settings."""
    return SecretStore(settings.home, keyring=settings.keyring)


def naming_of(
    place: ServersFile, definitions: Mapping[str, Mapping[str, Any]], leaving: Collection[str] = ()
) -> SecretNaming:
    """Return the names for secrets of these definitions. ``leaving`` are servers that they replace.

    Raises ConfigurationError.
    """
    store, settings = store_of(place.settings), place.settings
    others = {name: each for name, each in written_definitions(place.path).items() if name not in leaving}
    texts = (settings.oauth_client_secret or "", settings.model_key or "")
    referred = referred_names(others, texts) | referred_names(definitions)
    return SecretNaming(store.get, os.environ, referred)


def kept_values(store: SecretStore) -> dict[str, str]:
    """Return the secrets that are kept, by name. Raises ConfigurationError."""
    found = {name: store.get(name) for name in store.places()}
    return {name: value for name, value in found.items() if value is not None}


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return a text with these values instead of their variables; other variables stay."""
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", escaped(value))
    return text


def accepted(terminal: Terminal, moves: SecretMoves, settings: Settings, *, agreed: bool = False) -> bool:
    """Return whether secrets are kept outside the servers file. A user on a terminal is asked."""
    if not moves.moves:
        return False
    if agreed or not terminal.asks:
        return True
    found = ", ".join(f"{move.server}: {move.secret.key}" for move in moves.moves)
    terminal.note(say("These values look like keys or passwords: {found}.", found=found))
    return terminal.agreed(
        say("Keep them in {place} instead of the servers file?", place=place_name(_place(settings)))
    )


def report_kept(terminal: Terminal, settings: Settings, names: Iterable[str], *, plain: bool = True) -> None:
    """Say which secrets were kept, and how the servers file refers to them. ``plain``: also the other way."""
    listed = list(dict.fromkeys(names))
    if not listed:
        return
    terminal.note(
        say(
            "Kept in {place}: {names}. The servers file refers to {variables}.",
            place=place_name(_place(settings)),
            names=", ".join(listed),
            variables=", ".join(f"${{{name}}}" for name in listed),
        )
    )
    if plain and not terminal.asks:
        terminal.note(say("To write such values into the servers file, add --plain."))


def place_name(place: str | None) -> Message | str:
    """Return the place of a secret for people."""
    if place is None:
        return say("not set")
    return {"keyring": say("the system's keyring"), "environment": say("the environment")}.get(place, place)


def _place(settings: Settings) -> str:
    return "keyring" if settings.keyring else "secrets.env"


@click.command(
    cls=Command,
    help=say(
        "Move keys and passwords that are in plain text in the servers file into secrets. The file then has "
        "${NAME} instead. Without SERVER, all servers are searched. A running hub uses the change at once."
    ),
    epilog=examples("tabane secrets adopt --dry-run", "tabane secrets adopt github"),
)
@click.argument("servers", metavar="[SERVER]…", nargs=-1, shell_complete=server_names)
@option("--dry-run", is_flag=True, help=say("Show what would be moved, without changing anything."))
@agreed_option
@file_option
@with_json
def adopt(terminal: Terminal, servers: Sequence[str], dry_run: bool, agreed: bool, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    written = written_definitions(place.path)
    for name in servers:
        if name not in written:
            raise unknown_name(
                name,
                written,
                say("There is no server {name!n}. Did you mean {near}?"),
                say("There is no server {name!n}."),
            )
    chosen = {
        name: each
        for name, each in written.items()
        if isinstance(each, dict) and (not servers or name in servers)
    }
    moves = moves_of(chosen, naming_of(place, {}))
    if not terminal.json:
        rows = [(move.server, move.secret.key, move.name) for move in moves.moves]
        terminal.table([say("server"), say("value"), say("secret")], rows)
    done = bool(moves.moves) and not dry_run
    if done and not agreed and terminal.asks:  # without a terminal nobody is asked: the move loses nothing
        done = terminal.agreed(say("Move them?"))
    if done:
        check_passphrase(terminal, place.settings.home)
        changed = {name: moves.definitions[name] for name in dict.fromkeys(m.server for m in moves.moves)}
        with files_changed(terminal), keeping(store_of(place.settings), moves.values):
            change_servers(place.path, chosen, changed)
    result = {
        "path": str(place.path),
        "status": "moved" if done else "unchanged",
        "secrets": [
            {"server": move.server, "key": move.secret.key, "name": move.name} for move in moves.moves
        ],
    }
    if not terminal.show_json(result):
        if not moves.moves:
            terminal.say(say("There are no keys in plain text."))
        elif not done:
            terminal.say(say("Nothing was changed."))
    if done:
        report_kept(terminal, place.settings, moves.names, plain=False)
        terminal.note(
            say(
                "The backup {path} still has them in plain text. Delete it when the servers work.",
                path=f"{place.path}.bak",
            )
        )


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
@with_json
def set_(terminal: Terminal, name: str, piped: bool) -> None:
    check_name(name)
    settings = load_settings({"config": terminal.config}, os.environ)
    check_passphrase(terminal, settings.home)
    store = store_of(settings)
    if not piped and sys.stdin.isatty():
        question = say("Value of {name} (it is not shown)", name=name)
        value = terminal.ask(question, hide_input=True)
    else:
        data = sys.stdin.buffer.read(4 * LONGEST + 3)
        try:
            given = data.decode("utf-8")
        except UnicodeDecodeError:
            raise BadArguments(say("The value on standard input is not UTF-8."), "value") from None
        # The line break that echo and editors add is not part of the value.
        value = given.removesuffix("\n").removesuffix("\r")
    with files_changed(terminal):
        place = store.keep(name, value)
    terminal.show(
        {"name": name, "place": place, "status": "kept"},
        say("{name} is kept in {place}.", name=name, place=place_name(place)),
    )


@secrets.command(
    "list",
    help=say("List the names of secrets, where each is kept and which servers use it. Values are not shown."),
    epilog=examples("tabane secrets list", "tabane secrets list --json"),
)
@file_option
@with_json
def list_(terminal: Terminal, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    kept, users = store_of(place.settings).places(), _users(place)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "place": kept.get(name) or ("environment" if os.environ.get(name) else None),
            "used_by": users.get(name, []),
        }
        for name in sorted({*kept, *(user for user in users if user not in PLAIN)})
    ]
    if not terminal.show_json({"results": rows}):
        terminal.table(
            [say("name"), say("kept in"), say("used by")],
            [(row["name"], place_name(row["place"]), row["used_by"]) for row in rows],
        )
        if not rows:
            terminal.note(say("There are no secrets yet. Keep one: tabane secrets set NAME"))


@secrets.command(
    "remove",
    help=say("Remove a secret. Servers that need it do not start any more."),
    epilog=examples("tabane secrets remove GITHUB_TOKEN"),
)
@click.argument("name", metavar="NAME", shell_complete=_secret_names)
@agreed_option
@file_option
@with_json
def remove(terminal: Terminal, name: str, agreed: bool, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    store = store_of(place.settings)
    known = store.places()
    if name not in known:
        raise unknown_name(
            name,
            known,
            say("There is no secret {name}. Did you mean {near}?"),
            say("There is no secret {name}. List all secrets with: tabane secrets list"),
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
        {"name": name, "status": "removed", "used_by": users}, say("{name} was removed.", name=name)
    )


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
