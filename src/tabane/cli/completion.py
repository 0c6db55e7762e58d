"""`tabane completion`: the script by which a shell completes Tabane's commands, servers and tools."""

from __future__ import annotations

import click

from tabane.cli.output import Command, Terminal, examples, json_option, text
from tabane.messages import say

VARIABLE = "_TABANE_COMPLETE"
"""The environment variable by which the script asks for completions."""


@click.command(
    "completion",
    cls=Command,
    help=text(
        say(
            "Print the script that makes a shell complete commands, names of servers and names of tools. "
            "Have the shell read it at its start."
        )
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
    # Not its source(): that runs bash to learn its version, and prints what it thinks of it.
    script = found.source_template % found.source_vars()
    terminal = ctx.ensure_object(Terminal)
    terminal.show({"shell": shell, "script": script}, lambda: terminal.say(script))
