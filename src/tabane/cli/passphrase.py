"""`tabane passphrase`, and the check by commands that write files of the hub themselves."""

from __future__ import annotations

from pathlib import Path

import click

from tabane.access.passphrase import matches
from tabane.cli.operation_command import operation_command
from tabane.cli.options import with_hub
from tabane.cli.output import Group, Terminal, examples, text
from tabane.errors import Forbidden, PassphraseRequired
from tabane.hub.people.approvals.passphrase_file import PASSPHRASE, read_passphrase
from tabane.messages import say


def check_passphrase(terminal: Terminal, home: Path) -> None:
    """Ask for the passphrase of a home if one is set. A running hub checks it, as for its own operations.

    Raises PassphraseRequired if nobody can be asked, and Forbidden if it is not the passphrase. What is shown
    once holds for the whole command.
    """
    if not (home / PASSPHRASE).exists():
        return
    hub = terminal.running_hub()
    if hub is not None and hub.call("passphrase_state")["unlocked"]:
        return
    if not terminal.asks:
        raise PassphraseRequired(
            say(
                "A passphrase is set, and this command changes what is allowed. Run it in a terminal, which "
                "asks for the passphrase."
            )
        )
    given = terminal.ask(say("Passphrase"), hide_input=True)
    if hub is not None:
        hub.call("unlock", {"passphrase": given})
    elif not matches(given, read_passphrase(home)):
        raise Forbidden(say("This is not the passphrase."))


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
@with_hub
def set_(terminal: Terminal) -> None:
    hub = terminal.hub()
    if not terminal.asks:
        raise click.UsageError(text(say("The passphrase is asked for, so this needs a terminal.")))
    hub.call("passphrase_state")
    given = terminal.ask(say("New passphrase"), hide_input=True, confirmation_prompt=True)
    done = hub.call("set_passphrase", {"passphrase": given})
    terminal.show(done, say("The passphrase is set."))


operation_command(
    passphrase, "remove", "remove_passphrase",
    help=say("Remove the passphrase."),
    epilog=examples("tabane passphrase remove"),
    text=say("No passphrase is needed any more."),
)  # fmt: skip
