"""`tabane jobs`, `tasks` and `rpc`: long work of the hub, calls in the background, and calls of its methods.

Commands that start a job follow it by :func:`follow` or :func:`watched`: progress, Ctrl+C, and
``--detach``.
"""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.arguments import read_object
from tabane.cli.drawing import Bar, job_figures
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
from tabane.errors import HubError, TabaneError
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

BEAT, LONG = 0.5, 30.0
"""Longest wait for news of a job, in seconds: if a bar is shown, and if none is."""


def follow(terminal: Terminal, operation: str, params: Mapping[str, Any]) -> Any:
    """Return the result of an operation that is a job, and show its progress as a bar on a terminal.

    Ctrl+C cancels the job and ends the command with the status 130. The job is also canceled if this
    process ends in any other way. With ``--detach`` the command ends at once, and the job continues. Raises
    Declined, Failed, and HubError, also if the hub ends meanwhile.
    """
    client = terminal.hub()
    state: dict[str, Any] | None = None
    try:
        with _delayed_interrupt():
            state = client.call(operation, params)
        if terminal.detach:
            hand_over(client, state["job"])
            said = say(
                "{title}: job {job}. Watch it with: tabane jobs follow {job}",
                title=state["title"],
                job=state["job"],
            )
            terminal.show(state, said)
            raise click.exceptions.Exit(0)
        return result_of(watched(client, state))
    except KeyboardInterrupt:
        if state is None:
            raise
    try:
        # on another connection: an answer may have been half read on this one
        terminal.close()
        job = state["job"]
        with terminal.working(say("Waiting for the job to stop")):
            state = terminal.hub(start=False).call("cancel_job", {"job": job})
        if state["status"] in ("done", "failed"):
            return result_of(state)
        if state["status"] == "running":
            terminal.note(say("The job has not stopped yet. Check with: tabane jobs follow {job}", job=job))
        else:
            terminal.note(say("Cancelled. Completed work is kept; run the same command to continue."))
        raise click.exceptions.Exit(INTERRUPTED)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def watched(
    client: HubClient,
    state: dict[str, Any],
    title: str | None = None,
    tell: Callable[[dict[str, Any]], object] = lambda state: None,
) -> dict[str, Any]:
    """Show a job's bar until the job ends, and return its last state. Raises HubError if the hub ends.

    ``title`` replaces the job's own title at the bar. ``tell`` is called with each state while it runs.
    """
    from tabane.hub.local.client import HubCallFailed

    with Bar(lang()) as bar:
        wait = BEAT if bar.wanted else LONG
        while state["status"] == "running":
            bar.show(state if title is None else {**state, "title": title})
            tell(state)
            known = {"job": state["job"], "version": state["version"], "wait": wait}
            try:
                state = client.call("follow_job", known)
            except HubCallFailed:
                raise
            except HubError:
                raise HubError(
                    say("The hub stopped while the job was running. Completed work is kept. See: tabane logs")
                ) from None
    return state


def result_of(state: dict[str, Any]) -> Any:
    """Return the result of a job that has ended. Raises the error that it ended with."""
    from tabane.hub.local.client import raised

    if state["status"] == "done":
        return state["result"]
    error = state.get("error")
    if error is None:
        raise HubError(say("The job was cancelled. Completed work is kept."))
    raise raised({**error, "data": {"reason": error["reason"]} if error["reason"] else None})


def hand_over(client: HubClient, job: str) -> None:
    """Let a job continue after this connection closes. A hub of an older version does so anyway."""
    with suppress(TabaneError):
        client.call("detach_job", {"job": job})


@contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Delay Ctrl+C until the block ends, so that the id of a started job is known; a second one is not."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interrupted = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupted:
        raise KeyboardInterrupt


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
        result = result_of(watched(client, client.call("follow_job", {"job": job})))
    except KeyboardInterrupt:
        terminal.note(say("The job is still running. Cancel it with: tabane jobs cancel {job}", job=job))
        raise click.exceptions.Exit(INTERRUPTED) from None
    if terminal.json or result is not None:
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
    from tabane.wire.json import encode  # the help needs no msgspec

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
