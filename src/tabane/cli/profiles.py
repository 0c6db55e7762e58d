"""`tabane profiles`: named sets of servers and tools."""

from __future__ import annotations

from typing import Any

import click

from tabane.cli.options import hub_options
from tabane.cli.output import Group, Terminal, examples
from tabane.messages import say


@click.group("profiles", cls=Group, help=say("List the profiles: named sets of servers and tools."))
def profiles() -> None: ...


@profiles.command(
    "list",
    help=say("List the profiles of the settings file, and how many tools each one shows."),
    epilog=examples("tabane profiles list", "tabane profiles list --json"),
)
@hub_options
@click.pass_obj
def list_(terminal: Terminal) -> None:
    found = terminal.hub().call("profiles_list")
    terminal.show(found, lambda: _print(terminal, found["results"]))


def _print(terminal: Terminal, rows: list[dict[str, Any]]) -> None:
    if not rows:
        terminal.note(say("There are no profiles. Add a table such as [profiles.work] to tabane.toml."))
    headers = [
        say("name"),
        say("tools"),
        say("allowed"),
        say("but not"),
        say("read-only"),
        say("description"),
    ]
    terminal.table(
        headers,
        (
            (
                row["name"],
                row["tools"],
                row.get("allow"),
                row.get("deny"),
                say("yes") if row.get("read_only") else "",
                row["description"],
            )
            for row in rows
        ),
    )
