"""`tabane completion`: the script of a shell's completion, and names that the hub completes."""

from __future__ import annotations

import os
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

MOST_NAMES = 1_000
"""Names that are offered at most."""

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


def key_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an API key for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        rows = hub.call("keys_list", {"limit": MOST_NAMES}, limit=COMPLETION_LIMIT)["results"]
        return [row["name"] for row in rows]

    return completed(ctx, ask, incomplete)


def profile_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a profile of the settings file for the shell."""
    from tabane.access.profile_file import read_profiles
    from tabane.settings import load_settings

    try:
        names = read_profiles(load_settings({"config": ctx.params.get("config")}, os.environ).config)
    except TabaneError:
        return []
    return [name for name in names if name.startswith(incomplete)]


@click.command(
    "completion",
    cls=Command,
    help=say(
        "Print a script that lets a shell complete commands, and names of servers, tools, keys and profiles. "
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
