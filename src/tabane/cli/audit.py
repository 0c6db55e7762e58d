"""`tabane audit`: entries of the audit log, listed, followed and verified."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
import msgspec

from tabane.audit.entry import AuditPaths, audit_files, audit_paths, decode_entry, entry_object
from tabane.audit.rendered_text import milliseconds
from tabane.audit.table import QueryAuditLogs, filter_of, matches
from tabane.cli.options import combined, given, hub_options, option, parameter_option, with_json
from tabane.cli.output import Command, Group, TableState, Terminal, emit, examples, state_word, text
from tabane.cli.terminal_text import cells, clean, fitted, padded
from tabane.errors import AuditError
from tabane.messages import Message, filled, say

_POLL = 0.2
_CHUNK = 1 << 20


class EntryFollower:
    """Follows the log in ``folder`` from its end on, as it is now."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        files = audit_files(folder)
        self._first = files[-1].first if files else 0
        self._place = _end_of(files[-1].path) if files else 0

    def entries(self, params: Mapping[str, Any], newest: int) -> Iterator[dict[str, Any]]:
        """Yield matching entries with a seq greater than ``newest``, without end."""
        given = msgspec.convert({**params, "start": None, "end": None, "cursor": None}, QueryAuditLogs)
        wanted = filter_of(given, UTC, time.time(), "" if given.lookups else "without")
        while True:
            lines = self._lines()
            for line in lines:
                try:
                    entry = decode_entry(line)
                except ValueError:
                    continue
                if entry.seq > newest and matches(wanted, entry, line):
                    yield entry_object(entry)
            if not lines:
                time.sleep(_POLL)

    def _lines(self) -> list[bytes]:
        """Return the next whole lines; none if nothing was added."""
        files = [file for file in audit_files(self._folder) if file.first >= self._first]
        for file in files:
            if file.first != self._first:
                self._first, self._place = file.first, 0
            try:
                with open(file.path, "rb") as opened:
                    opened.seek(self._place)
                    chunk = opened.read(_CHUNK)
            except FileNotFoundError:
                continue
            end = chunk.rfind(b"\n") + 1
            if end:
                self._place += end
                return chunk[: end - 1].split(b"\n")
        return []


def _end_of(path: str) -> int:
    """Return the place after the last whole line."""
    with open(path, "rb") as opened:
        size = opened.seek(0, 2)
        begin = max(0, size - _CHUNK)
        opened.seek(begin)
        return begin + opened.read(size - begin).rfind(b"\n") + 1


_LONGEST_REASON = 60  # columns on a terminal
_WIDTHS = (19, 16, 16, 36, 9, 9)
_TERMINAL_WIDTHS = (11, 8, 16, 20, 7, 8)  # with two spaces between them: 80 columns
_ACTION = 3


_of_query = partial(parameter_option, QueryAuditLogs)
entry_options = combined([
    _of_query("tool", help=say("Only calls of this tool; * stands for any characters.")),
    _of_query("server", help=say("Only entries of this server.")),
    _of_query("key", help=say("Only entries of this key, by its id or name.")),
    _of_query("client", help=say("Only entries of this client.")),
    _of_query("type", help=say("Only entries of this type.")),
    _of_query("result", "--outcome", "result", help=say("Only entries with this outcome.")),
    _of_query("text", metavar="TEXT", help=say(
        "Only entries with this text in arguments, reason or names, or of the script with this id.")),
    _of_query("hub", metavar="ADDRESS", help=say(
        "In a group of hubs: only entries of this hub, by its address; this is the one that is asked.")),
    _of_query("start", "--since", "start", help=say(
        "Only entries since this time: a date, today, or a time ago such as 30m, 24h or 7d.")),
    _of_query("end", "--until", "end", help=say("Only entries until this time.")),
    _of_query("limit", "--limit", "-n", "limit", help=say("Maximum number of entries.")),
    _of_query("cursor", help=say("Show the page at this cursor, which the previous page printed.")),
    option("--all", "everything", is_flag=True, help=say(
        "Also show look-ups of Tabane itself, such as hub_status and list_servers.")),
    option("--follow", "-f", is_flag=True, help=say("Also show new entries, until Ctrl+C.")),
])  # fmt: skip
"""Adds the options that choose entries."""


@click.command("entries", cls=Command)
@click.pass_obj
def entries(terminal: Terminal, /, follow: bool, everything: bool, **options: Any) -> None:
    """Print the newest matching entries, and with ``follow`` also those that are added.

    In a group of hubs, only the entries of the hub of this home are followed.
    """
    params = given(options)
    params["lookups"] = everything or "tool" in params  # who names a look-up wants to see it
    if follow:
        _follow(terminal, params)
        return
    with terminal.working(say("Reading the audit log")):
        found = _found(terminal, params)
    if not terminal.show_json(found):
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
        tell_hidden(terminal, found)


def tell_hidden(terminal: Terminal, found: Mapping[str, Any]) -> None:
    """Print how many look-ups are not in a list of entries or of usage."""
    if count := found.get("hidden"):
        terminal.note(
            say(
                "{count} {count:look-up|look-ups} of Tabane itself {count:is|are} hidden. Show "
                "{count:it|them} with: --all",
                count=count,
            )
        )


