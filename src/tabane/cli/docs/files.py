"""`tabane docs add`, `watch` and `import-chroma`: documents made from files, folders and Chroma."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.following import follow
from tabane.cli.options import (
    Decorated,
    absolute_path,
    combined,
    detach_option,
    given,
    hub_options,
    option,
    parameter_option,
)
from tabane.cli.output import Command, TableState, Terminal, examples
from tabane.documents.parameters import AddDocuments, ImportChroma, WatchDocuments
from tabane.errors import BadArguments
from tabane.messages import say

if TYPE_CHECKING:
    from msgspec import Struct

SHOWN = 10
"""The number of unusable files that are shown."""


def _naming_options(params: type[Struct]) -> Callable[[Decorated], Decorated]:
    """Return the options that name the documents of files and leave out files."""
    return combined(
        (
            parameter_option(
                params, "id_prefix", metavar="PREFIX", default="",
                help=say("Prefix of the document ids."),
            ),
            parameter_option(
                params, "relative", "--relative", "--use-relative-path",
                help=say("Use paths relative to the folder as ids, instead of full paths."),
            ),
            parameter_option(params, "file_type", metavar="TYPE", help=say("The type of these documents.")),
            parameter_option(
                params, "ignore", metavar="GLOB",
                help=say(
                    "Leave out matching files, as in a .gitignore; !GLOB includes them again. "
                    "Repeatable."),
            ),
            parameter_option(
                params, "encoding", metavar="NAME",
                help=say("Encoding of files that are not Unicode and cannot be detected."),
            ),
        )
    )  # fmt: skip


@click.command(
    "add",
    cls=Command,
    help=say(
        "Make documents from files and folders: Markdown, text, source code, HTML, PDF, "
        "DOCX. Hidden files, files excluded by a .gitignore and unchanged files are "
        "skipped. If stopped, the same command continues."
    ),
    epilog=examples(
        "tabane docs add ~/notes",
        "tabane docs add . --relative --id-prefix myproject --ignore 'tests/' --prune",
        "tabane docs add report.pdf --file-type report",
        "tabane docs add ~/notes --since 2026-01-01",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=click.Path())
@_naming_options(AddDocuments)
@parameter_option(AddDocuments, "since", "--since", "--filter-from-date", metavar="DATE",
                  help=say("Only files changed since this date, such as 2026-01-31."))  # fmt: skip
@parameter_option(AddDocuments, "prune", help=say("Remove documents whose files no longer exist there."))
@parameter_option(AddDocuments, "again", help=say("Also save what is unchanged."))
@detach_option
@hub_options
@click.pass_obj
def add(terminal: Terminal, /, paths: Sequence[str], **options: Any) -> None:
    wanted = {"paths": [absolute_path(path) for path in paths], **_given(options)}
    report = follow(terminal, "add_documents", wanted)
    terminal.show(report, lambda: show_report(terminal, report))


@click.command(
    "watch",
    cls=Command,
    help=say(
        "Make documents from a folder's files and keep them up to date: files that are "
        "added, changed or removed later are followed, also after a restart."
    ),
    epilog=examples(
        "tabane docs watch ~/notes",
        "tabane docs watch . --relative --id-prefix myproject",
        "tabane docs watch --list",
        "tabane docs watch --remove ~/notes",
    ),
)
@click.argument("path", required=False, type=click.Path())
@option("--list", "listing", is_flag=True, help=say("List the folders that are watched."))
@option("--remove", is_flag=True, help=say("Stop watching the folder. Its documents are kept."))
@option("--prune", is_flag=True, help=say("With --remove: also remove its documents."))
@_naming_options(WatchDocuments)
@detach_option
@hub_options
@click.pass_obj
def watch(
    terminal: Terminal, /, path: str | None, listing: bool, remove: bool, prune: bool, **options: Any
) -> None:
    if listing or path is None:
        if not listing:
            raise BadArguments(say("Give a folder, or use --list."), "PATH")
        _list_watched(terminal)
    elif remove:
        done = terminal.hub().call("unwatch_documents", {"path": absolute_path(path), "remove": prune})
        terminal.show(done, lambda: _tell_of_end(terminal, done))
    else:
        report = follow(terminal, "watch_documents", {"path": absolute_path(path), **_given(options)})
        terminal.show(report, lambda: show_report(terminal, report))


@click.command(
    "import-chroma",
    cls=Command,
    help=say(
        "Import the documents of a Chroma collection that semche created. Names, texts, "
        "metadata and dates are kept; the texts are embedded again."
    ),
    epilog=examples(
        "tabane docs import-chroma ./chroma_db",
        "tabane docs import-chroma ./chroma_db --collection notes --id-prefix old",
    ),
)
@click.argument("path", type=click.Path())
@parameter_option(ImportChroma, "collection", metavar="NAME",
                  help=say("Name of the collection if there are several. Default: documents."))  # fmt: skip
@parameter_option(ImportChroma, "id_prefix", metavar="PREFIX", default="",
                  help=say("Prefix of the document ids."))  # fmt: skip
@detach_option
@hub_options
@click.pass_obj
def import_chroma(terminal: Terminal, /, path: str, **options: Any) -> None:
    report = follow(terminal, "import_chroma", {"path": absolute_path(path), **_given(options)})
    terminal.show(report, lambda: show_report(terminal, report))


def show_report(terminal: Terminal, report: dict[str, Any]) -> None:
    """Print what became of files, and the first ones that could not be used."""
    counts = {name: f"{report[name]:,}" for name in ("new", "changed", "unchanged", "removed")}
    terminal.say(
        say(
            "{new} new, {changed} changed, {unchanged} unchanged, {removed} removed; {seconds} s",
            **counts,
            seconds=report["seconds"],
        )
    )
    if report["older"]:
        terminal.note(say("{count} older {count:file was|files were} skipped.", count=f"{report['older']:,}"))
    if report["warning"]:
        terminal.note(report["warning"])
    if not report["bad"]:
        return
    terminal.note(say("{count} {count:file|files} could not be used:", count=f"{report['bad']:,}"))
    for problem in report["problems"][:SHOWN]:
        terminal.note(f"  {problem['path']}: {problem['reason']}")
    if report["bad"] > SHOWN:
        more = f"{report['bad'] - SHOWN:,}"
        terminal.note(say("  and {count} more; --json lists the first 200", count=more))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given; an empty text counts as not given."""
    return given({name: value for name, value in options.items() if value != ""})


def _list_watched(terminal: Terminal) -> None:
    found = terminal.hub(start=False).call("list_watched")
    if not found["results"] and not terminal.json:
        terminal.note(say("No folder is watched."))
    headers = [say("folder"), say("state"), say("files"), say("problem")]
    terminal.show(
        found,
        lambda: terminal.table(
            headers,
            (
                [row["path"], TableState(row["state"]), row["files"], row["problem"]]
                for row in found["results"]
            ),
        ),
    )


def _tell_of_end(terminal: Terminal, done: dict[str, Any]) -> None:
    terminal.say(say("{path} is no longer watched.", path=done["path"]))
    if done["removed"]:
        terminal.say(
            say("{count} {count:document was|documents were} removed.", count=f"{done['removed']:,}")
        )
