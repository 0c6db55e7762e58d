"""Shell completion as `tabane setup` offers it: a file of its own, which `--undo` deletes."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tabane.cli.completion import completion_script
from tabane.cli.output import Terminal
from tabane.messages import say
from tabane.servers.assistants.restoration import Backups, FileBackup, missing_folders, state_of
from tabane.settings.files import home_folder, write_private

_BASH = tuple(f"{where}/share/bash-completion" for where in ("/usr", "/usr/local", "/opt/homebrew"))
"""Where the package is that loads a user's completions in bash."""

CLIENT = "shell-completion"
"""The name of its backup."""


def offer_completion(ctx: click.Context, terminal: Terminal, backups: Backups, *, agreed: bool) -> None:
    """Write the completion of this user's shell, if the user agrees. zsh is told the line to add.

    Nobody is asked twice: a file that exists is left alone.
    """
    shell = os.path.basename(os.environ.get("SHELL", ""))
    if shell == "zsh" and terminal.asks:
        terminal.say(say("Tab completes commands after: tabane completion zsh >> ~/.zshrc"))
    path = _path(shell)
    if path is None or path.exists() or not (terminal.asks or agreed):
        return
    if not agreed and not terminal.agreed(say("Let Tab complete tabane's commands in {shell}?", shell=shell)):
        return
    target = Path(os.path.realpath(path))
    script = completion_script(ctx, shell) + "\n"
    folders = missing_folders(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    backups.save(
        FileBackup(
            client=CLIENT,
            path=str(target),
            form="json",
            shape="plain",
            after=script,
            states=(state_of(script),),
            folders=tuple(map(str, folders)),
        )
    )
    write_private(target, script.encode(), 0o644)
    if not terminal.json:
        terminal.say(say("Tab completes commands in a new {shell}: {path}", shell=shell, path=target))


def _path(shell: str) -> Path | None:
    """Return the file that a shell loads by itself, without an edit of its own; None if there is none."""
    home = Path(home_folder(os.environ))
    if shell == "fish":
        given = os.environ.get("XDG_CONFIG_HOME", "")
        folder = (Path(given) if os.path.isabs(given) else home / ".config") / "fish"
        return folder / "completions" / "tabane.fish" if folder.exists() else None
    if shell == "bash" and any(os.path.exists(place) for place in _BASH):
        given = os.environ.get("XDG_DATA_HOME", "")
        folder = Path(given) if os.path.isabs(given) else home / ".local" / "share"
        return folder / "bash-completion" / "completions" / "tabane"
    return None