def _found(terminal: Terminal, params: dict[str, Any]) -> dict[str, Any]:
    """Return the first page with entries. A search for a text covers a part of the log at a time."""
    while True:
        found: dict[str, Any] = terminal.hub().call("query_audit_logs", params)
        if found["results"] or not found["next_cursor"]:
            return found
        params = {**params, "cursor": found["next_cursor"]}


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
            row = _row(entry)
            widths = _TERMINAL_WIDTHS if sys.stdout.isatty() else _WIDTHS
            parts = [padded(str(cell), width) for cell, width in zip(row, widths, strict=False)]
            if cells(action := str(row[_ACTION])) > widths[_ACTION]:
                parts[_ACTION] = action  # never cut: a user may want to copy it
            emit("  ".join([*parts, str(row[-1])]).rstrip())


def _row(entry: Mapping[str, Any]) -> tuple[object, ...]:
    action = str(entry.get("name") or entry["type"])
    if entry.get("count"):
        action += f" ×{entry['count']}"
    if entry.get("script"):
        action += f" · {entry['script']}"
    return (
        _when(entry["time"]),
        clean(_who(entry)),
        clean(entry.get("client") or ""),
        clean(action),
        TableState(entry.get("outcome") or ""),
        milliseconds(entry.get("ms") or None),
        _reason(clean(entry.get("reason") or "")),
    )


def _who(entry: Mapping[str, Any]) -> str:
    name = str(entry.get("label") or entry.get("key") or "")
    person = entry.get("person")
    return f"{person} ({name})" if person else name


def holder_name(holder: str, label: str | None, person: str | None) -> str:
    """Return a caller as a table has it: the person, the name of the key, and the holder such as key:ID."""
    first, *rest = [clean(name) for name in dict.fromkeys((person, label, holder)) if name] or ["-"]
    return f"{first} ({', '.join(rest)})" if rest else first


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


@click.group(
    "audit",
    cls=Group,
    invoke_without_command=True,
    help=say(
        "Show the entries of the audit log, newest first: who called which tool, when, and how it ended. "
        "The subcommands verify the log."
    ),
    epilog=examples(
        "tabane audit",
        "tabane audit --tool 'github__*' --since 1h",
        "tabane audit --outcome failed --json",
        "tabane audit --follow",
    ),
)
@entry_options
@hub_options
@click.pass_context
def audit(ctx: click.Context, /, **options: Any) -> None:
    if ctx.invoked_subcommand is None:
        entries.invoke(ctx)


@audit.command(
    "verify",
    help=say(
        "Check whether entries of the audit log were changed, removed, inserted or cut off. The exit "
        "status is 1 if so. The hub does not need to run."
    ),
    epilog=examples(
        "tabane audit verify",
        "tabane audit verify --head 1042:5f1c…",
        "tabane audit verify --folder /backup/audit --key audit.key --head-file audit.head",
    ),
)
@option("--head", metavar="HEAD", help=say("An earlier head, as tabane audit head printed it."))
@option("--folder", metavar="PATH", help=say("Folder of the log. Default: audit in TABANE_HOME."))
@option("--key", metavar="FILE", help=say("Key of the log. Default: audit.key beside the folder."))
@option(
    "--head-file", metavar="FILE", help=say("Stored head of the log. Default: audit.head beside the folder.")
)
@with_json
def verify(
    terminal: Terminal, head: str | None, folder: str | None, key: str | None, head_file: str | None
) -> None:
    from tabane.audit.chain import kept_head
    from tabane.audit.verification import verify_files

    kept = kept_head(head)
    with terminal.working(say("Verifying the audit log")):
        report = verify_files(_paths(terminal, folder, key, head_file), kept)
    found = report.as_object(text)
    if not terminal.show_json(found):
        _print_report(terminal, found)
    if not report.intact:
        raise click.exceptions.Exit(1)


@audit.command(
    "head",
    help=say(
        "Print the head of the audit log. Keep it where nobody who can write to this machine can change it: "
        "with it, verify also detects a log that was cut or rewritten."
    ),
    epilog=examples("tabane audit head", "tabane audit head --json"),
)
@with_json
def head(terminal: Terminal) -> None:
    from tabane.audit.chain import stored_head

    paths = _paths(terminal, None, None, None)
    found = stored_head(paths)
    if found is None:
        raise AuditError(say("There is no audit log in {folder}.", folder=paths.folder))
    if not terminal.show_json({"head": str(found), "entry": found.seq}):
        emit(str(found))


def _paths(terminal: Terminal, folder: str | None, key: str | None, head_file: str | None) -> AuditPaths:
    if folder is None:
        own = audit_paths(terminal.endpoint().home)
    else:
        place = os.path.abspath(folder)
        own = audit_paths(os.path.dirname(place))._replace(folder=place)
    return AuditPaths(own.folder, key or own.key, head_file or own.head)


def _print_report(terminal: Terminal, found: dict[str, Any]) -> None:
    for problem in found["problems"]:
        terminal.say(problem["message"] + _place(problem))
    if found["more_problems"]:
        count = found["more_problems"]
        terminal.say(say("… and {count} more {count:problem|problems}", count=count))
    if found["intact"]:
        intact = say("The audit log is intact: {entries} {entries:entry|entries}, {first} to {last}.")
        terminal.say(filled(intact, found))
    else:
        terminal.say(say("The audit log is not intact."))
    for each in found.get("removed", ()):  # an older hub does not say it
        terminal.say(
            say(
                "Entries {first} to {last} were deleted by retention (audit_files, audit_days) on {time}.",
                **each,
            )
        )
    if found["torn_bytes"]:
        terminal.note(
            say(
                "{count} {count:byte|bytes} after the last entry {count:is|are} not an entry.",
                count=found["torn_bytes"],
            )
        )


def _place(problem: dict[str, Any]) -> str:
    return f" ({problem['file']}:{problem['line']})" if problem.get("line") else ""
