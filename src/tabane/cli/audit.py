"""`tabane audit`: the audit log, verified and read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.audit_entries import entries, entry_options
from tabane.cli.options import hub_options, json_option, option
from tabane.cli.output import Group, Terminal, emit, examples, lang
from tabane.errors import AuditError
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.audit.options import AuditPaths


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
@json_option
@click.pass_obj
def verify(
    terminal: Terminal, head: str | None, folder: str | None, key: str | None, head_file: str | None
) -> None:
    from tabane.audit.verifying import kept_head, verify_files

    kept = kept_head(head)
    with terminal.working(say("Verifying the audit log")):
        report = verify_files(_paths(terminal, folder, key, head_file), kept)
    found = report.as_object(lambda message: message.render(lang()))
    terminal.show(found, lambda: _print_report(terminal, found))
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
@json_option
@click.pass_obj
def head(terminal: Terminal) -> None:
    from tabane.audit.verifying import stored_head

    paths = _paths(terminal, None, None, None)
    found = stored_head(paths)
    if found is None:
        raise AuditError(say("There is no audit log in {folder}.", folder=paths.folder))
    terminal.show({"head": str(found), "entry": found.seq}, lambda: emit(str(found)))


def _paths(terminal: Terminal, folder: str | None, key: str | None, head_file: str | None) -> AuditPaths:
    from tabane.audit.options import AuditPaths, audit_paths

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
    terminal.say(_summary(found))
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


def _summary(found: dict[str, Any]) -> Message:
    if not found["intact"]:
        return say("The audit log is not intact.")
    return say(
        "The audit log is intact: {entries} {entries:entry|entries}, {first} to {last}.",
        entries=found["entries"],
        first=found["first"],
        last=found["last"],
    )
