"""`tabane jobs`, `tasks` and `rpc`: long work of the hub, calls in the background, calls of its methods."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import click
from msgspec import Struct

from tabane.cli.arguments import read_object
from tabane.cli.drawing import job_figures
from tabane.cli.job_progress import hand_over, result_of, watched
from tabane.cli.operation_command import Column, default_group, not_empty, operation_command
from tabane.cli.options import names_of, option, with_hub
from tabane.cli.output import (
    INTERRUPTED,
    Command,
    TableState,
    Terminal,
    examples,
    lang,
    local_second,
    state_word,
    text,
)
from tabane.cli.read import SITE_OPERATIONS, say_site
from tabane.hub.local.client import read_result
from tabane.messages import say
from tabane.wire.json import encode


class _FollowedJob(Struct):
    operation: str


_JOB_COLUMNS = (
    Column(say("job"), "job"),
    Column(say("state"), lambda row: TableState("waiting" if row.get("waits_for") else row["status"])),
    Column(say("progress"), lambda row: job_figures(row, lang())),
    Column(say("started"), lambda row: local_second(row["started"])),
    Column(
        say("title"), lambda row: f"{row['title']} ({row['note']})" if row.get("waits_for") else row["title"]
    ),
    Column(say("owner"), lambda row: _job_owner(row.get("owner"))),
    Column(say("hub"), "hub", seldom=True),
)


def _job_owner(owner: dict[str, Any] | None) -> str:
    if owner is None:
        return text(say("the hub"))
    who = owner["client"] or text(say("a program"))
    if owner["pid"]:
        who = text(say("{program} (process {pid})", program=who, pid=owner["pid"]))
    return text(say("{program}, detached", program=who)) if owner["detached"] else who


jobs = default_group("jobs", help=say("List, follow and cancel the hub's jobs. Default command: list."))
_job = click.argument("job", metavar="ID", shell_complete=names_of("list_jobs", "job"))

operation_command(
    jobs, "list", "list_jobs",
    help=say("List running jobs and recently finished ones."),
    epilog=examples("tabane jobs list", "tabane jobs list --json"),
    start=False,
    columns=_JOB_COLUMNS,
    empty=say("No jobs are running, and none have finished since the hub started."),
)  # fmt: skip


@jobs.command(
    "follow",
    help=say("Watch a job until it finishes, and print its result. After Ctrl+C the job keeps running."),
    epilog=examples("tabane jobs follow 3fa9c1"),
)
@_job
@with_hub
def follow_(terminal: Terminal, job: str) -> None:
    client = terminal.hub(start=False)
    try:
        state = watched(client, client.call("follow_job", {"job": job}))
        result = result_of(state)
    except KeyboardInterrupt:
        terminal.note(say("The job is still running. Cancel it with: tabane jobs cancel {job}", job=job))
        raise click.exceptions.Exit(INTERRUPTED) from None
    if read_result(state, _FollowedJob).operation in SITE_OPERATIONS and not terminal.json:
        say_site(terminal, result)
    elif terminal.json or result is not None:
        terminal.print_json(result)


operation_command(
    jobs, "cancel", "cancel_job", _job,
    help=say("Stop a job. Completed work is kept."),
    epilog=examples("tabane jobs cancel 3fa9c1"),
    start=False,
    working=say("Waiting for the job to stop"),
    text=lambda _, found: say("{title}: {state}", title=found["title"], state=state_word(found["status"])),
)  # fmt: skip


tasks = default_group(
    "tasks", help=say("List, show and cancel calls that run in the background. Default command: list.")
)
_task = click.argument("task", metavar="ID", shell_complete=names_of("list_tasks", "task"))

operation_command(
    tasks, "list", "list_tasks",
    option("--state", type=click.Choice(["all", "running", "over"]), default="all", show_default=True,
           help=say("Only tasks in this state.")),
    option("--server", metavar="NAME", help=say("Only tasks of this server.")),
    option("--limit", type=click.IntRange(1, 1000), default=100, metavar="COUNT", show_default=True,
           help=say("Maximum number of tasks.")),
    help=say("List tasks, the latest first."),
    epilog=examples("tabane tasks list", "tabane tasks list --state running --json"),
    params=not_empty,
    start=False,
    columns=(
        Column(say("task"), "task"),
        Column(say("state"), lambda row: TableState(row["status"])),
        Column(say("tool"), "tool"),
        Column(say("started"), lambda row: local_second(row["created"])),
        Column(
            say("owner"), lambda row: f"{row['holder']} ({row['client']})" if row["client"] else row["holder"]
        ),
        Column(say("message"), "message"),
    ),
    empty=say("There are no tasks."),
    more=say("{count} {count:task is|tasks are} not shown. Show more with --limit."),
)  # fmt: skip

operation_command(
    tasks, "show", "show_task", _task,
    help=say("Show a task, and its result if it is over. The beginning of the ID is enough."),
    epilog=examples("tabane tasks show task-Xk3"),
    start=False,
)  # fmt: skip

operation_command(
    tasks, "cancel", "cancel_task", _task,
    help=say("Cancel a task, also at its server. The beginning of the ID is enough."),
    epilog=examples("tabane tasks cancel task-Xk3"),
    start=False,
    text=lambda _, row: say("{tool}: {state}", tool=row["tool"], state=state_word(row["status"])),
)  # fmt: skip


_NONE = object()


@click.command(
    "rpc",
    cls=Command,
    help=say(
        "Call METHOD of the hub and print its result as JSON. A streamed result is printed "
        "as one JSON line for each part."
    ),
    epilog=examples(
        "tabane rpc hub_status",
        'tabane rpc search_tools --params \'{"query": "read a file"}\'',
        "echo '{}' | tabane rpc list_servers --params -",
    ),
)
@click.argument("method")
@option(
    "--params",
    default="{}",
    metavar="JSON",
    help=say("Parameters as a JSON object; - reads them from standard input."),
)
@with_hub
def call_method(terminal: Terminal, method: str, params: str) -> None:
    body = sys.stdin.buffer.read() if params == "-" else params.encode()
    terminal.json = True
    client = terminal.hub()
    parts = client.stream(method, read_object(body, "--params"))
    first, second = next(parts, None), next(parts, _NONE)
    if second is _NONE:
        if isinstance(first, dict) and first.get("operation") == method and first.get("status") == "running":
            hand_over(client, str(first.get("job")))  # other processes follow it with calls of their own
        terminal.print_json(first)
        return
    for part in itertools.chain([first, second], parts):
        terminal.print_json_line(encode(part))
