"""`tabane servers`: the servers file, and the servers that the hub runs of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from tabane.cli.definition_words import definition_remark
from tabane.cli.log_files import show_server_log
from tabane.cli.login_words import login_words
from tabane.cli.options import hub_options, json_option, option
from tabane.cli.output import Group, ServerState, Shown, Terminal, examples
from tabane.cli.passphrase_check import check_passphrase
from tabane.cli.servers_add import add
from tabane.cli.servers_changes import accept, changes, diff, reject
from tabane.cli.servers_file import ServersFile, ServersFileContent, file_option, files_changed, server_names
from tabane.cli.servers_find import find
from tabane.cli.servers_import import import_
from tabane.cli.servers_login import login, logout
from tabane.cli.servers_override import override
from tabane.cli.servers_sandbox import sandbox, sandbox_words
from tabane.cli.servers_scan import scan
from tabane.messages import Message, say
from tabane.messages.server_states import words_of_state
from tabane.servers.editing import enable_server, remove_server


@click.group("servers", cls=Group, help=say("List, add, change and control MCP servers."))
def servers() -> None: ...


servers.add_command(add)
servers.add_command(find)
servers.add_command(import_)
servers.add_command(login)
servers.add_command(logout)
servers.add_command(override)
servers.add_command(changes)
servers.add_command(diff)
servers.add_command(accept)
servers.add_command(reject)
servers.add_command(sandbox)
servers.add_command(scan)


_name = click.argument("name", metavar="NAME", shell_complete=server_names)


# -- the file ------------------------------------------------------------------------------------


@servers.command(
    "list",
    help=say("List the servers in the servers file, with their state if a hub is running."),
    epilog=examples("tabane servers list", "tabane servers list --json"),
)
@file_option
@hub_options
@click.pass_obj
def list_(terminal: Terminal, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    book = place.read()
    rows = book.rows()
    result = {"path": str(place.path), "hub": place.hub is not None, "results": rows}
    terminal.show(result, lambda: _print_rows(terminal, rows, book))
    for warning in book.all_warnings(rows):
        terminal.note(warning)


@servers.command(
    help=say(
        "Show one server: its entry in the servers file and its state. Secrets are hidden, "
        "and variables are shown by name."
    ),
    epilog=examples("tabane servers show time", "tabane servers show github --reveal"),
)
@_name
@option("--reveal", is_flag=True, help=say("Show the entry as written in the file, including secrets."))
@file_option
@hub_options
@click.pass_obj
def show(terminal: Terminal, name: str, file: str | None, reveal: bool) -> None:
    place = ServersFile.found(terminal, file)
    book = place.read()
    row = book.row(name)
    if place.hub and name in (book.live or {}):
        row |= place.hub.call("show_server", {"name": name})
    result = row | {"path": str(place.path), "definition": book.definition(name, reveal=reveal)}
    terminal.show(result, lambda: _print_server(terminal, result))
    for warning in [*book.warnings(name), *book.live_warnings([row])]:
        terminal.note(warning)


@servers.command(
    help=say("Remove a server from the servers file."), epilog=examples("tabane servers remove time")
)
@_name
@file_option
@json_option
@click.pass_obj
def remove(terminal: Terminal, name: str, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        remove_server(place.path, name)
    _changed(
        terminal, place, name, "removed", say("Removed {name!n} from {path}.", name=name, path=place.path)
    )


@servers.command(
    help=say("Enable a server in the servers file."), epilog=examples("tabane servers enable time")
)
@_name
@file_option
@json_option
@click.pass_obj
def enable(terminal: Terminal, name: str, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        enable_server(place.path, name, True)
    _changed(terminal, place, name, "enabled", say("{name!n} is now enabled.", name=name))


@servers.command(
    help=say("Disable a server in the servers file. Its entry is kept, but the server is not started."),
    epilog=examples("tabane servers disable time"),
)
@_name
@file_option
@json_option
@click.pass_obj
def disable(terminal: Terminal, name: str, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        enable_server(place.path, name, False)
    _changed(terminal, place, name, "disabled", say("{name!n} is now disabled.", name=name))


# -- the hub -------------------------------------------------------------------------------------


@servers.command(
    help=say("Start a server and wait for its tools."), epilog=examples("tabane servers start time")
)
@_name
@hub_options
@click.pass_obj
def start(terminal: Terminal, name: str) -> None:
    _operate(terminal, "start_upstream", name, say("Starting {name!n}", name=name))


@servers.command(
    help=say("Stop a server until you start it again."),
    epilog=examples("tabane servers stop time"),
)
@_name
@hub_options
@click.pass_obj
def stop(terminal: Terminal, name: str) -> None:
    _operate(terminal, "stop_upstream", name, say("Stopping {name!n}", name=name), start=False)


@servers.command(
    help=say("Stop a server and start it again."), epilog=examples("tabane servers restart time")
)
@_name
@hub_options
@click.pass_obj
def restart(terminal: Terminal, name: str) -> None:
    _operate(terminal, "restart_upstream", name, say("Restarting {name!n}", name=name))


@servers.command(
    help=say("Start a server if it is not running, and list its tools."),
    epilog=examples("tabane servers test time"),
)
@_name
@hub_options
@click.pass_obj
def test(terminal: Terminal, name: str) -> None:
    hub = terminal.hub()
    with terminal.working(say("Starting {name!n}", name=name)):
        found = hub.call("test_server", {"name": name})
    terminal.show(found, lambda: _print_test(terminal, found))


@servers.command(
    help=say("Show a server's standard error output."),
    epilog=examples("tabane servers logs time", "tabane servers logs time -f --lines 500"),
)
@_name
@option("--follow", "-f", is_flag=True,
              help=say("Follow the log until Ctrl+C."))  # fmt: skip
@option("--lines", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True,
              help=say("Number of lines to show, from the end."))  # fmt: skip
@hub_options
@click.pass_obj
def logs(terminal: Terminal, name: str, lines: int, follow: bool) -> None:
    show_server_log(terminal, name, lines, follow=follow)


_LABELS = {
    "name": say("name"),
    "path": say("file"),
    "state": say("state"),
    "error": say("remark"),
    "tools": say("tools"),
    "prompts": say("prompts"),
    "resources": say("resources"),
    "templates": say("resource templates"),
    "about": say("server"),
    "version": say("protocol"),
    "sandbox_text": say("sandbox"),
    "environment": say("variables"),
    "download_environment": say("variables for downloads only"),
    "withheld_environment": say("withheld variables"),
    "overridden": say("tools with overrides"),
    "runs_at": say("runs at"),
    "pids": say("processes"),
    "starts": say("starts"),
    "deaths": say("deaths"),
    "in_flight": say("calls in flight"),
    "failed_calls": say("failed calls"),
    "last_failure": say("last failure"),
    "login_text": say("login"),
    "definitions_text": say("definitions"),
    "skipped_lines": say("unreadable lines"),
}


# -- inside --------------------------------------------------------------------------------------


def _operate(terminal: Terminal, operation: str, name: str, what: Message, *, start: bool = True) -> None:
    hub = terminal.hub(start=start)
    with terminal.working(what):
        found = hub.call(operation, {"name": name})
    terminal.show(found, lambda: terminal.say(_state(found)))


def _changed(terminal: Terminal, place: ServersFile, name: str, done: str, what: Message) -> None:
    terminal.show({"name": name, "path": str(place.path), "status": done}, lambda: terminal.say(what))
    if done == "enabled":
        for problem in place.problems(name):
            terminal.note(problem)


def _print_rows(terminal: Terminal, rows: Sequence[dict[str, Any]], book: ServersFileContent) -> None:
    headers = [say("name"), say("state"), say("tools"), say("command"), say("remark")]
    shown: list[tuple[object, ...]] = [
        (row["name"], ServerState(row["state"]), row.get("tools"), row["command"], _remark(book, row))
        for row in rows
    ]
    sandboxes = [book.sandbox(row) for row in rows]
    if any(sandboxes):  # last, so that the columns before it stay where they are
        headers.append(say("sandbox"))
        shown = [(*cells, sandbox) for cells, sandbox in zip(shown, sandboxes, strict=True)]
    terminal.table(headers, shown)


def _remark(book: ServersFileContent, row: dict[str, Any]) -> Shown | None:
    found = book.remark(row) or definition_remark(row)
    return found or (say("runs at {address}", address=row["runs_at"]) if row.get("runs_at") else None)


def _print_server(terminal: Terminal, found: dict[str, Any]) -> None:
    # A server without prompts or resources is usual, and worth no word.
    none: dict[str, Any] = {key: None for key in ("prompts", "resources", "templates") if not found.get(key)}
    none["overridden"] = list(found.get("overrides") or ())
    none["definitions_text"] = definition_remark(found)
    none["sandbox_text"] = sandbox_words(found.get("sandbox"))
    none |= {"state": ServerState(found["state"]), "login_text": login_words(found.get("login"))}
    found = found | none
    shown = [(label, found.get(key)) for key, label in _LABELS.items()]
    terminal.pairs((label, value) for label, value in shown if value not in (None, "", [], {}))
    terminal.say(json.dumps({found["name"]: found["definition"]}, indent=2, ensure_ascii=False))


def _print_test(terminal: Terminal, found: dict[str, Any]) -> None:
    terminal.say(_state(found))
    for signature in found.get("tools") or ():
        terminal.say(f"  {signature}")


def _state(found: dict[str, Any]) -> Message:
    tools, state = found.get("tools"), words_of_state(found["state"]).words
    count = len(tools) if isinstance(tools, list) else tools
    if count is None:
        return say("{name!n}: {state}", name=found["name"], state=state)
    return say("{name!n}: {state}, {count} {count:tool|tools}", name=found["name"], state=state, count=count)
