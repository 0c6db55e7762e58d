"""`tabane read URL`, and `tabane URL`: a page on standard output, as Markdown with what is known of it."""

from __future__ import annotations

import sys
from typing import Any

import click

from tabane.cli.blocks import readable
from tabane.cli.output import INTERRUPTED, Command, Terminal, examples, hub_options, lang, text
from tabane.errors import TabaneError
from tabane.messages import say

FORMATS = ("markdown", "text", "html", "raw")

WHOLE = 10_000_000
"""Tokens of a part where nobody asks for parts: a person scrolls, and a pipe takes all of it."""


@click.command(
    "read",
    cls=Command,
    help=text(
        say(
            "Print the content of a page, PDF or other URL as Markdown, with its title, author and date in "
            "front. The command may be left out: tabane URL."
        )
    ),
    epilog=examples(
        "tabane read https://example.com/",
        "tabane https://example.com/ --no-links",
        "tabane read https://example.com/ --max-tokens 4000",
        "tabane read https://example.com/report.pdf --json",
    ),
)
@click.argument("page", metavar="URL")
@click.option(
    "--max-tokens",
    type=click.IntRange(100, WHOLE),
    metavar="N",
    help=text(say("At most about so many tokens, and where to go on; else the whole page.")),
)
@click.option("--cursor", metavar="CURSOR", help=text(say("Where a part before ended: print the next one.")))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help=text(say("How the content is written; raw is what was served.")),
)
@click.option("--links/--no-links", default=True, help=text(say("Keep links, or their texts alone.")))
@click.option("--refresh", is_flag=True, help=text(say("Ask the site, even where the page was just read.")))
@click.option("--remember", is_flag=True, help=text(say("Also put the page into documents.")))
@hub_options
@click.pass_obj
def read(terminal: Terminal, /, page: str, form: str, remember: bool, **given: Any) -> None:
    if given["max_tokens"] is None and given["cursor"] is None:
        given["max_tokens"] = WHOLE
    wanted = {name: value for name, value in given.items() if value is not None}
    address = page if "://" in page else f"https://{page}"
    try:
        with terminal.working(say("Reading {url}", url=address)):
            found = terminal.hub().call("read_url_content", {"url": address, "format": form, **wanted})
            failure = _remember(terminal, address, found) if remember else None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    terminal.show(found, lambda: _print(terminal, found))
    if failure:
        raise failure


def _remember(terminal: Terminal, address: str, found: dict[str, Any]) -> TabaneError | None:
    """Add the page that was just read to the documents. Return the reason if it cannot be added."""
    try:
        found["remembered"] = terminal.hub().call("remember_url", {"url": address})["remembered"]
    except TabaneError as error:
        return error
    return None


def _print(terminal: Terminal, found: dict[str, Any]) -> None:
    from tabane.reader.result_text import head

    on_terminal = sys.stdout.isatty()
    if found["format"] != "raw":
        click.echo(readable(head(found, lang()), on_terminal=on_terminal))
    click.echo(readable(found["content"].rstrip("\n"), on_terminal=on_terminal))
    for picture in found.get("pictures", ()):
        terminal.note(say("An image of {kind}; --json has it.", kind=picture["media_type"]))
    if "next_cursor" in found:
        terminal.note(say("More follows: --cursor {cursor}", cursor=found["next_cursor"]))
