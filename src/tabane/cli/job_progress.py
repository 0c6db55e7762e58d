"""Progress of a job that a command has started: it is followed, and left or canceled by Ctrl+C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.drawing import Bar
from tabane.cli.output import INTERRUPTED, Terminal, lang
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
                    say(
                        "The hub stopped while the job was running. Completed work is kept. To continue, run "
                        "the job's command again. See: tabane logs"
                    )
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
