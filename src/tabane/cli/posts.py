"""`tabane posts`: the archive of posts, imported, searched, counted and exported."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import click

from tabane.cli.empty import NO_POSTS, no_posts
from tabane.cli.operation_command import operation_command
from tabane.cli.options import absolute, option, parameter_option, with_hub, words
from tabane.cli.output import Command, Group, Terminal, emit, examples, text
from tabane.cli.post_options import (
    LIMITS,
    VIEWS,
    WEIGHING,
    entries,
    limits,
    limits_options,
    mode_options,
    show_post,
    show_posts,
    warn_of_users,
    weights_of,
)
from tabane.cli.terminal_text import StyledText
from tabane.errors import CallerError
from tabane.messages import Message, filled, say
from tabane.posts.table import ExportPosts, Facet, RelatedPosts, SearchSimilar, SearchText, Timeline
from tabane.text.units import bytes_text

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

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
    ExportPosts, "format", "--format", "form", help=say("Default: the file name's extension, or jsonl.")
)
@option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help=say("Output file; it is replaced after everything is written. - is standard output, the default."),
)
@limits_options
@with_hub
def export(terminal: Terminal, /, form: str | None, output: str, **chosen: Any) -> None:
    hub = terminal.hub()
    wanted = _limited(chosen) | {"format": form or ("csv" if output.lower().endswith(".csv") else "jsonl")}
    with _opened(output) as file, terminal.working(say("Writing posts")):
        count = sum(
            file.write(part["data"].encode("utf-8", "replace")) for part in hub.stream("export_posts", wanted)
        )
    if output != "-":
        result = {"path": os.path.abspath(output), "bytes": count}
        terminal.show(result, say("{path}: {size}", path=output, size=bytes_text(count)))


class ByteSink(Protocol):
    """A place that exported bytes go to."""

    def write(self, data: bytes, /) -> int: ...


class _TerminalSink:
    """A terminal: it gets the text clean. A pipe or a file gets the data as it is."""

    def write(self, data: bytes, /) -> int:
        emit(data.decode("utf-8", "replace"), nl=False)
        return len(data)


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


_BAR = 40  # columns of the longest bar
_FIELDS = {"user": "user", "tag": "tags", "type": "log_type"}
_HEADERS = {"user": say("user"), "tag": say("tag"), "type": say("type")}


@click.group(
    "posts",
    cls=Group,
    help=say("Search your archive of posts by meaning and by keywords; import and export it."),
)
def posts() -> None: ...


def _print_import(terminal: Terminal, report: dict[str, Any]) -> None:
    show_report(terminal, report)
    tell_of_embedding(terminal, report)


def _absolute_if_any(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return the path of an option as the hub needs it; an empty one counts as not given."""
    return absolute(ctx, parameter, value or None)


_FOLDER = partial(option, metavar="DIR", callback=_absolute_if_any)

operation_command(
    posts, "import", "import_posts",
    click.argument("files", nargs=-1, metavar="FILE…", type=click.Path(), callback=absolute),
    _FOLDER("-e", "--embeddings", help=say("Folder with embeddings of the posts.")),
    _FOLDER("-r", "--reasoning", help=say("Folder with embeddings of the posts' reasoning.")),
    _FOLDER("-s", "--summary", help=say("Folder with embeddings of the posts' summaries.")),
    option("--prune", is_flag=True, help=say("Remove posts that are in none of the files.")),
    option("--report", metavar="FILE", callback=_absolute_if_any,
           help=say("Write every row that could not be imported to FILE.")),
    option("--sample", is_flag=True, help=say("A small archive of invented posts, to try searches with.")),
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
    params=lambda options: {"files": [], **{name: value for name, value in options.items() if value}},
    job=True,
    text=_print_import,
)  # fmt: skip


_view = option(
    "--view", type=click.Choice(VIEWS), default="normal", show_default=True, help=say("How posts are shown.")
)


