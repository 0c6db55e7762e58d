"""`tabane passphrase`: sets and removes the passphrase of a hub."""

from __future__ import annotations

import click

from tabane.cli.options import hub_options
from tabane.cli.output import Group, Terminal, examples, text
from tabane.messages import say


@click.group(
    "passphrase",
    cls=Group,
    help=say(
        "Protect approvals, sign-in links, and changes of settings, servers, keys and profiles with a "
        "passphrase. Commands ask for it. It is never an argument or a variable."
    ),
)
def passphrase() -> None: ...


@passphrase.command(
    "set", help=say("Set the passphrase, or replace it."), epilog=examples("tabane passphrase set")
)
@hub_options
@click.pass_obj
def set_(terminal: Terminal) -> None:
    hub = terminal.hub()
    if not terminal.asks:
        raise click.UsageError(text(say("The passphrase is asked for, so this needs a terminal.")))
    hub.call("passphrase_state")
    given = terminal.ask(say("New passphrase"), hide_input=True, confirmation_prompt=True)
    done = hub.call("set_passphrase", {"passphrase": given})
    terminal.show(done, lambda: terminal.say(say("The passphrase is set.")))


@passphrase.command("remove", help=say("Remove the passphrase."), epilog=examples("tabane passphrase remove"))
@hub_options
@click.pass_obj
def remove(terminal: Terminal) -> None:
    done = terminal.hub().call("remove_passphrase")
    terminal.show(done, lambda: terminal.say(say("No passphrase is needed any more.")))
