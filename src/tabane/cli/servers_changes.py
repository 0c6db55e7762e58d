"""`tabane servers changes`, `diff`, `accept`, `reject` and `scan`: definitions of servers to review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.operation_command import Column, not_empty, operation_command, print_rows
from tabane.cli.options import completed, option, server_names, with_hub
from tabane.cli.output import FAILED, Command, Terminal, emit, examples, lang, text
from tabane.cli.terminal_text import StyledText
from tabane.errors import BadArguments, UnknownName
from tabane.messages import Message, filled, say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

KIND_WORDS: Mapping[str, Message] = {
    "tool": say("tool"),
    "prompt": say("prompt"),
    "resource": say("resource"),
    "template": say("resource template"),
    "skill": say("skill"),
    "instructions": say("instructions"),
}

CHANGE_WORDS: Mapping[str, Message] = {
    "added": say("new"),
    "changed": say("changed"),
    "suspicious": say("suspicious"),
    "rejected": say("rejected"),
}


def definition_remark(row: Mapping[str, Any]) -> Message | None:
    """Return what waits at a server, in a few words and with the command; None if nothing does."""
    found = row.get("definition_changes") or {}
    waiting, held = found.get("waiting", 0), found.get("held", 0)
    if suspicious := min(held, found.get("suspicious", 0)):
        return say(
            "{held} {held:definition looks|definitions look} like an attack and {held:is|are} held back. "
            "See: tabane servers diff {name!c}",
            held=suspicious,
            name=row["name"],
        )
    if held:
        return say(
            "{held} {held:definition is|definitions are} held back. See: tabane servers diff {name!c}",
            held=held,
            name=row["name"],
        )
    if waiting:
        return say(
            "{waiting} {waiting:definition has|definitions have} to be reviewed. See: tabane servers diff "
            "{name!c}",
            waiting=waiting,
            name=row["name"],
        )
    return None


MOST = 20_000
"""Definitions that a command decides about at once."""

_STYLES = {"-": "red", "+": "green", "@": "cyan", " ": ""}


def changed_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a definition that waits, for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        return [row["name"] for row in _waiting(hub, ctx.params.get("name"))]

    return completed(ctx, ask, incomplete)


_name = click.argument("name", metavar="NAME", shell_complete=server_names)
_definitions = click.argument("definitions", metavar="[TOOL]...", nargs=-1, shell_complete=changed_names)


def _state(row: Mapping[str, Any]) -> Message:
    if row["held"]:
        return say("held back")
    return say("offered") if row["current"] else say("no longer listed")


def _kind(row: Mapping[str, Any]) -> Message | str:
    return KIND_WORDS.get(row["kind"], str(row["kind"]))


def _change(row: Mapping[str, Any]) -> Message | str:
    return CHANGE_WORDS.get(row["change"], str(row["change"]))


changes = operation_command(
    None, "changes", "list_definition_changes",
    click.argument("server", metavar="[NAME]", required=False, shell_complete=server_names),
    help=say(
        "List definitions of servers that changed since they were first seen, that are new, or that look "
        "like an attack."
    ),
    epilog=examples("tabane servers changes", "tabane servers changes github --json"),
    params=not_empty,
    columns=(
        Column(say("server"), "server"),
        Column(say("kind"), _kind),
        Column(say("name"), "name"),
        Column(say("change"), _change),
        Column(say("state"), _state),
        Column(say("findings"), lambda row: list(dict.fromkeys(each["rule"] for each in row["findings"]))),
    ),
    empty=say("No definition of a server has to be reviewed."),
    more=say("{count:,} more"),
)  # fmt: skip


@click.command(
    "diff",
    cls=Command,
    help=say(
        "Show what changed in the definitions of a server, line by line. TOOL is the server's own name of a "
        "tool or prompt, or a URI."
    ),
    epilog=examples("tabane servers diff github", "tabane servers diff github create_issue"),
)
@_name
@_definitions
@with_hub
def diff(terminal: Terminal, name: str, definitions: tuple[str, ...]) -> None:
    hub = terminal.hub()
    rows = _chosen(hub, name, definitions)
    keys = ("server", "kind", "name", "digest")
    found = [dict(hub.call("show_definition_change", {key: row[key] for key in keys})) for row in rows]
    if terminal.show_json({"results": found}):
        return
    if not found:
        terminal.note(say("No definition of {name!n} has to be reviewed.", name=name))
        return
    for row in found:
        _print_diff(terminal, row)
    counts = Counter(row["current"] for row in found)
    if counts[True]:
        terminal.note(say("Accept with: tabane servers accept {name!c}", name=name))


@click.command(
    "accept",
    cls=Command,
    help=say(
        "Accept changed definitions of a server: those that are named, or all that it lists now. Look at "
        "them first with: tabane servers diff NAME"
    ),
    epilog=examples("tabane servers accept github create_issue", "tabane servers accept github"),
)
@_name
@_definitions
@option(
    "--hash",
    "digest",
    metavar="HASH",
    help=say("Accept only this version of the one TOOL: the beginning of the hash that diff showed."),
)
@with_hub
def accept(terminal: Terminal, name: str, definitions: tuple[str, ...], digest: str | None) -> None:
    rows = [row for row in _chosen(terminal.hub(), name, definitions, digest) if row["current"]]
    accepted = say("Accepted {count} {count:definition|definitions} of {name!n}.")
    _decide(terminal, name, rows, "accept_definitions", accepted)


@click.command(
    "reject",
    cls=Command,
    help=say(
        "Reject changed definitions of a server. They are held back, whatever the settings say, until you "
        "accept them."
    ),
    epilog=examples("tabane servers reject github create_issue"),
)
@_name
@click.argument("definitions", metavar="TOOL...", nargs=-1, required=True, shell_complete=changed_names)
@with_hub
def reject(terminal: Terminal, name: str, definitions: tuple[str, ...]) -> None:
    rejected = say("Rejected {count} {count:definition|definitions} of {name!n}.")
    rows = _chosen(terminal.hub(), name, definitions)
    _decide(terminal, name, rows, "reject_definitions", rejected)


# -- inside --------------------------------------------------------------------------------------


def _waiting(hub: HubClient, name: str | None) -> list[dict[str, Any]]:
    given = {"limit": MOST} | ({"server": name} if name else {})
    return list(hub.call("list_definition_changes", given)["results"])


def _chosen(
    hub: HubClient, name: str, definitions: Sequence[str], digest: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows that are meant. Raises UnknownName for a definition that does not wait."""
    rows = _waiting(hub, name)
    if digest is not None and len(definitions) != 1:
        raise click.UsageError(text(say("--hash belongs to one TOOL.")))
    found = [
        row
        for row in rows
        if (not definitions or row["name"] in definitions)
        and (digest is None or row["digest"].startswith(digest.lower()))
    ]
    missing = set(definitions) - {row["name"] for row in found}
    if missing:
        raise UnknownName(
            say(
                "No change of {names} at {server!n} waits. List those that wait: tabane servers changes "
                "{server!c}",
                names=", ".join(sorted(missing)),
                server=name,
            )
        )
    return found