def _limited(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as parameters, also those that select posts. Notes names that are no user's."""
    chosen = {name: options.pop(name) for name in LIMITS if name in options}
    found = options | limits(**chosen)
    terminal = click.get_current_context().ensure_object(Terminal)
    warn_of_users(terminal, terminal.hub(), (*chosen.get("users", ()), *chosen.get("not_users", ())))
    return found


def _query(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as parameters, without the view. The default mode with weights is average."""
    del options["view"]
    if "weights" in options:
        options["mode"] = options.get("mode") or WEIGHING[0]
        options["weights"] = list(weights_of(options["weights"]))
    return _limited(options)


def _print_found(head: Message, terminal: Terminal, rows: list[dict[str, Any]]) -> None:
    """Print posts below ``head``, which names their number."""
    asked = click.get_current_context().params
    if asked["view"] != "list" or sys.stdout.isatty():
        title = filled(head, {"query": asked.get("search_term")}, asked, {"count": f"{len(rows):,}"})
        terminal.say(StyledText(text(title), "bold"))
        terminal.say("")
    show_posts(terminal, entries(rows), asked["view"])


def _no_results(hub: HubClient) -> Message:
    return no_posts(hub) or say("No results were found.")


_search = partial(operation_command, posts, params=_query, working=say("Searching"), empty=_no_results)
_most = say("Maximum number of results.")

_search(
    "search", "search_similar",
    words("query", "QUERY"),
    mode_options,
    parameter_option(SearchSimilar, "top_k", "--top-k", "--limit", "top_k", help=_most),
    limits_options,
    _view,
    help=say(
        "Find posts by meaning. QUERY is meaning|text: posts that are close to the meaning "
        'and contain the text (word "a phrase" -not). Either part can be left out.'
    ),
    epilog=examples(
        "tabane posts search '猫の写真'",
        "tabane posts search 'learning to program|Python -Ruby' --user alice --from 2024-01-01",
        "tabane posts search 'coffee' --mode hybrid --view list",
    ),
    text=partial(_print_found, say('🔍 Search results: {count} (query: "{query}")')),
)  # fmt: skip

_search(
    "text", "search_posts_by_text",
    words("search_term", "TERM"),
    parameter_option(SearchText, "source", default="content", show_default=True,
                     help=say("The text that is searched.")),
    parameter_option(SearchText, "limit", metavar=None, help=_most),
    limits_options,
    _view,
    help=say('Find posts that contain a text, newest first: word "a phrase" -not.'),
    epilog=examples("tabane posts text 'Python -Ruby'", "tabane posts text 日記 --source summary --limit 5"),
    text=partial(_print_found, say('📝 Text search results: {count} (term: "{query}")')),
)  # fmt: skip

_search(
    "related", "get_related_posts",
    click.argument("post_id", metavar="ID"),
    mode_options,
    parameter_option(RelatedPosts, "top_k", "--top-k", "--limit", "top_k", help=_most),
    limits_options,
    _view,
    help=say("Find the posts most similar to a post."),
    epilog=examples("tabane posts related 1609704062058496137 --limit 5"),
    text=partial(_print_found, say("🔗 Related posts: {count} (of {post_id})")),
)  # fmt: skip

get = operation_command(
    posts, "get", "get_post", click.argument("post_id", metavar="ID"),
    help=say("Show one post with all its data."),
    epilog=examples("tabane posts get 1609704062058496137"),
    text=show_post,
)  # fmt: skip

_former = copy.copy(get)
_former.hidden = True
posts.add_command(_former, "show")  # its name up to 0.1.0


@posts.command(
    help=say("Show the size of the archive and its most frequent users and tags."),
    epilog=examples("tabane posts stats", "tabane posts stats --by tag --user alice --limit 20"),
)
@option(
    "--by", type=click.Choice(list(_FIELDS)), default="user", show_default=True, help=say("What to count.")
)
@parameter_option(Facet, "limit", metavar=None, default=10, help=say("Maximum number of results."))
@limits_options
@with_hub
def stats(terminal: Terminal, /, by: str, limit: int, **chosen: Any) -> None:
    hub = terminal.hub()
    counted = hub.call("get_post_facets", {"field": _FIELDS[by], "limit": limit, **_limited(chosen)})
    whole = hub.call("get_database_stats")
    if not terminal.show_json({**whole, "results": counted}):
        header = _HEADERS[by]
        span = whole["date_range"]
        period = f"{span['earliest']} – {span['latest']}" if span["earliest"] else None
        facts = [
            (say("posts"), f"{whole['total_posts']:,}"),
            (say("users"), f"{whole['total_users']:,}"),
            (say("period"), period),
        ]
        terminal.pairs((name, value) for name, value in facts if value)
        terminal.say("")
        _print_counts(terminal, header, counted)
        if not whole.get("total_posts"):
            terminal.note(NO_POSTS)


operation_command(
    posts, "users", "get_user_list",
    help=say("List all users of the archive, the most active first."),
    epilog=examples("tabane posts users"),
    text=lambda _, names: "\n".join(names),
    empty=_no_results,
)  # fmt: skip


def _print_similar(terminal: Terminal, found: dict[str, Any]) -> None:
    if not found:
        terminal.note(say("All of these users have posts in the archive."))
    terminal.table([say("name"), say("perhaps")], found.items())


operation_command(
    posts, "suggest", "suggest_users",
    click.argument("user_list", nargs=-1, required=True, metavar="NAME…"),
    help=say("Show users with similar names for names that no user has."),
    epilog=examples("tabane posts suggest alcie bbo"),
    text=_print_similar,
)  # fmt: skip


operation_command(
    posts, "timeline", "get_timeline",
    parameter_option(Timeline, "unit", default="month", show_default=True, help=say("Length of a period.")),
    limits_options,
    help=say("Show the number of posts by year, month or day."),
    epilog=examples("tabane posts timeline", "tabane posts timeline --unit year --user alice"),
    params=_limited,
    text=lambda terminal, rows: _print_counts(terminal, say("period"), rows),
    empty=_no_results,
)  # fmt: skip


posts.add_command(export)


@posts.command(
    help=say(
        "Search interactively, with history, completion of commands and users, and paging. "
        "/help lists the commands; Ctrl+D exits."
    ),
    epilog=examples("tabane posts shell"),
)
@with_hub
def shell(terminal: Terminal) -> None:
    from tabane.cli.posts_shell import run_shell

    run_shell(terminal)


def _print_counts(terminal: Terminal, header: Message, rows: list[dict[str, Any]]) -> None:
    """Print values with their number of posts; on a terminal also as bars."""
    most = max((row["post_count"] for row in rows), default=1)
    drawn = sys.stdout.isatty()
    terminal.table(
        [header, say("posts"), *([""] if drawn else [])],
        (
            [next(iter(row.values())), f"{row['post_count']:,}" if drawn else row["post_count"],
             *(["▇" * max(1, row["post_count"] * _BAR // most)] if drawn else [])]
            for row in rows
        ),
    )  # fmt: skip
