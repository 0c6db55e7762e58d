"""`tabane doctor` and `tabane health`: what is in order, what is not, and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tabane.cli.empty import NO_SERVERS
from tabane.cli.operation_command import Column, print_rows
from tabane.cli.options import option, with_hub, with_json
from tabane.cli.output import FAILED, Command, ServerState, Terminal, examples
from tabane.messages import say


@click.command(
    "doctor",
    cls=Command,
    help=say(
        "Check for problems: settings and servers file, variables, commands, the hub, "
        "files and their permissions, certificates, keys, the audit log, assistants, and the start of each "
        "server. Each "
        "finding says how to fix it. The exit status is 1 if something does not work."
    ),
    epilog=examples(
        "tabane doctor", "tabane doctor --quick", "tabane doctor --fix", "tabane doctor --quick --online"
    ),
)
@option("--quick", is_flag=True, help=say("Start no server, and use no network except for --online."))
@option(
    "--online",
    is_flag=True,
    help=say("Also read a known public page of GitHub, Wikipedia and every other site that has an adapter."),
)
@option("--fix", is_flag=True, help=say("Fix what is safe to fix: permissions, leftover sockets, caches."))
@with_json
def doctor(terminal: Terminal, quick: bool, online: bool, fix: bool) -> None:
    from tabane.cli.checkup import run_checkup  # the help needs no hub

    run_checkup(terminal, quick=quick, online=online, fix=fix)


@click.command(
    "health",
    cls=Command,
    help=say(
        "Check whether each running server answers, and show the state of all servers. A server "
        "that is not running is checked without starting it, unless you give --start. The exit status is 1 "
        "if a server does not answer or cannot start."
    ),
    epilog=examples("tabane health", "tabane health --start", "tabane health --json"),
)
@option("--start", is_flag=True, help=say("Start the servers that are idle, and ask them too."))
@with_hub
def health(terminal: Terminal, start: bool) -> None:
    hub = terminal.hub()
    if start:
        with terminal.working(say("Starting and checking the servers")):
            found = hub.call("check_servers")
        columns, rows = _CHECKED, found["results"]
        sick = any(row["healthy"] is False for row in rows)
    else:
        with terminal.working(say("Checking the servers")):
            found = hub.call("health_check")
        details = found.get("details", {})
        healthy = {name: found[name] for name in details if isinstance(found.get(name), bool)}
        columns = _STATES
        rows = [row | {"name": name, "healthy": healthy.get(name)} for name, row in details.items()]
        sick = not all(healthy.values())
    if not terminal.show_json(found):
        print_rows(terminal, columns, rows)
        if not rows:
            terminal.note(NO_SERVERS)
    if sick:
        raise click.exceptions.Exit(FAILED)


_DONE = {
    "asked": say("asked"),
    "started": say("started"),
    "stopped": say("left stopped"),
    "disabled": say("disabled"),
    "left out": say("left out: it needs the folder of a client"),
}
_CHECKED: Sequence[Column] = (
    Column(say("name"), "name"),
    Column(say("answers"), "healthy"),
    Column(say("done"), lambda row: _DONE[row["done"]]),
    Column(say("time"), lambda row: "" if row["ms"] is None else f"{row['ms'] / 1000:.2f} s"),
    Column(say("remark"), "error"),
)
_STATES: Sequence[Column] = (
    Column(say("name"), "name"),
    Column(say("answers"), "healthy"),
    Column(say("state"), lambda row: ServerState(row["state"])),
    Column(say("tools"), "tools"),
    Column(say("remark"), lambda row: row["error"] or row.get("remark")),
)
