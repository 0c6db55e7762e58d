"""Calls of a command that a person may have to approve: the person at the terminal is asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.output import Terminal, emit, text
from tabane.errors import CallerError, TabaneError
from tabane.messages import say
from tabane.wire.json import decode, encode

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

LONGEST_SHOWN = 4000
"""Characters of arguments that are shown. The hub keeps no more than the beginning of long ones either."""


def approved_call(terminal: Terminal, method: str, params: Mapping[str, Any]) -> bytes:
    """Call an operation, and return its result as JSON. Raises as HubClient.call.

    If a person has to approve the call, or a call of a script, whoever sits at the terminal is asked. Without
    a terminal, a note says what the call waits for. An answer elsewhere counts too, whichever comes first.
    """
    hub = terminal.hub()
    watch = _watch(terminal, hub)
    call = hub.begin(method, encode(params))
    while hub.first_of((call, watch)) == watch and (row := _row(hub, watch)) is not None:
        watch = _watch(terminal, hub)  # before anybody answers: then a script goes on to its next call
        if terminal.asks and row["may_approve"]:
            _ask(terminal, hub, call, row)
        else:
            _tell(terminal, row)
    return hub.result_of(call)


def _watch(terminal: Terminal, hub: HubClient) -> bytes:
    return hub.begin("next_approval", encode({"asks": terminal.asks}))


def _row(hub: HubClient, watch: bytes) -> dict[str, Any] | None:
    """Return what waits for a person; None if this hub does not tell, as an earlier version."""
    try:
        row: dict[str, Any] = decode(hub.result_of(watch))
    except TabaneError:
        return None
    return row


def _ask(terminal: Terminal, hub: HubClient, call: bytes, row: Mapping[str, Any]) -> None:
    """Ask the person at the terminal, unless somebody decides elsewhere before."""
    _show(terminal, row)
    emit(text(say("Approve this call?")), " [y/N]: ", err=True, nl=False)
    if hub.first_of((call,), sys.stdin.fileno()) == call:
        emit(err=True)
        terminal.note(say("The call was decided elsewhere."))
        return
    typed = sys.stdin.readline()
    if not typed:
        raise click.Abort
    _decide(hub, row["id"], approved=typed.strip().lower() in ("y", "yes"))


def _decide(hub: HubClient, id: str, *, approved: bool) -> None:
    try:
        hub.call("approve_call" if approved else "refuse_call", {"id": id})
    except CallerError:
        return  # it was decided elsewhere meanwhile: the call's own answer says what became of it


def _show(terminal: Terminal, row: Mapping[str, Any]) -> None:
    terminal.note(say("A person has to approve this call of {tool} first.", tool=row["tool"]))
    if row["server"]:
        terminal.note(say("Server: {server}", server=row["server"]))
    for reason in row["reasons"]:
        terminal.note(reason)
    shown = str(row["arguments"])
    cut = "…" if len(shown) > LONGEST_SHOWN or row["arguments_size"] else ""
    terminal.note(say("Arguments: {arguments}", arguments=shown[:LONGEST_SHOWN] + cut))


def _tell(terminal: Terminal, row: Mapping[str, Any]) -> None:
    _show(terminal, row)
    terminal.note(
        say(
            "The call waits. Approve it on the web page (tabane open /approvals) or with: tabane approve "
            "{id}. Ctrl+C cancels it.",
            id=row["id"],
        )
    )
