"""Entries of the audit log: the default of `tabane audit`.

``cli/audit.py`` declares the group with :func:`entry_options`, and invokes :func:`entries` if no command is
given.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from tabane.audit.parameters import QueryAuditLogs
from tabane.cli.audit_following import EntryFollower
from tabane.cli.completion import key_names
from tabane.cli.options import combined, given, option, parameter_option
from tabane.cli.output import Command, TableState, Terminal, emit, state_word
from tabane.cli.servers_file import server_names
from tabane.cli.terminal_text import cells, clean, fitted, padded
from tabane.messages import Message, say

_LONGEST_REASON = 60  # columns on a terminal
_WIDTHS = (19, 16, 16, 36, 9, 9)
_TERMINAL_WIDTHS = (11, 8, 16, 20, 7, 8)  # with two spaces between them: 80 columns
_ACTION = 3


def entry_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose entries."""
    return combined([
        parameter_option(QueryAuditLogs, "tool", metavar="NAME",
                         help=say("Only calls of this tool; * stands for any characters.")),
        parameter_option(QueryAuditLogs, "server", metavar="NAME", shell_complete=server_names,
                         help=say("Only entries of this server.")),
        parameter_option(QueryAuditLogs, "key", metavar="NAME", shell_complete=key_names,
                         help=say("Only entries of this key, by its id or name.")),
        parameter_option(QueryAuditLogs, "client", metavar="NAME", help=say("Only entries of this client.")),
        parameter_option(QueryAuditLogs, "type", help=say("Only entries of this type.")),
        parameter_option(QueryAuditLogs, "result", "--outcome", "result",
                         help=say("Only entries with this outcome.")),
        parameter_option(QueryAuditLogs, "text", metavar="TEXT",
                         help=say(
                             "Only entries with this text in arguments, reason or names, or of the script "
                             "with this id.")),
        parameter_option(QueryAuditLogs, "hub", metavar="ADDRESS",
                         help=say(
                             "In a group of hubs: only entries of this hub, by its address; this is the one "
                             "that is asked.")),
        parameter_option(QueryAuditLogs, "start", "--since", "start", metavar="TIME",
                         help=say(
                             "Only entries since this time: a date, today, or a time ago such as 30m, 24h "
                             "or 7d.")),
        parameter_option(QueryAuditLogs, "end", "--until", "end", metavar="TIME",
                         help=say("Only entries until this time.")),
        parameter_option(QueryAuditLogs, "limit", "--limit", "-n", "limit", metavar="COUNT",
                         help=say("Maximum number of entries.")),
        parameter_option(QueryAuditLogs, "cursor", metavar="CURSOR",
                         help=say("Show the page at this cursor, which the previous page printed.")),
        option("--follow", "-f", is_flag=True, help=say("Also show new entries, until Ctrl+C.")),
    ])(function)  # fmt: skip


@click.command("entries", cls=Command)
@click.pass_obj
def entries(terminal: Terminal, /, follow: bool, **options: Any) -> None:
    """Print the newest matching entries, and with ``follow`` also those that are added.

    In a group of hubs, only the entries of the hub of this home are followed.
    """
    if follow:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl+C is the end that the user wants, at any moment
            _follow(terminal, given(options))
        return
    with terminal.working(say("Reading the audit log")):
        found = _found(terminal, given(options))
    terminal.show(found, lambda: _print(terminal, found))


def _found(terminal: Terminal, params: dict[str, Any]) -> dict[str, Any]:
    """Return the first page with entries. A search for a text covers a part of the log at a time."""
    while True:
        found: dict[str, Any] = terminal.hub().call("query_audit_logs", params)
        if found["results"] or not found["next_cursor"]:
            return found
        params = {**params, "cursor": found["next_cursor"]}


