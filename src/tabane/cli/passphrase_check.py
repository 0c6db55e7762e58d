"""The passphrase of a hub, which commands ask for before they write its files themselves."""

from __future__ import annotations

from pathlib import Path

from tabane.access.passphrase import matches
from tabane.cli.output import Terminal
from tabane.errors import Forbidden, PassphraseRequired
from tabane.hub.local import lock
from tabane.hub.people.approvals.passphrase_file import PASSPHRASE, read_passphrase
from tabane.messages import say


def check_passphrase(terminal: Terminal, home: Path) -> None:
    """Ask for the passphrase of a home if one is set. A running hub checks it, as for its own operations.

    Raises PassphraseRequired if nobody can be asked, and Forbidden if it is not the passphrase. What is shown
    once holds for the whole command.
    """
    if not (home / PASSPHRASE).exists():
        return
    hub = terminal.hub(start=False) if lock.held(terminal.endpoint().lock) else None
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
