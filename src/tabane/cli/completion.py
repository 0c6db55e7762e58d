"""`tabane completion`: the scripts of the shells, and what bash sends and takes when a user presses Tab."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from tabane.cli.options import VARIABLE, json_option
from tabane.cli.output import Command, Terminal, examples
from tabane.messages import say


class TabaneBash(BashComplete):
    """Bash, which divides words at ``=`` and replaces the part behind it; no space follows ``key=``."""

    source_template: ClassVar[str] = BashComplete.source_template.replace(
        "    return 0\n", "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n    return 0\n"
    )
    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        given, number = split_arg_string(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        words: list[str] = []
        divided = False
        for word in [*given[1:number], given[number] if number < len(given) else ""]:
            if words and (word == "=" or divided):
                words[-1] += word
            else:
                words.append(word)
            divided = word == "="
        *before, incomplete = words or [""]
        name, equals, _ = incomplete.partition("=")
        self._prefix = name + equals if equals and not name.startswith("-") else ""
        return before, incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._prefix)}"


class TabaneZsh(ZshComplete):
    """Zsh, where no space follows ``key=``."""

    source_template: ClassVar[str] = ZshComplete.source_template.replace(
        "        compadd -U -V unsorted -a completions\n",
        "        local -a space\n"
        '        [[ "$completions[1]" == *= ]] && space=(-S "")\n'
        "        compadd $space -U -V unsorted -a completions\n",
    )


SHELLS = {"bash": TabaneBash, "zsh": TabaneZsh, "fish": FishComplete}
for _shell in (TabaneBash, TabaneZsh):
    add_completion_class(_shell)


def completion_script(ctx: click.Context, shell: str) -> str:
    """Return the script that lets a shell complete commands: bash, zsh or fish."""
    found = SHELLS[shell](ctx.find_root().command, {}, "tabane", VARIABLE)
    # not its source(): that runs bash to learn its version, and prints a warning about it
    return found.source_template % found.source_vars()


@click.command(
    "completion",
    cls=Command,
    help=say(
        "Print a script that lets a shell complete commands, names of servers, tools, settings, models, keys "
        "and others, and the arguments of tools. Load it when the shell starts."
    ),
    epilog=examples(
        "tabane completion bash >> ~/.bashrc",
        "tabane completion zsh >> ~/.zshrc",
        "tabane completion fish > ~/.config/fish/completions/tabane.fish",
    ),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    script = completion_script(ctx, shell)
    terminal = ctx.ensure_object(Terminal)
    terminal.show({"shell": shell, "script": script}, script)
