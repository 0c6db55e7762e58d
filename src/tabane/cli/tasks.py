"""`tabane tasks`: calls that go on in the background, listed, shown and cancelled."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.completion import COMPLETION_LIMIT, completed
from tabane.cli.options import hub_options, option
from tabane.cli.output import Group, TableState, Terminal, examples, state_word
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient


def task_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the id of a task for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        return [row["task"] for row in hub.call("list_tasks", {"limit": COMPLETION_LIMIT})["results"]]

    return completed(ctx, ask, incomplete)


@click.group(
    "tasks",
    cls=Group,
    invoke_without_command=True,
    help=say("List, show and cancel calls that run in the background. Default command: list."),
)
@hub_options
@click.pass_context
def tasks(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


_task = click.argument("task", metavar="ID", shell_complete=task_ids)


@tasks.command(
    "list",
    help=say("List tasks, the latest first."),
    epilog=examples("tabane tasks list", "tabane tasks list --state running --json"),
)
@option(
    "--state",
    type=click.Choice(["all", "running", "over"]),
    default="all",
    show_default=True,
    help=say("Only tasks in this state."),
)
@option("--server", metavar="NAME", help=say("Only tasks of this server."))
@option(
    "--limit", type=click.IntRange(1, 1000), default=100, metavar="COUNT", show_default=True,
    help=say("Maximum number of tasks."),
)  # fmt: skip
@hub_options
@click.pass_obj
def list_(terminal: Terminal, state: str = "all", server: str | None = None, limit: int = 100) -> None:
    params = {"state": state, "limit": limit} | ({"server": server} if server else {})
    found = terminal.hub(start=False).call("list_tasks", params)
    terminal.show(found, lambda: _print(terminal, found))


@tasks.command(
    "show",
    help=say("Show a task, and its result if it is over. The beginning of the ID is enough."),
    epilog=examples("tabane tasks show task-Xk3"),
)
@_task
@hub_options
@click.pass_obj
def show(terminal: Terminal, task: str) -> None:
    terminal.print_json(terminal.hub(start=False).call("show_task", {"task": task}))


@tasks.command(
    "cancel",
    help=say("Cancel a task, also at its server. The beginning of the ID is enough."),
    epilog=examples("tabane tasks cancel task-Xk3"),
)
@_task
@hub_options
@click.pass_obj
def cancel(terminal: Terminal, task: str) -> None:
    row = terminal.hub(start=False).call("cancel_task", {"task": task})
    said = say("{tool}: {state}", tool=row["tool"], state=state_word(row["status"]))
    terminal.show(row, lambda: terminal.say(said))


def _print(terminal: Terminal, found: dict[str, Any]) -> None:
    rows = found["results"]
    if not rows:
        terminal.note(say("There are no tasks."))
    headers = [say("task"), say("state"), say("tool"), say("started"), say("owner"), say("message")]
    terminal.table(headers, (_cells(row) for row in rows))
    if found["total"] > len(rows):
        left = found["total"] - len(rows)
        terminal.note(say("{count} {count:task is|tasks are} not shown. Show more with --limit.", count=left))


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    state, started = TableState(row["status"]), _when(row["created"])
    return row["task"], state, row["tool"], started, _owner(row), row["message"]


def _owner(row: dict[str, Any]) -> str:
    return f"{row['holder']} ({row['client']})" if row["client"] else str(row["holder"])


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