def _decide(
    terminal: Terminal, name: str, rows: Iterable[dict[str, Any]], operation: str, said: Message
) -> None:
    given = [{key: row[key] for key in ("kind", "name", "digest")} for row in rows]
    if not given:
        raise UnknownName(say("No definition of {name!n} waits that it lists now.", name=name))
    done = terminal.hub().call(operation, {"server": name, "definitions": given})
    terminal.show(done, filled(said, {"name": name, "count": done["count"]}))


def _print_diff(terminal: Terminal, row: Mapping[str, Any]) -> None:
    title = say(
        "{server} {kind} {name}: {change}, {state} (hash {hash})",
        server=row["server"],
        kind=_kind(row),
        name=row["name"],
        change=_change(row),
        state=_state(row),
        hash=row["digest"][:16],
    )
    terminal.say(StyledText(text(title), "bold"))
    for finding in row["findings"]:
        line = say(
            "{severity}: {message} ({rule})",
            severity=finding["severity"],
            message=finding["message"],
            rule=finding["rule"],
        )
        terminal.say(StyledText(text(line), "yellow"))
        if finding["excerpt"]:
            terminal.say(StyledText(f"    {finding['excerpt']}", "dim"))
    for line in row["diff"]:
        mark = "" if line["mark"] == "@" else line["mark"]
        emit(StyledText(f"{mark}{line['text']}", _STYLES[line["mark"]]))


@click.command(
    "scan",
    cls=Command,
    help=say(
        "Scan the definitions of servers for orders to the model, hidden text, attempts to get at "
        "secrets, and names that imitate other tools. No server is started: what each listed last is "
        "scanned. The exit status is 1 if anything is of high severity. A scan finds known kinds of attacks. "
        "It does not prove that a server is harmless."
    ),
    epilog=examples(
        "tabane servers scan", "tabane servers scan github --json", "tabane servers scan --file tools.json"
    ),
)
@click.argument("names", metavar="[NAME]…", nargs=-1, shell_complete=server_names)
@option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help=say("Scan the JSON that a server returned for tools/list, without a hub."),
)
@with_hub
def scan(terminal: Terminal, names: tuple[str, ...], path: str | None) -> None:
    if path and names:
        raise BadArguments(say("Give either names or --file."), "names")
    if path:
        found = _of_file(Path(path))
    else:
        hub = terminal.hub()
        with terminal.working(say("Scanning")):
            found = hub.call("scan_servers", {"names": list(names)} if names else {})
    if not terminal.show_json(found):
        _print(terminal, found)
    if found["highest"] == "high":
        raise click.exceptions.Exit(FAILED)


def _of_file(path: Path) -> dict[str, Any]:
    from tabane.catalog.operations.definition_operations import report_of_file
    from tabane.guard.scanner.scanner import MOST_FILE

    if path.stat().st_size > MOST_FILE:
        raise BadArguments(say("The file is larger than {most} MiB.", most=MOST_FILE >> 20), "file")
    return report_of_file(path.stem, path.read_bytes(), lang())


_FINDING = (
    Column(say("severity"), "severity"),
    Column(say("server"), "server"),
    Column(say("kind"), "kind"),
    Column(say("name"), "name"),
    Column(say("finding"), "message"),
    Column(say("text"), "excerpt"),
)


def _print(terminal: Terminal, found: dict[str, Any]) -> None:
    print_rows(terminal, _FINDING, found["results"])
    count = len(found["results"])
    terminal.note(
        say(
            "{scanned} {scanned:definition|definitions} scanned, {count} {count:finding|findings}.",
            scanned=found["scanned"],
            count=count,
        )
    )
    if found["unknown"]:
        terminal.note(
            say(
                "Not scanned, because they have not listed anything yet: {names}. "
                "Run: tabane servers test NAME",
                names=", ".join(found["unknown"]),
            )
        )
