"""The web page of the hub, and other links, in a browser of the user. `tabane open` loads little besides."""

from __future__ import annotations

import os
import sys

import click

from tabane.cli.options import option, with_json
from tabane.cli.output import Command, Terminal, examples
from tabane.messages import say

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
"""Variables of which one is set where a browser with windows can be started, on Linux."""


def open_in_browser(url: str) -> bool:
    """Return whether a browser could be started. One in the terminal would not do."""
    import webbrowser

    if sys.platform == "linux" and not any(os.environ.get(name) for name in _SCREENS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def is_remote() -> bool:
    """Return whether the terminal is that of another computer, where the browser of the user is too."""
    return bool(os.environ.get("SSH_CONNECTION")) and not os.environ.get("BROWSER")


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
@with_json
def open_page(terminal: Terminal, /, path: str, only_print: bool) -> None:
    sign_in, _, code = terminal.hub().call("sign_in_link")["url"].partition("#")
    place = "" if path in ("", "/") else f"?to=/{path.lstrip('/')}"
    link = f"{sign_in}{place}#{code}"
    if only_print or terminal.json or not open_in_browser(link):
        terminal.show({"url": link}, link)
        return
    terminal.say(say("The page opens in your browser: {url}", url=sign_in.removesuffix("/sign-in") + "/"))
