"""`tabane open`: the web page of the hub in a browser, signed in by a link that works once."""

from __future__ import annotations

import click

from tabane.cli.browsers import open_in_browser
from tabane.cli.options import json_option, option
from tabane.cli.output import Command, Terminal, examples
from tabane.messages import say


@click.command(
    "open",
    cls=Command,
    help=say("Open the web page of the hub in a browser, signed in. Starts the hub if none is running."),
    epilog=examples("tabane open", "tabane open /servers", "tabane open --print"),
)
@click.argument("path", metavar="[PATH]", default="/")
@option(
    "--print", "only_print", is_flag=True,
    help=say("Print the link instead of opening a browser. It works once, for two minutes."),
)  # fmt: skip
@json_option
@click.pass_obj
def open_page(terminal: Terminal, /, path: str, only_print: bool) -> None:
    sign_in, _, code = terminal.hub().call("sign_in_link")["url"].partition("#")
    place = "" if path in ("", "/") else f"?to=/{path.lstrip('/')}"
    link = f"{sign_in}{place}#{code}"
    if only_print or terminal.json or not open_in_browser(link):
        terminal.show({"url": link}, lambda: terminal.say(link))
        return
    terminal.say(say("The page opens in your browser: {url}", url=sign_in.removesuffix("/sign-in") + "/"))
