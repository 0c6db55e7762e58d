"""`tabane read URL` and `tabane URL`: a page as Markdown on standard output."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from tabane.cli.options import combined, given, option, parameter_option, with_hub
from tabane.cli.output import INTERRUPTED, Command, Terminal, examples, lang
from tabane.errors import TabaneError
from tabane.messages import say
from tabane.reader.result_text import head
from tabane.reader.table import MOST_TOKENS, ReadUrl

_of_url = partial(parameter_option, ReadUrl)


@click.command(
    "read",
    cls=Command,
    help=say(
        "Print the content of a page, PDF or other URL as Markdown, after its title, "
        "author and date. The command name can be left out: tabane URL."
    ),
    epilog=examples(
        "tabane read https://example.com/",
        "tabane https://example.com/ --no-links",
        "tabane read https://example.com/ --max-tokens 4000",
        "tabane read https://example.com/report.pdf --json",
    ),
)
@click.argument("page", metavar="URL")
@combined((
    _of_url("max_tokens", default=None, metavar="N", help=say(
        "Print about this many tokens, and the cursor of the next part. Default: the whole page.")),
    _of_url("cursor", help=say("Cursor at which the previous part ended: print the next part.")),
    _of_url("format", help=say("Format of the content; raw is the source as served.")),
    _of_url("links", "--links/--no-links", help=say("Keep links, or only their text.")),
    _of_url("refresh", help=say("Ask the site even if the page is in the cache.")),
    _of_url("scrolls", metavar="SCREENS", help=say(
        "Open the page in a browser and scroll down this far, so that it loads more content.")),
    option("--remember", is_flag=True, help=say("Also save the page as a document.")),
))  # fmt: skip
@with_hub
def read(terminal: Terminal, /, page: str, remember: bool, **options: Any) -> None:
    wanted = given(options)
    if "max_tokens" not in wanted and "cursor" not in wanted:
        wanted["max_tokens"] = MOST_TOKENS  # the whole page: a person scrolls, and a pipe takes all of it
    address = page if "://" in page else f"https://{page}"
    try:
        with terminal.working(say("Reading {url}", url=address)):
            found = terminal.hub().call("read_url_content", {"url": address, **wanted})
            failure = _remember(terminal, address, found) if remember else None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not terminal.show_json(found):
        if found["format"] != "raw":
            terminal.say(head(found, lang()))
        terminal.say(found["content"].rstrip("\n"))
        for picture in found.get("pictures", ()):
            terminal.note(say("An image of type {kind}. Get it with --json.", kind=picture["media_type"]))
        if "next_cursor" in found:
            terminal.note(say("More results: --cursor {cursor}", cursor=found["next_cursor"]))
    if failure:
        raise failure


def _remember(terminal: Terminal, address: str, found: dict[str, Any]) -> TabaneError | None:
    """Add the page that was just read to the documents. Return the reason if it cannot be added."""
    try:
        found["remembered"] = terminal.hub().call("remember_url", {"url": address})["remembered"]
    except TabaneError as error:
        return error
    return None
