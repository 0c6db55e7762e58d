"""`tabane secrets adopt`: keys in plain text leave the servers file and are kept as secrets."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tabane.cli.options import json_option, option
from tabane.cli.output import Command, Terminal, examples
from tabane.cli.passphrase_check import check_passphrase
from tabane.cli.secret_offers import naming_of, report_kept, store_of
from tabane.cli.servers_file import ServersFile, file_option, files_changed, server_names
from tabane.errors import UnknownName
from tabane.messages import say
from tabane.servers.configuration import written_definitions
from tabane.servers.editing import change_servers
from tabane.servers.kept_secrets import SecretMoves, keeping, moves_of
from tabane.text.nearest_names import nearest


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
@option("--yes", "-y", "agreed", is_flag=True, help=say("Do not ask for confirmation."))
@file_option
@json_option
@click.pass_obj
def adopt(terminal: Terminal, servers: Sequence[str], dry_run: bool, agreed: bool, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    written = written_definitions(place.path)
    for name in servers:
        if name not in written:
            raise _unknown(name, list(written))
    chosen = {
        name: each
        for name, each in written.items()
        if isinstance(each, dict) and (not servers or name in servers)
    }
    moves = moves_of(chosen, naming_of(place, {}))
    if not terminal.json:
        _show(terminal, moves)
    done = bool(moves.moves) and not dry_run and _may(terminal, agreed)
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
    terminal.show(result, lambda: _tell(terminal, moves, done))
    if done:
        report_kept(terminal, place.settings, moves.names, plain=False)
        terminal.note(
            say(
                "The backup {path} still has them in plain text. Delete it when the servers work.",
                path=f"{place.path}.bak",
            )
        )


def _show(terminal: Terminal, moves: SecretMoves) -> None:
    terminal.table(
        [say("server"), say("value"), say("secret")],
        [(move.server, move.secret.key, move.name) for move in moves.moves],
    )


def _may(terminal: Terminal, agreed: bool) -> bool:
    # Without a terminal the command itself is the answer: nothing is lost by the move.
    return agreed or not terminal.asks or terminal.agreed(say("Move them?"))


def _tell(terminal: Terminal, moves: SecretMoves, done: bool) -> None:
    if not moves.moves:
        terminal.say(say("There are no keys in plain text."))
    elif not done:
        terminal.say(say("Nothing was changed."))


def _unknown(name: str, known: Sequence[str]) -> UnknownName:
    near = nearest(name, known)
    return UnknownName(
        say("There is no server {name!n}. Did you mean {near}?", name=name, near=", ".join(near))
        if near
        else say("There is no server {name!n}.", name=name),
        near,
    )
