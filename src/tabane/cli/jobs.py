"""`tabane jobs`: the jobs of the hub, listed, followed and canceled."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.completion import COMPLETION_LIMIT, completed
from tabane.cli.following import result_of, watched
from tabane.cli.options import hub_options
from tabane.cli.output import INTERRUPTED, Group, TableState, Terminal, examples, lang, state_word, text
from tabane.cli.progress import job_figures
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient


def job_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the id of a job for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        return [row["job"] for row in hub.call("list_jobs", limit=COMPLETION_LIMIT)["results"]]

    return completed(ctx, ask, incomplete)


@click.group(
    "jobs",
    cls=Group,
    invoke_without_command=True,
    help=say("List, follow and cancel the hub's jobs. Default command: list."),
)
@hub_options
@click.pass_context
def jobs(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        list_.invoke(ctx)


_job = click.argument("job", metavar="ID", shell_complete=job_ids)


@jobs.command(
    "list",
    help=say("List running jobs and recently finished ones."),
    epilog=examples("tabane jobs list", "tabane jobs list --json"),
)
@hub_options
@click.pass_obj
def list_(terminal: Terminal) -> None:
    found = terminal.hub(start=False).call("list_jobs")
    terminal.show(found, lambda: _print(terminal, found))


@jobs.command(
    "follow",
    help=say("Watch a job until it finishes, and print its result. After Ctrl+C the job keeps running."),
    epilog=examples("tabane jobs follow 3fa9c1"),
)
@_job
@hub_options
@click.pass_obj
def follow_(terminal: Terminal, job: str) -> None:
    client = terminal.hub(start=False)
    try:
        result = result_of(watched(client, client.call("follow_job", {"job": job})))
    except KeyboardInterrupt:
        terminal.note(say("The job is still running. Cancel it with: tabane jobs cancel {job}", job=job))
        raise click.exceptions.Exit(INTERRUPTED) from None
    if terminal.json or result is not None:
        terminal.print_json(result)


@jobs.command(
    "cancel",
    help=say("Stop a job. Completed work is kept."),
    epilog=examples("tabane jobs cancel 3fa9c1"),
)
@_job
@hub_options
@click.pass_obj
def cancel(terminal: Terminal, job: str) -> None:
    client = terminal.hub(start=False)
    with terminal.working(say("Waiting for the job to stop")):
        state = client.call("cancel_job", {"job": job})
    said = say("{title}: {state}", title=state["title"], state=state_word(state["status"]))
    terminal.show(state, lambda: terminal.say(said))


def _print(terminal: Terminal, found: dict[str, Any]) -> None:
    rows = found["results"]
    if not rows:
        terminal.note(say("No jobs are running, and none have finished since the hub started."))
    headers = [say("job"), say("state"), say("progress"), say("started"), say("title"), say("owner")]
    in_group = any("hub" in row for row in rows)
    terminal.table(
        [*headers, say("hub")] if in_group else headers,
        (_cells(row) + ([row.get("hub", "")] if in_group else []) for row in rows),
    )
    if found.get("problem"):
        terminal.note(found["problem"])


def _cells(row: dict[str, Any]) -> list[object]:
    return [
        row["job"],
        TableState("waiting" if row.get("waits_for") else row["status"]),
        job_figures(row, lang()),
        _when(row["started"]),
        _named(row),
        _owner(row.get("owner")),
    ]


def _named(row: dict[str, Any]) -> str:
    """Return the title, and the job that it waits for."""
    return f"{row['title']} ({row['note']})" if row.get("waits_for") else str(row["title"])


def _owner(owner: dict[str, Any] | None) -> str:
    if owner is None:
        return text(say("the hub"))
    who = owner["client"] or text(say("a program"))
    if owner["pid"]:
        who = text(say("{program} (process {pid})", program=who, pid=owner["pid"]))
    return text(say("{program}, detached", program=who)) if owner["detached"] else who


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
