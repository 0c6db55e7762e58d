"""`tabane posts import`: files become the archive, or bring it up to date; and what that did, as a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from typing import Any

import click

from tabane.cli.output import Command, Terminal, detach_option, examples, hub_options, text
from tabane.messages import Message, say

SHOWN = 10
"""Rows that could not be used, and are shown."""

SAMPLE = ("twilog.csv", "results.jsonl")
"""An archive of some hundred posts, of people who do not exist: its files."""

_KINDS: dict[str, Message] = {
    "twilog.csv": say("posts (CSV)"),
    "x_archive": say("archive of X"),
    "results": say("results of a model"),
    "vectors of content": say("vectors of contents"),
    "vectors of reasoning": say("vectors of reasonings"),
    "vectors of summary": say("vectors of summaries"),
}


@click.command(
    "import",
    cls=Command,
    help=text(
        say(
            "Take posts in: from a twilog.csv, an archive of X (zip or folder), a model's results (.jsonl), "
            "folders of vectors, or the folder of an original twilog. What is there already stays; only "
            "what is new or changed is written. Stopped, the same command goes on."
        )
    ),
    epilog=examples(
        "tabane posts import twilog.csv",
        "tabane posts import twilog.csv -e embeddings -r batch/reasoning -s batch/summary",
        "tabane posts import twitter-archive.zip --prune",
        "tabane posts import --sample",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE…", type=click.Path())
@click.option("-e", "--embeddings", metavar="DIR", help=text(say("A folder with the vectors of posts.")))
@click.option(
    "-r", "--reasoning", metavar="DIR", help=text(say("A folder with the vectors of their reasoning."))
)
@click.option(
    "-s", "--summary", metavar="DIR", help=text(say("A folder with the vectors of their summaries."))
)
@click.option("--prune", is_flag=True, help=text(say("Remove posts that none of the files has.")))
@click.option("--report", metavar="FILE", help=text(say("List every row there that could not be used.")))
@click.option(
    "--sample", is_flag=True, help=text(say("A small archive that was made up, to try things with."))
)
@detach_option
@hub_options
@click.pass_obj
def import_(
    terminal: Terminal, /, files: Sequence[str], prune: bool, sample: bool, **paths: str | None
) -> None:
    named = [*files, *(sample_files() if sample else [])]
    wanted: dict[str, Any] = {"files": [whole_path(file) for file in named], "prune": prune}
    wanted |= {name: whole_path(path) for name, path in paths.items() if path}
    report = terminal.follow("import_posts", wanted)
    terminal.show(report, lambda: show_report(terminal, report))
    tell_of_embedding(terminal, report)


def sample_files() -> list[str]:
    """Where the archive is that ships."""
    folder = resources.files("tabane.posts") / "sample"
    return [str(folder / name) for name in SAMPLE]


def whole_path(path: str) -> str:
    """The path as the hub needs it, which has another working directory."""
    return os.path.abspath(os.path.expanduser(path))


def show_report(terminal: Terminal, report: dict[str, Any]) -> None:
    """What an import did: by source, in all, and the first rows that could not be used."""
    headers = [say("source"), say("kind"), say("read"), say("duplicates"), say("bad"), say("of no post")]
    rows = [
        [os.path.basename(one["source"]) or one["source"], _KINDS.get(one["kind"], one["kind"]),
         *(f"{one[name]:,}" for name in ("read", "duplicates", "bad", "unknown"))]
        for one in report["sources"]
    ]  # fmt: skip
    terminal.table(headers, rows)
    terminal.say("")
    terminal.say(
        say(
            "{new} new, {changed} changed, {unchanged} unchanged, {removed} removed; {vectors} vectors; "
            "{seconds} s",
            **{name: f"{report[name]:,}" for name in ("new", "changed", "unchanged", "removed", "vectors")},
            seconds=report["seconds"],
        )
    )
    _show_bad(terminal, report)


def tell_of_embedding(terminal: Terminal, report: dict[str, Any]) -> None:
    """Say when posts that came without vectors will be found by their meaning, or why they will not."""
    written = report["new"] + report["changed"]
    if report["vectors"] >= written or terminal.json:
        return
    model = terminal.hub().call("model_status")
    if model["state"] == "none":
        terminal.note(say("They are found by their words alone. {why}", why=model.get("reason") or ""))
    else:
        terminal.note(
            say("They are being embedded meanwhile, to be found by their meaning too. See: tabane jobs")
        )


def _show_bad(terminal: Terminal, report: dict[str, Any]) -> None:
    if not report["whole"]:
        terminal.note(say("A source could not be read to its end; nothing was removed."))
    if not report["bad"]:
        return
    terminal.note(say("{count} rows could not be used:", count=f"{report['bad']:,}"))
    for bad in report["bad_rows"][:SHOWN]:
        place = f"{bad['file']}:{bad['line']}" if bad["line"] else bad["file"]
        terminal.note(f"  {place}: {bad['reason']}")
    more = report["bad"] - SHOWN
    if more > 0 and report["report"]:
        terminal.note(say("  and {count} more: {path}", count=f"{more:,}", path=report["report"]))
    elif more > 0:
        terminal.note(say("  and {count} more; --report FILE lists them all", count=f"{more:,}"))
