"""`tabane servers login` and `logout`: logins at servers that require one."""

from __future__ import annotations

import contextlib
import select
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.browsers import is_remote, open_in_browser
from tabane.cli.options import hub_options, option
from tabane.cli.output import Command, Terminal, examples
from tabane.cli.servers_file import server_names
from tabane.errors import TabaneError, UpstreamUnavailable
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

LOOK = 1.0
"""Seconds between two looks at what the user pasted."""

_name = click.argument("name", metavar="NAME", shell_complete=server_names)


@click.command(
    "login",
    cls=Command,
    help=say(
        "Log in at a server that requires it. Opens the login page in your browser, or prints its URL if "
        "there is none, as over SSH."
    ),
    epilog=examples("tabane servers login linear", "tabane servers login github --device"),
)
@_name
@option("--device", is_flag=True, help=say("Log in with a code that you enter on any device."))
@option("--no-browser", is_flag=True, help=say("Print the URL instead of opening a browser."))
@option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help=say("A permission to ask for besides the usual ones; repeatable."),
)
@hub_options
@click.pass_obj
def login(terminal: Terminal, name: str, device: bool, no_browser: bool, scopes: tuple[str, ...]) -> None:
    hub = terminal.hub()
    given: dict[str, Any] = {"server": name, "scopes": list(scopes), "restart": True}
    begun = hub.call("start_login", given | ({"flow": "device"} if device else {}))
    if "id" not in begun:
        _done(terminal, hub, name, begun)
        return
    _show(terminal, begun, no_browser=no_browser)
    _done(terminal, hub, name, _waited(terminal, hub, begun))


@click.command(
    "logout",
    cls=Command,
    help=say("Log out at a server: its tokens are revoked, where that is offered, and deleted here."),
    epilog=examples("tabane servers logout linear"),
)
@_name
@hub_options
@click.pass_obj
def logout(terminal: Terminal, name: str) -> None:
    done = terminal.hub().call("logout_server", {"server": name})
    if not done["was_signed_in"]:
        what = say("There was no login at {name!n}.", name=name)
    elif done["revoked"]:
        what = say("Logged out at {name!n}. Its tokens were revoked.", name=name)
    else:
        what = say("Logged out at {name!n}. Its tokens were deleted here.", name=name)
    terminal.show(done, lambda: terminal.say(what))


def _show(terminal: Terminal, begun: dict[str, Any], *, no_browser: bool) -> None:
    """Tell the user where to log in. With --json, standard output has the result only."""
    if begun["flow"] == "device_code":
        terminal.note(say("Open {url} on any device, and enter the code {code}",
                          url=begun["verification_url"], code=begun["user_code"]))  # fmt: skip
        return
    url = begun["url"]
    if not no_browser and not is_remote() and open_in_browser(url):
        terminal.note(
            say("The login page opens in your browser. If it does not, open this URL:\n{url}", url=url)
        )
        return
    terminal.note(say("Open this URL in a browser:\n{url}", url=url))
    terminal.note(say(
        "If that browser runs on another computer, it cannot load the last page. Then copy the URL of that "
        "page from its address bar, and paste it here."))  # fmt: skip


def _waited(terminal: Terminal, hub: HubClient, begun: dict[str, Any]) -> dict[str, Any]:
    """Return the state after the login, however the user finishes it. Raises UpstreamUnavailable."""
    pasted = _pasted_lines()
    with terminal.working(say("Waiting for the login")):
        while True:
            found = hub.call("get_login", {"server": begun["server"], "wait": LOOK})
            if found["state"] != "waiting" or found.get("id") != begun["id"]:
                return dict(found)
            line = next(pasted, None)
            if line:
                return _finished(hub, begun, line)


def _finished(hub: HubClient, begun: dict[str, Any], line: str) -> dict[str, Any]:
    found = hub.call("finish_login", {"id": begun["id"], "redirected_url": line})
    return dict(found)


def _pasted_lines() -> Iterator[str]:
    """Yield what was pasted by now, one line each time; empty if nothing was. It ends with the input."""
    while not sys.stdin.closed:
        try:
            ready, _, _ = select.select([sys.stdin], [], [], 0)
        except (OSError, ValueError):
            return
        if not ready:
            yield ""
            continue
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


def _done(terminal: Terminal, hub: HubClient, name: str, found: dict[str, Any]) -> None:
    """Report the end of a login, and wait for the tools of the server. Raises UpstreamUnavailable."""
    if found["state"] != "signed_in":
        raise UpstreamUnavailable(
            say(
                "The login at {server!n} failed: {why}.",
                server=name,
                why=found.get("reason") or found["state"],
            )
        )
    tools = None
    with contextlib.suppress(TabaneError), terminal.working(say("Starting {name!n}", name=name)):
        tools = hub.call("start_upstream", {"name": name}).get("tools")
    count = len(tools) if isinstance(tools, list) else tools
    result = found | {"tools": count}
    terminal.show(result, lambda: _print_done(terminal, name, result))


def _print_done(terminal: Terminal, name: str, found: dict[str, Any]) -> None:
    terminal.say(say("Logged in at {name!n}.", name=name))
    if found.get("tools") is not None:
        terminal.say(say("{count} {count:tool is|tools are} available.", count=found["tools"]))
    if found.get("expires") and not found.get("renewable"):
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(found["expires"]))
        terminal.say(say("The login ends at {until}.", until=until))
