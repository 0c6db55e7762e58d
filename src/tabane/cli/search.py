"""`tabane search` and `tabane manual`: one query over everything, and Tabane's documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tabane.cli.empty import nothing_to_search
from tabane.cli.operation_command import not_empty, operation_command
from tabane.cli.options import option, with_hub
from tabane.cli.output import Command, Terminal, emit, examples, text
from tabane.cli.terminal_text import Line, StyledText
from tabane.messages import say
from tabane.wire import json

KINDS = ("posts", "documents", "pages", "tools", "docs")


def _kinds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Parse names separated by commas, each one of :data:`KINDS`."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in KINDS:
            raise click.BadParameter(
                text(say("{name} is not one of {known}", name=name, known=", ".join(KINDS))), ctx, parameter
            )
    return names or None


def _completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the last of several kinds for the shell."""
    named, comma, last = incomplete.rpartition(",")
    rest = (kind for kind in KINDS if kind not in named.split(","))
    return [f"{named}{comma}{kind}" for kind in rest if kind.startswith(last)]


@click.command(
    cls=Command,
    help=say(
        "Search posts, documents, pages that were read, tools and Tabane's own documentation, in English "
        "or Japanese."
    ),
    epilog=examples(
        "tabane search 'restart a server'",
        "tabane search 'moving house' --in documents,pages",
        "tabane search 環境変数 --in docs --limit 3",
    ),
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@option(
    "--in",
    "places",
    metavar="KIND,…",
    callback=_kinds,
    shell_complete=_completed,
    help=say("What to search: posts, documents, pages, tools, docs (Tabane's documentation). Default: all."),
)
@option(
    "--limit",
    "top_k",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help=say("Maximum number of results."),
)
@with_hub
def search(terminal: Terminal, /, query: Sequence[str], places: list[str] | None, top_k: int) -> None:
    wanted: dict[str, Any] = {"query": " ".join(query), "top_k": top_k}
    if places:
        wanted["in"] = places
    with terminal.working(say("Searching")):
        found = terminal.hub().call("search_everything", wanted)
    for hit in found["results"]:
        hit["open"] = command(hit["open"])
        for other in hit.get("also", ()):
            other["open"] = command(other["open"])
    if terminal.show_json(found):
        return
    hits = found["results"]
    empty = None if hits else nothing_to_search(terminal.hub(), wanted)
    if "warning" in found and not empty:
        terminal.note(found["warning"])
    if not hits:
        terminal.note(empty or say("Nothing was found."))
    for hit in hits:
        # a page that is a document too can be opened in two ways
        commands = [hit["open"], *(other["open"] for other in hit.get("also", ()))]
        emit(StyledText(hit["title"], "bold"), StyledText("  " + "  ".join(commands), "dim"))
        if hit["text"].strip():
            emit("  ", *_marked(hit["text"], hit["marks"]))


def _marked(shown: str, marks: list[list[int]]) -> Line:
    """Return the passage on one line, with the words that matched underlined."""
    parts, last = [], 0
    for start, end in marks:
        parts += [StyledText(shown[last:start]), StyledText(shown[start:end], "underline")]
        last = end
    parts.append(StyledText(shown[last:].rstrip()))
    parts[0] = StyledText(parts[0].text.lstrip())
    return [StyledText(_BLANKS.sub(" ", part.text), part.style) for part in parts]


_BLANKS = re.compile(r"\s+")


_COMMANDS: Mapping[str, tuple[Sequence[str], str]] = {
    "get_post": (("posts", "get"), "post_id"),
    "get_document": (("docs", "get"), "filepath"),
    "get_documentation": (("manual",), "section"),
    "read_url_content": (("read",), "url"),
    "describe_tools": (("tools", "show"), "names"),
}
"""Method: its command, and the parameter that the command takes as arguments."""


def command(reference: Mapping[str, Any]) -> str:
    """Return the command for a reference. A method without its own command is called by `tabane rpc`."""
    method, params = reference["method"], reference["params"]
    if method not in _COMMANDS:
        return shlex.join(["tabane", "rpc", method, "--params", json.encode(params).decode()])
    words, parameter = _COMMANDS[method]
    value = params[parameter]
    values = list(value) if isinstance(value, list) else [value]
    dashed = any(each.startswith("-") for each in values)
    return shlex.join(["tabane", *words, *(["--"] if dashed else []), *values])


def _print_page(terminal: Terminal, found: dict[str, Any]) -> None:
    if "pages" in found:
        emit("\n".join(found["pages"]))
    else:
        emit(StyledText(found["title"], "bold"), f"\n\n{found['text']}")


def _sections(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a page of the documentation for the shell; after ``:`` the lines of its sections."""
    from tabane.hub.sources.manual import pages, sections  # the commands themselves ask the hub

    page, colon, _ = incomplete.partition(":")
    if not colon:
        return [name for name, _ in pages() if name.startswith(incomplete)]
    found = (each.key for name, markdown in pages() if name == page for each in sections(name, markdown))
    return [key for key in found if key.startswith(incomplete)]


manual = operation_command(
    None, "manual", "get_documentation",
    click.argument("section", metavar="[SECTION]", required=False, shell_complete=_sections),
    help=say(
        "Print a page of Tabane's documentation, or a section of it. Without SECTION, list the pages."
    ),
    epilog=examples("tabane manual", "tabane manual servers", "tabane manual settings#flow_policy"),
    params=not_empty,
    text=_print_page,
)  # fmt: skip
