"""`tabane docs add`, `watch` and `import-chroma`: files and folders become documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tabane.cli.output import Command, State, Terminal, detach_option, examples, hub_options, text
from tabane.errors import BadArguments
from tabane.messages import say

SHOWN = 10
"""Files that could not be used, and are shown."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _naming_options(function: _Function) -> _Function:
    """How documents of files are called, and which files are left out."""
    options = (
        click.option(
            "--id-prefix",
            metavar="PREFIX",
            default="",
            help=text(say("What the ids of the documents begin with.")),
        ),
        click.option(
            "--relative",
            "--use-relative-path",
            is_flag=True,
            help=text(say("Take as ids the paths below the folder, not the whole ones.")),
        ),
        click.option("--file-type", metavar="TYPE", help=text(say("The type of these documents."))),
        click.option(
            "--ignore",
            metavar="GLOB",
            multiple=True,
            help=text(say("Leave these out, as a .gitignore would; !GLOB takes them in again. Repeatable.")),
        ),
        click.option(
            "--encoding",
            metavar="NAME",
            help=text(say("What texts are in that are not Unicode, where that cannot be told.")),
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command(
    "add",
    cls=Command,
    help=text(
        say(
            "Make documents of files and folders: Markdown, text, source code, HTML, PDF, DOCX. What is "
            "hidden, or left out by a .gitignore, is passed over, and so is what is unchanged. Stopped, the "
            "same command goes on."
        )
    ),
    epilog=examples(
        "tabane docs add ~/notes",
        "tabane docs add . --relative --id-prefix myproject --ignore 'tests/' --prune",
        "tabane docs add report.pdf --file-type report",
        "tabane docs add ~/notes --since 2026-01-01",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=click.Path())
@_naming_options
@click.option(
    "--since",
    "--filter-from-date",
    metavar="DATE",
    help=text(say("Only files that were changed since then, such as 2026-01-31.")),
)
@click.option("--prune", is_flag=True, help=text(say("Remove documents of files that are gone from there.")))
@click.option("--again", is_flag=True, help=text(say("Put what is unchanged, too.")))
@detach_option
@hub_options
@click.pass_obj
def add(
    terminal: Terminal, /, paths: Sequence[str], since: str | None, prune: bool, again: bool, **given: Any
) -> None:
    wanted = {"paths": [whole_path(path) for path in paths], "prune": prune, "again": again}
    wanted |= {"since": since} if since else {}
    report = terminal.follow("add_documents", wanted | _named(**given))
    terminal.show(report, lambda: show_report(terminal, report))


@click.command(
    "watch",
    cls=Command,
    help=text(
        say(
            "Make documents of a folder's files, and follow what is added, changed and removed there from "
            "then on, after restarts too."
        )
    ),
    epilog=examples(
        "tabane docs watch ~/notes",
        "tabane docs watch . --relative --id-prefix myproject",
        "tabane docs watch --list",
        "tabane docs watch --remove ~/notes",
    ),
)
@click.argument("path", required=False, type=click.Path())
@click.option("--list", "listing", is_flag=True, help=text(say("List the folders that are watched.")))
@click.option("--remove", is_flag=True, help=text(say("Watch the folder no longer. Its documents stay.")))
@click.option("--prune", is_flag=True, help=text(say("With --remove: remove its documents, too.")))
@_naming_options
@detach_option
@hub_options
@click.pass_obj
def watch(
    terminal: Terminal, /, path: str | None, listing: bool, remove: bool, prune: bool, **given: Any
) -> None:
    if listing or path is None:
        if not listing:
            raise BadArguments(say("Name a folder, or use --list."), "PATH")
        _list_watched(terminal)
    elif remove:
        done = terminal.hub().call("unwatch_documents", {"path": whole_path(path), "remove": prune})
        terminal.show(done, lambda: _tell_of_end(terminal, done))
    else:
        report = terminal.follow("watch_documents", {"path": whole_path(path), **_named(**given)})
        terminal.show(report, lambda: show_report(terminal, report))


@click.command(
    "import-chroma",
    cls=Command,
    help=text(
        say(
            "Take over the documents of a Chroma collection, as semche made them. Names, texts, metadata "
            "and dates are kept; the texts are embedded anew."
        )
    ),
    epilog=examples(
        "tabane docs import-chroma ./chroma_db",
        "tabane docs import-chroma ./chroma_db --collection notes --id-prefix old",
    ),
)
@click.argument("path", type=click.Path())
@click.option(
    "--collection", metavar="NAME", help=text(say("Which one, where there are several: else documents."))
)
@click.option(
    "--id-prefix", metavar="PREFIX", default="", help=text(say("What the ids of the documents begin with."))
)
@detach_option
@hub_options
@click.pass_obj
def import_chroma(terminal: Terminal, /, path: str, collection: str | None, id_prefix: str) -> None:
    wanted = {"path": whole_path(path), "id_prefix": id_prefix}
    wanted |= {"collection": collection} if collection else {}
    report = terminal.follow("import_chroma", wanted)
    terminal.show(report, lambda: show_report(terminal, report))


def whole_path(path: str) -> str:
    """The path as the hub needs it, which has another working directory."""
    return os.path.abspath(os.path.expanduser(path))


def show_report(terminal: Terminal, report: dict[str, Any]) -> None:
    """What became of files, and the first that could not be used."""
    counts = {name: f"{report[name]:,}" for name in ("new", "changed", "unchanged", "removed")}
    terminal.say(
        say(
            "{new} new, {changed} changed, {unchanged} unchanged, {removed} removed; {seconds} s",
            **counts,
            seconds=report["seconds"],
        )
    )
    if report["older"]:
        terminal.note(say("{count} files are older and were passed over.", count=f"{report['older']:,}"))
    if report["warning"]:
        terminal.note(report["warning"])
    if not report["bad"]:
        return
    terminal.note(say("{count} files could not be used:", count=f"{report['bad']:,}"))
    for problem in report["problems"][:SHOWN]:
        terminal.note(f"  {problem['path']}: {problem['reason']}")
    if report["bad"] > SHOWN:
        more = f"{report['bad'] - SHOWN:,}"
        terminal.note(say("  and {count} more; --json lists the first 200", count=more))


def _named(
    id_prefix: str, relative: bool, file_type: str | None, ignore: Sequence[str], encoding: str | None
) -> dict[str, Any]:
    wanted: dict[str, Any] = {"id_prefix": id_prefix, "relative": relative, "ignore": list(ignore)}
    return wanted | {
        name: value for name, value in (("file_type", file_type), ("encoding", encoding)) if value
    }


def _list_watched(terminal: Terminal) -> None:
    found = terminal.hub(start=False).call("list_watched")
    if not found["results"] and not terminal.json:
        terminal.note(say("No folder is watched."))
    headers = [say("folder"), say("state"), say("files"), say("problem")]
    terminal.show(
        found,
        lambda: terminal.table(
            headers,
            ([row["path"], State(row["state"]), row["files"], row["problem"]] for row in found["results"]),
        ),
    )


def _tell_of_end(terminal: Terminal, done: dict[str, Any]) -> None:
    terminal.say(say("{path} is not watched any more.", path=done["path"]))
    if done["removed"]:
        terminal.say(say("{count} documents were removed.", count=f"{done['removed']:,}"))
