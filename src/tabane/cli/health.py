"""`tabane health`: whether each server answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tabane.cli.output import FAILED, Command, State, Terminal, examples, hub_options, text
from tabane.messages import say


@click.command(
    "health",
    cls=Command,
    help=text(
        say(
            "Check whether each running server answers, and show the state of all servers. A server "
            "that is not running is checked without starting it. The exit status is 1 if a server "
            "does not answer or cannot start."
        )
    ),
    epilog=examples("tabane health", "tabane health --json"),
)
@hub_options
@click.pass_obj
def health(terminal: Terminal) -> None:
    hub = terminal.hub()
    with terminal.working(say("Asking the servers")):
        found = hub.call("health_check")
    details: Mapping[str, Any] = found.get("details", {})
    healthy = {name: found[name] for name in details if isinstance(found.get(name), bool)}
    terminal.show(found, lambda: _print(terminal, details, healthy))
    if not all(healthy.values()):
        raise click.exceptions.Exit(FAILED)


def _print(terminal: Terminal, details: Mapping[str, Any], healthy: Mapping[str, bool]) -> None:
    headers = [say("name"), say("answers"), say("state"), say("tools"), say("remark")]
    rows = (
        (name, healthy.get(name), State(row["state"]), row["tools"], row["error"] or row.get("remark"))
        for name, row in details.items()
    )
    terminal.table(headers, rows)
