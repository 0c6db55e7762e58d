"""`tabane jobs`, and how any command follows a job that it started."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tabane.cli.output import (
    INTERRUPTED,
    Group,
    State,
    Terminal,
    examples,
    hub_options,
    lang,
    state_word,
    text,
)
from tabane.cli.progress import Bar
from tabane.errors import HubError, TabaneError
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

BEAT, LONG = 0.5, 30.0
"""Seconds between two looks at a job without news: where a bar is shown, and where none is."""

COMPLETION_LIMIT = 3.0
"""Seconds that somebody who pressed the tabulator waits for the hub."""


def follow(terminal: Terminal, operation: str, params: Mapping[str, Any]) -> Any:
    """What :meth:`Terminal.follow` says."""
    client = terminal.hub()
    state: dict[str, Any] | None = None
    try:
        with _unbroken():
            state = client.call(operation, params)
        if terminal.detach:
            _leave(terminal, client, state)
        return result_of(watched(client, state))
    except KeyboardInterrupt:
        if state is None:
            raise
    try:
        return _cancelled(terminal, state)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def job_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes the id of a job for the shell; nothing where no hub runs."""
    terminal = ctx.ensure_object(Terminal)
    try:
        rows = terminal.hub(start=False).call("list_jobs", limit=COMPLETION_LIMIT)["results"]
    except TabaneError:
        return []
    finally:
        terminal.close()
    return [row["job"] for row in rows if row["job"].startswith(incomplete)]


@click.group(
    "jobs",
    cls=Group,
    invoke_without_command=True,
    help=text(say("List what the hub works on, follow it and cancel it. Without a command: list.")),
)
@hub_options
@click.pass_context
def jobs(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        list_.invoke(ctx)


_job = click.argument("job", metavar="ID", shell_complete=job_ids)


@jobs.command(
    "list",
    help=text(say("List the jobs that run, and the last ones that are over.")),
    epilog=examples("tabane jobs list", "tabane jobs list --json"),
)
@hub_options
@click.pass_obj
def list_(terminal: Terminal) -> None:
    found = terminal.hub(start=False).call("list_jobs")
    terminal.show(found, lambda: _print(terminal, found["results"]))


@jobs.command(
    "follow",
    help=text(say("Watch a job until it is over, and print its result. It runs on after Ctrl+C.")),
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
        terminal.note(say("The job runs on. Cancel it with: tabane jobs cancel {job}", job=job))
        raise click.exceptions.Exit(INTERRUPTED) from None
    if terminal.json or result is not None:
        terminal.print_json(result)


@jobs.command(
    "cancel",
    help=text(say("Stop a job. What it has done until then stays.")),
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


def watched(
    client: HubClient,
    state: dict[str, Any],
    title: str | None = None,
    tell: Callable[[dict[str, Any]], object] = lambda state: None,
) -> dict[str, Any]:
    """The last state of a job, its bar shown until then. Raises HubError where the hub goes away.

    ``title`` stands before the bar in place of the job's own; ``tell`` is given each state on the way.
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
                    say("The hub went away while the job ran. What was done stays. See: tabane logs")
                ) from None
    return state


def result_of(state: dict[str, Any]) -> Any:
    """What a job gave in the end. Raises the error that it ended with."""
    from tabane.hub.local.client import raised

    if state["status"] == "done":
        return state["result"]
    error = state.get("error")
    if error is None:
        raise HubError(say("The job was cancelled. What was done stays."))
    raise raised({**error, "data": {"reason": error["reason"]} if error["reason"] else None})


def hand_over(client: HubClient, job: str) -> None:
    """Let a job continue after this connection closes. A hub of an older version does so anyway."""
    with suppress(TabaneError):
        client.call("detach_job", {"job": job})


def _leave(terminal: Terminal, client: HubClient, state: dict[str, Any]) -> NoReturn:
    """Leave the job to the hub, and end the command."""
    hand_over(client, state["job"])
    said = say(
        "{title}: job {job}. Watch it with: tabane jobs follow {job}", title=state["title"], job=state["job"]
    )
    terminal.show(state, lambda: terminal.say(said))
    raise click.exceptions.Exit(0)


def _cancelled(terminal: Terminal, state: dict[str, Any]) -> Any:
    """Cancel the job that runs in front of the user. Its result, where it was done before that came.

    Raises click's Exit where it was not.
    """
    # On another connection: an answer may have been half read on this one.
    terminal.close()
    job = state["job"]
    with terminal.working(say("Waiting for the job to stop")):
        state = terminal.hub(start=False).call("cancel_job", {"job": job})
    if state["status"] in ("done", "failed"):
        return result_of(state)
    if state["status"] == "running":
        terminal.note(say("The job has not stopped yet. Look with: tabane jobs follow {job}", job=job))
    else:
        terminal.note(say("Cancelled. What was done stays; the same command goes on from there."))
    raise click.exceptions.Exit(INTERRUPTED)


@contextmanager
def _unbroken() -> Iterator[None]:
    """Ctrl+C comes when the block is through, so that a job that was begun is known; a second one at once."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def later(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def _print(terminal: Terminal, rows: list[dict[str, Any]]) -> None:
    if not rows:
        terminal.note(say("Nothing is being worked on, and nothing has been since the hub started."))
    headers = [say("job"), say("state"), say("progress"), say("started"), say("title"), say("owner")]
    terminal.table(
        headers,
        (
            (
                row["job"],
                State("waiting" if row.get("waits_for") else row["status"]),
                _far(row),
                _when(row["started"]),
                _named(row),
                _owner(row.get("owner")),
            )
            for row in rows
        ),
    )


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


def _far(row: dict[str, Any]) -> str:
    return f"{row['done']}/{row['total']}" if row["total"] else str(row["done"])


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
