"""`tabane read URL` and `tabane URL`: a page as Markdown on standard output, or all pages of a site."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from tabane.cli.job_progress import follow
from tabane.cli.options import combined, detach_option, given, option, parameter_option, with_hub
from tabane.cli.output import INTERRUPTED, Command, Terminal, examples, lang, text
from tabane.errors import TabaneError
from tabane.messages import say
from tabane.reader.result_text import head, site_lines
from tabane.reader.table import MOST_TOKENS, ReadSite, ReadUrl

_of_url = partial(parameter_option, ReadUrl)
_of_site = partial(parameter_option, ReadSite)
SITE_OPERATIONS = ("read_site", "remember_site")
"""Operations whose result :func:`say_site` prints."""

_OF_BOTH, _SITE_ONLY = {"refresh"}, {"limit", "depth"}


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
        "tabane read --site https://docs.example.com/guide/ --limit 200 --remember",
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
    option("--remember", is_flag=True, help=say(
        "Also save the page, or each page of a site, as a document.")),
    option("--site", "site", is_flag=True, help=say(
        "Read all pages in the folder of URL, and keep them for search. The same command continues after a "
        "stop, and later reads only what has changed.")),
    _of_site("limit", default=None, help=say("With --site: read at most this many pages. Default: 200.")),
    _of_site("depth", metavar="LINKS", help=say(
        "With --site: follow links this far from the start page. Pages that only the sitemap names are left "
        "out.")),
))  # fmt: skip
@detach_option
@with_hub
def read(terminal: Terminal, /, page: str, remember: bool, site: bool, **options: Any) -> None:
    wanted = given(options)
    source = click.get_current_context().get_parameter_source
    named = [name for name in wanted if source(name) is not click.core.ParameterSource.DEFAULT]
    wrong = [name for name in named if name not in _OF_BOTH and (name in _SITE_ONLY) is not site]
    if terminal.detach and not site:
        wrong.append("detach")
    if wrong:
        name = wrong[0]
        flag = f"--{'no-' if wanted.get(name) is False else ''}{name.replace('_', '-')}"
        raise click.UsageError(
            text(
                say("{flag} cannot be used with --site.", flag=flag)
                if site
                else say("{flag} needs --site.", flag=flag)
            )
        )
    address = page if "://" in page else f"https://{page}"
    if site:
        _read_site(terminal, address, remember, {name: wanted[name] for name in named})
        return
    if "max_tokens" not in wanted and "cursor" not in wanted:
        wanted["max_tokens"] = MOST_TOKENS  # the whole page: a person scrolls, and a pipe takes all of it
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


def _read_site(terminal: Terminal, address: str, remember: bool, wanted: dict[str, Any]) -> None:
    """Start to read a site, or continue, and print what came of it."""
    operation = SITE_OPERATIONS[remember]
    found = follow(terminal, operation, {"url": address, **wanted})
    if not terminal.show_json(found):
        say_site(terminal, found)


def say_site(terminal: Terminal, report: dict[str, Any]) -> None:
    """Print what came of the reading of a site, and how its pages are found."""
    for line in site_lines(report, lang()):
        terminal.say(line)
    terminal.note(say("Find what the pages say with: tabane search WORDS"))


def _remember(terminal: Terminal, address: str, found: dict[str, Any]) -> TabaneError | None:
    """Add the page that was just read to the documents. Return the reason if it cannot be added."""
    try:
        found["remembered"] = terminal.hub().call("remember_url", {"url": address})["remembered"]
    except TabaneError as error:
        return error
    return None