def _print(terminal: Terminal, found: Mapping[str, Any]) -> None:
    rows = [_row(entry) for entry in found["results"]]
    hubs = [(entry["hub"],) if "hub" in entry else () for entry in found["results"]]
    if sys.stdout.isatty():
        headers = [say("time"), say("who"), say("client"), say("action"), say("duration"), say("outcome")]
        shown = [(*_narrow(row), *hub) for row, hub in zip(rows, hubs, strict=True)]
        terminal.table([*headers, say("hub")] if any(hubs) else headers, shown, whole=(0, 4))
    else:
        terminal.table([], [(*row, *hub) for row, hub in zip(rows, hubs, strict=True)])
    if not found["results"]:
        terminal.note(say("No entries match."))
    if found.get("problem"):
        terminal.note(found["problem"])
    if found["next_cursor"]:
        terminal.note(_more(found))


def _more(found: Mapping[str, Any]) -> Any:
    shown, total, cursor = len(found["results"]), found["total"], found["next_cursor"]
    if total is None:
        return say("There may be more. Next page: --cursor {cursor}", cursor=cursor)
    if found["exact"]:
        return say("{shown} of {total} {total:entry|entries}. Next page: --cursor {cursor}",
                   shown=shown, total=total, cursor=cursor)  # fmt: skip
    return say("{shown} of at least {total} {total:entry|entries}. Next page: --cursor {cursor}",
               shown=shown, total=total, cursor=cursor)  # fmt: skip


def _follow(terminal: Terminal, params: dict[str, Any]) -> None:
    folder = os.path.join(terminal.endpoint().home, "audit")
    follower = EntryFollower(folder)  # before the query, so that no entry is lost in between
    found = terminal.hub().call("query_audit_logs", params)
    if any("hub" in row for row in found["results"]):  # the entries of other hubs cannot be followed here
        found = terminal.hub().call("query_audit_logs", {**params, "hub": "this"})
    terminal.close()
    rows = found["results"][::-1]
    _print_lines(terminal, rows)
    newest = rows[-1]["seq"] if rows else 0
    for entry in follower.entries(params, newest):
        _print_lines(terminal, [entry])


def _print_lines(terminal: Terminal, entries: Iterable[Mapping[str, Any]]) -> None:
    for entry in entries:
        if terminal.json:
            terminal.print_json_line(json.dumps(entry, ensure_ascii=False))
        else:
            emit(_line(_row(entry)))


def _line(row: Sequence[object]) -> str:
    widths = _TERMINAL_WIDTHS if sys.stdout.isatty() else _WIDTHS
    parts = [padded(str(cell), width) for cell, width in zip(row, widths, strict=False)]
    if cells(action := str(row[_ACTION])) > widths[_ACTION]:
        parts[_ACTION] = action  # never cut: a user may want to copy it
    return "  ".join([*parts, str(row[-1])]).rstrip()


def _row(entry: Mapping[str, Any]) -> tuple[object, ...]:
    from tabane.audit.rendered_text import milliseconds

    action = str(entry.get("name") or entry["type"])
    if entry.get("count"):
        action += f" ×{entry['count']}"
    if entry.get("script"):
        action += f" · {entry['script']}"
    return (
        _when(entry["time"]),
        clean(entry.get("label") or entry.get("key") or ""),
        clean(entry.get("client") or ""),
        clean(action),
        TableState(entry.get("outcome") or ""),
        milliseconds(entry.get("ms") or None),
        _reason(clean(entry.get("reason") or "")),
    )


def _narrow(row: Sequence[object]) -> tuple[object, ...]:
    """Return a row for a table on a terminal: the reason is in the column of the outcome."""
    *first, outcome, duration, reason = row
    shown = Message("{outcome}: {reason}", outcome=state_word(str(outcome)), reason=reason)
    return *first, duration, shown if reason else outcome


def _when(moment: str) -> str:
    """Return the local time; on a terminal without the year, and today's without the day, so that it fits."""
    local = datetime.fromisoformat(moment).astimezone().replace(tzinfo=None)
    if not sys.stdout.isatty():
        return local.isoformat(" ", "seconds")
    return local.strftime("%H:%M:%S" if local.date() == datetime.now().date() else "%m-%d %H:%M")


def _reason(reason: str) -> str:
    return fitted(reason, _LONGEST_REASON) if sys.stdout.isatty() else reason
