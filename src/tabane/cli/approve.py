"""`tabane approve`: calls that wait for a person, and the decision about one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.completion import completed
from tabane.cli.options import hub_options, option
from tabane.cli.output import Command, Terminal, examples, text
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

LONGEST_SHOWN = 200
"""Characters of arguments in the list. `tabane approve --json` has all that a hub keeps."""


def approval_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the id of an approval for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        return [row["id"] for row in hub.call("list_approvals")["results"]]

    return completed(ctx, ask, incomplete)


@click.command(
    "approve",
    cls=Command,
    help=say(
        "List the calls that wait until a person approves them, or decide about one. A call that was "
        "approved is made once, with exactly these arguments."
    ),
    epilog=examples("tabane approve", "tabane approve 3fa9c1d2e4", "tabane approve 3fa9c1d2e4 --refuse"),
)
@click.argument("id", metavar="[ID]", required=False, shell_complete=approval_ids)
@option("--refuse", is_flag=True, help=say("Refuse the call. The same call is refused for ten minutes."))
@option("--remember", is_flag=True, help=say("Allow the same for later calls too, where that is offered."))
@hub_options
@click.pass_obj
def approve(terminal: Terminal, id: str | None, refuse: bool, remember: bool) -> None:
    if id is None:
        if refuse or remember:
            raise click.UsageError(text(say("Name the approval: tabane approve lists all.")))
        found = terminal.hub(start=False).call("list_approvals")
        terminal.show(found, lambda: _print(terminal, found["results"]))
        return
    if refuse and remember:
        raise click.UsageError(text(say("--refuse and --remember exclude each other.")))
    hub = terminal.hub(start=False)
    if refuse:
        done = hub.call("refuse_call", {"id": id})
        said = say("The call of {tool} is refused.", tool=done["tool"])
    else:
        done = hub.call("approve_call", {"id": id, "remember": remember})
        said = say("The call of {tool} is approved, once.", tool=done["tool"])
    terminal.show(done, lambda: terminal.say(said))


def _print(terminal: Terminal, rows: list[dict[str, Any]]) -> None:
    if not rows:
        terminal.note(say("No call waits for an approval."))
    headers = [
        say("id"),
        say("tool"),
        say("state"),
        say("asked"),
        say("reason"),
        say("arguments"),
        say("client"),
    ]
    terminal.table(headers, ((
        row["id"], row["tool"], row["state"], _when(row["asked"]), " ".join(row["reasons"]), _arguments(row),
        row["client"] or row["label"] or row["holder"],
    ) for row in rows))  # fmt: skip


def _arguments(row: dict[str, Any]) -> str:
    shown = " ".join(str(row["arguments"]).split())
    whole = len(shown) <= LONGEST_SHOWN and not row["arguments_size"]
    return shown if whole else f"{shown[:LONGEST_SHOWN]}…"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
