"""`tabane servers scan`: definitions that give orders to the model, hide text, or imitate other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tabane.cli.options import hub_options, option
from tabane.cli.output import FAILED, Command, Terminal, examples, lang
from tabane.cli.servers_file import server_names
from tabane.errors import BadArguments
from tabane.messages import say


@click.command(
    "scan",
    cls=Command,
    help=say(
        "Scan the definitions of servers for orders to the model, hidden text, attempts to get at "
        "secrets, and names that imitate other tools. No server is started: what each listed last is "
        "scanned. The exit status is 1 if anything is of high severity. A scan finds known kinds of attacks. "
        "It does not prove that a server is harmless."
    ),
    epilog=examples(
        "tabane servers scan", "tabane servers scan github --json", "tabane servers scan --file tools.json"
    ),
)
@click.argument("names", metavar="[NAME]…", nargs=-1, shell_complete=server_names)
@option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help=say("Scan the JSON that a server returned for tools/list, without a hub."),
)
@hub_options
@click.pass_obj
def scan(terminal: Terminal, names: tuple[str, ...], path: str | None) -> None:
    if path and names:
        raise BadArguments(say("Give either names or --file."), "names")
    found = _of_file(Path(path)) if path else _of_hub(terminal, names)
    terminal.show(found, lambda: _print(terminal, found))
    if found["highest"] == "high":
        raise click.exceptions.Exit(FAILED)


def _of_hub(terminal: Terminal, names: tuple[str, ...]) -> dict[str, Any]:
    hub = terminal.hub()
    with terminal.working(say("Scanning")):
        found: dict[str, Any] = hub.call("scan_servers", {"names": list(names)} if names else {})
    return found


def _of_file(path: Path) -> dict[str, Any]:
    from tabane.catalog.operations.scan_operations import report_of_file
    from tabane.guard.scanner.listing_scan import MOST_FILE

    if path.stat().st_size > MOST_FILE:
        raise BadArguments(say("The file is larger than {most} MiB.", most=MOST_FILE >> 20), "file")
    return report_of_file(path.stem, path.read_bytes(), lang())


def _print(terminal: Terminal, found: dict[str, Any]) -> None:
    headers = [say("severity"), say("server"), say("kind"), say("name"), say("finding"), say("text")]
    rows = [
        (row["severity"], row["server"], row["kind"], row["name"], row["message"], row["excerpt"])
        for row in found["results"]
    ]
    if rows:
        terminal.table(headers, rows)
    count = len(found["results"])
    terminal.note(
        say(
            "{scanned} {scanned:definition|definitions} scanned, {count} {count:finding|findings}.",
            scanned=found["scanned"],
            count=count,
        )
    )
    if found["unknown"]:
        terminal.note(
            say(
                "Not scanned, because they have not listed anything yet: {names}. "
                "Run: tabane servers test NAME",
                names=", ".join(found["unknown"]),
            )
        )
