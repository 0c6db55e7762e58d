"""`tabane completion`: the script of a shell's completion, and names that the hub completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from tabane.cli.options import json_option
from tabane.cli.output import Command, Terminal, examples
from tabane.errors import TabaneError
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

COMPLETION_LIMIT = 3.0
"""Longest wait for the hub after a user pressed Tab, in seconds."""

VARIABLE = "_TABANE_COMPLETE"
"""The environment variable by which the script asks for completions."""


def completed(ctx: click.Context, ask: Callable[[HubClient], Iterable[str]], incomplete: str) -> list[str]:
    """Return the names from the hub that begin with ``incomplete``, or nothing if no hub runs."""
    terminal = ctx.ensure_object(Terminal)
    try:
        return [name for name in ask(terminal.hub(start=False)) if name.startswith(incomplete)]
    except TabaneError:
        return []
    finally:
        terminal.close()


@click.command(
    "completion",
    cls=Command,
    help=say(
        "Print a script that lets a shell complete commands, server names and tool names. "
        "Load it when the shell starts."
    ),
    epilog=examples(
        "tabane completion bash >> ~/.bashrc",
        "tabane completion zsh >> ~/.zshrc",
        "tabane completion fish > ~/.config/fish/completions/tabane.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    found = kinds[shell](ctx.find_root().command, {}, "tabane", VARIABLE)
    # not its source(): that runs bash to learn its version, and prints a warning about it
    script = found.source_template % found.source_vars()
    terminal = ctx.ensure_object(Terminal)
    terminal.show({"shell": shell, "script": script}, lambda: terminal.say(script))
