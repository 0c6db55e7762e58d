"""`tabane policy explain`: why a key may or may not call a tool."""

from __future__ import annotations

import click

from tabane.cli.completion import key_names
from tabane.cli.options import hub_options
from tabane.cli.output import FAILED, Group, Terminal, examples
from tabane.messages import say


@click.group("policy", cls=Group, help=say("Explain what keys may do."))
def policy() -> None:
    pass


@policy.command(
    "explain",
    help=say(
        "Explain whether a key may call a tool, and which pattern decides it. The exit status is 1 if "
        "it may not."
    ),
    epilog=examples(
        "tabane policy explain laptop github__create_issue",
        "tabane policy explain laptop search_documents --json",
    ),
)
@click.argument("key", metavar="KEY", shell_complete=key_names)
@click.argument("tool", metavar="TOOL")
@hub_options
@click.pass_obj
def explain_(terminal: Terminal, key: str, tool: str) -> None:
    from tabane.access.policy_operations import policy_messages

    found = terminal.hub().call("explain_policy", {"key": key, "tool": tool})

    def print_it() -> None:
        for message in policy_messages(found):
            terminal.say(message)

    terminal.show(found, print_it)
    if not found["allowed"]:
        raise click.exceptions.Exit(FAILED)
