"""`tabane posts import` and `tabane posts export`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

from tabane.cli.following import follow
from tabane.cli.options import absolute_path, detach_option, hub_options, option, parameter_option
from tabane.cli.output import Command, Terminal, emit, examples
from tabane.cli.posts.post_options import limits, limits_options, warn_of_users
from tabane.errors import CallerError
from tabane.messages import Message, say
from tabane.posts.parameters import ExportPosts

SHOWN = 10
"""The number of unusable rows that are shown."""

_KINDS: dict[str, Message] = {
    "twilog.csv": say("posts (CSV)"),
    "x_archive": say("archive of X"),
    "results": say("results of a model"),
    "vectors of content": say("vectors of contents"),
    "vectors of reasoning": say("vectors of reasoning"),
    "vectors of summary": say("vectors of summaries"),
}


@click.command(
    "import",
    cls=Command,
    help=say(
        "Import posts from a twilog.csv, an archive of X (zip or folder), a model's "
        "results (.jsonl), folders of vectors, or the folder of an original twilog. "
        "Existing posts are kept; only new or changed ones are written. If stopped, the "
        "same command continues."
    ),
    epilog=examples(
        "tabane posts import twilog.csv",
        "tabane posts import twilog.csv -e embeddings -r batch/reasoning -s batch/summary",
        "tabane posts import twitter-archive.zip --prune",
        "tabane posts import --sample",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE…", type=click.Path())
@option("-e", "--embeddings", metavar="DIR", help=say("Folder with embeddings of the posts."))
@option("-r", "--reasoning", metavar="DIR", help=say("Folder with embeddings of the posts' reasoning."))
@option("-s", "--summary", metavar="DIR", help=say("Folder with embeddings of the posts' summaries."))
@option("--prune", is_flag=True, help=say("Remove posts that are in none of the files."))
@option("--report", metavar="FILE", help=say("Write every row that could not be imported to FILE."))
@option("--sample", is_flag=True, help=say("A small archive of invented posts, to try searches with."))
@detach_option
@hub_options
@click.pass_obj
def import_(
    terminal: Terminal, /, files: Sequence[str], prune: bool, sample: bool, **paths: str | None
) -> None:
    wanted: dict[str, Any] = {"files": [absolute_path(file) for file in files], "prune": prune}
    wanted |= {"sample": True} if sample else {}
    wanted |= {name: absolute_path(path) for name, path in paths.items() if path}
    report = follow(terminal, "import_posts", wanted)
    terminal.show(report, lambda: show_report(terminal, report))
    tell_of_embedding(terminal, report)


def show_report(terminal: Terminal, report: dict[str, Any]) -> None:
    """Print the report of an import: by source, in total, and the first rows that could not be used."""
    headers = [say("source"), say("kind"), say("read"), say("duplicates"), say("bad"), say("no such post")]
    rows = [
        [os.path.basename(one["source"]) or one["source"], _KINDS.get(one["kind"], one["kind"]),
         *(f"{one[name]:,}" for name in ("read", "duplicates", "bad", "unknown"))]
        for one in report["sources"]
    ]  # fmt: skip
    terminal.table(headers, rows)
    terminal.say("")
    terminal.say(
        say(
            "{new} new, {changed} changed, {unchanged} unchanged, {removed} removed; {vectors} "
            "{vectors:vector|vectors}; {seconds} s",
            **{name: f"{report[name]:,}" for name in ("new", "changed", "unchanged", "removed", "vectors")},
            seconds=report["seconds"],
        )
    )
    _show_bad(terminal, report)


def tell_of_embedding(terminal: Terminal, report: dict[str, Any]) -> None:
    """Print whether posts without vectors are being embedded, or why not."""
    written = report["new"] + report["changed"]
    if report["vectors"] >= written or terminal.json:
        return
    model = terminal.hub().call("model_status")
    if model["state"] == "none":
        terminal.note(say("Search finds them by keywords only. {why}", why=model.get("reason") or ""))
    else:
        terminal.note(say("Semantic search is still indexing them. See: tabane jobs"))


def _show_bad(terminal: Terminal, report: dict[str, Any]) -> None:
    if not report["whole"]:
        terminal.note(say("A source could not be read completely, so nothing was removed."))
    if not report["bad"]:
        return
    terminal.note(say("{count} {count:row|rows} could not be used:", count=f"{report['bad']:,}"))
    for bad in report["bad_rows"][:SHOWN]:
        place = f"{bad['file']}:{bad['line']}" if bad["line"] else bad["file"]
        terminal.note(f"  {place}: {bad['reason']}")
    more = report["bad"] - SHOWN
    if more > 0 and report["report"]:
        terminal.note(say("  and {count} more: {path}", count=f"{more:,}", path=report["report"]))
    elif more > 0:
        terminal.note(say("  and {count} more; --report FILE lists them all", count=f"{more:,}"))


@click.command(
    "export",
    cls=Command,
    help=say("Export posts as JSON lines with all their data, or as a CSV that can be imported again."),
    epilog=examples(
        "tabane posts export > posts.jsonl",
        "tabane posts export --format csv -o twilog.csv",
        "tabane posts export --user alice --from 2024-01-01 -o alice.jsonl",
    ),
)
@parameter_option(
    ExportPosts,
    "format",
    "--format",
    "form",
    help=say("Default: the file name's extension, or jsonl."),
)
@option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help=say("Output file; it is replaced after everything is written. - is standard output, the default."),
)
@limits_options
@hub_options
@click.pass_obj
def export(terminal: Terminal, /, form: str | None, output: str, **chosen: Any) -> None:
    hub = terminal.hub()
    warn_of_users(terminal, hub, (*chosen["users"], *chosen["not_users"]))
    wanted = limits(**chosen) | {"format": form or ("csv" if output.lower().endswith(".csv") else "jsonl")}
    with _opened(output) as file, terminal.working(say("Writing posts")):
        count = sum(_write(file, part["data"]) for part in hub.stream("export_posts", wanted))
    if output != "-":
        result = {"path": os.path.abspath(output), "bytes": count}
        terminal.show(
            result,
            lambda: terminal.say(say("{path}: {count} {count:byte|bytes}", path=output, count=f"{count:,}")),
        )


class ByteSink(Protocol):
    """A place that exported bytes go to."""

    def write(self, data: bytes, /) -> int: ...


class _TerminalSink:
    """A terminal: it gets the text clean. A pipe or a file gets the data as it is."""

    def write(self, data: bytes, /) -> int:
        emit(data.decode("utf-8", "replace"), nl=False)
        return len(data)


def _write(file: ByteSink, part: str) -> int:
    return file.write(part.encode("utf-8", "replace"))


@contextmanager
def _opened(path: str) -> Iterator[ByteSink]:
    """Return the file to write to. It replaces the old one when the block ends without an error."""
    if path == "-" and sys.stdout.isatty():
        yield _TerminalSink()
        return
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise CallerError(
            say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from None
    finally:
        if os.path.exists(part):
            os.unlink(part)
