"""`tabane search`: one query over all there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tabane.cli.output import Terminal, examples, hub_options, text
from tabane.cli.references import command
from tabane.messages import say

KINDS = ("posts", "documents", "pages", "tools", "docs")


def _kinds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Names separated by commas, each one of :data:`KINDS`."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in KINDS:
            raise click.BadParameter(
                text(say("{name} is none of {known}", name=name, known=", ".join(KINDS))), ctx, parameter
            )
    return names or None


def _completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes the last of several kinds for the shell."""
    named, comma, last = incomplete.rpartition(",")
    rest = (kind for kind in KINDS if kind not in named.split(","))
    return [f"{named}{comma}{kind}" for kind in rest if kind.startswith(last)]


@click.command(
    help=text(
        say(
            "Search posts, documents, pages that were read, tools and Tabane's own documentation, in English "
            "or Japanese."
        )
    ),
    epilog=examples(
        "tabane search 'restart a server'",
        "tabane search 'moving house' --in documents,pages",
        "tabane search 環境変数 --in docs --limit 3",
    ),
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option(
    "--in",
    "places",
    metavar="KIND,…",
    callback=_kinds,
    shell_complete=_completed,
    help=text(
        say(
            "What to look among: posts, documents, pages, tools, docs (Tabane's own); all where none is "
            "named."
        )
    ),
)
@click.option(
    "--limit",
    "top_k",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help=text(say("How many.")),
)
@hub_options
@click.pass_obj
def search(terminal: Terminal, /, query: Sequence[str], places: list[str] | None, top_k: int) -> None:
    wanted: dict[str, Any] = {"query": " ".join(query), "top_k": top_k}
    if places:
        wanted["in"] = places
    found = terminal.hub().call("search_everything", wanted)
    for hit in found["results"]:
        hit["open"] = command(hit["open"])
    terminal.show(found, lambda: _print(terminal, found))


def _print(terminal: Terminal, found: dict[str, Any]) -> None:
    if "warning" in found:
        terminal.note(found["warning"])
    hits = found["results"]
    if not hits:
        terminal.note(say("Nothing was found."))
    for hit in hits:
        terminal.say(click.style(hit["title"], bold=True) + click.style(f"  {hit['open']}", dim=True))
        passage = " ".join(_marked(hit["text"], hit["marks"]).split())
        if passage:
            terminal.say(f"  {passage}")


def _marked(shown: str, marks: list[list[int]]) -> str:
    """The passage with the words that were found underlined."""
    parts, last = [], 0
    for start, end in marks:
        parts += [shown[last:start], click.style(shown[start:end], underline=True)]
        last = end
    return "".join([*parts, shown[last:]])
