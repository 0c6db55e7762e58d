"""`tabane manual`: Tabane's own documentation on standard output."""

from __future__ import annotations

from typing import Any

import click

from tabane.cli.output import Command, Terminal, examples, hub_options, text
from tabane.messages import say


@click.command(
    "manual",
    cls=Command,
    help=text(
        say(
            "Print a page of Tabane's documentation, or the section around a line of it. Without SECTION, "
            "list the pages."
        )
    ),
    epilog=examples("tabane manual", "tabane manual servers.md", "tabane manual servers.md:40"),
)
@click.argument("section", metavar="[SECTION]", required=False)
@hub_options
@click.pass_obj
def manual(terminal: Terminal, section: str | None) -> None:
    found = terminal.hub().call("get_documentation", {"section": section} if section else {})
    terminal.show(found, lambda: terminal.say(_readable(found)))


def _readable(found: dict[str, Any]) -> str:
    if "pages" in found:
        return "\n".join(found["pages"])
    return f"{click.style(found['title'], bold=True)}\n\n{found['text']}"
