"""`tabane skill`: a description of the command line for assistants that have a shell (agentskills.io).

An assistant always sees the two lines at its head, and reads the rest when it needs a tool. Locations, as
documented in November 2026: Claude Code reads ``.claude/skills``; Codex, Gemini CLI, Cursor, Copilot,
opencode, Amp and others read ``.agents/skills``. Both are in the user's home, or in a project.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from tabane.cli.options import combined, dry_run_option, json_option, option, with_json
from tabane.cli.output import Group, Terminal, emit, examples
from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.settings.files import home_folder, write_private

FOLDERS = {"claude-code": ".claude", "agents": ".agents"}
_NAME = "tabane"
_HEAD = b"---\nname: tabane\n"
"""The beginning of each version of our file; only such a file is replaced or removed."""

_MOST_BYTES = 1 << 20


def skill_text() -> str:
    """Return the text of the skill."""
    return files(__package__).joinpath("SKILL.md").read_text(encoding="utf-8")


@click.group(
    "skill",
    cls=Group,
    help=say(
        "Teach an assistant with a shell to use Tabane's commands. A skill takes some 70 tokens of the "
        "context until it is used. It needs no MCP connection."
    ),
)
def skill() -> None: ...


_target: Callable[[Any], Any] = combined(
    (
        click.argument("client", metavar="claude-code|agents", type=click.Choice(list(FOLDERS))),
        option(
            "--project",
            is_flag=True,
            help=say("In the current folder, for this project only, instead of in your home."),
        ),
        dry_run_option,
        json_option,
    )
)


@skill.command(
    "print",
    help=say("Print the skill, to put it into another folder."),
    epilog=examples("tabane skill print > SKILL.md"),
)
@with_json
def print_(terminal: Terminal) -> None:
    if not terminal.show_json({"skill": skill_text()}):
        emit(skill_text(), nl=False)


@skill.command(
    help=say(
        "Write the skill into a folder of skills: claude-code is ~/.claude/skills; agents is "
        "~/.agents/skills, which Codex, Gemini CLI, Cursor, Copilot, opencode and Amp read. An earlier "
        "version is replaced."
    ),
    epilog=examples("tabane skill install claude-code", "tabane skill install agents --project"),
)
@_target
@click.pass_obj
def install(terminal: Terminal, client: str, project: bool, dry_run: bool) -> None:
    path = _path(client, project)
    before, written = _ours(path), skill_text().encode()
    result = {"file": str(path), "changed": before != written}
    if before == written:
        words = say("{file} is already up to date.", file=path)
    elif dry_run:
        words = say("Would write {file}.", file=path)
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, written, 0o644)
        except OSError as error:
            raise _unwritable(path, error) from None
        words = say("Wrote {file}. New conversations will use it.", file=path)
    terminal.show(result, words)


@skill.command(
    help=say("Remove the skill from a folder of skills."),
    epilog=examples("tabane skill uninstall claude-code"),
)
@_target
@click.pass_obj
def uninstall(terminal: Terminal, client: str, project: bool, dry_run: bool) -> None:
    path = _path(client, project)
    there = _ours(path) is not None
    result = {"file": str(path), "changed": there}
    if not there:
        words = say("The skill is not installed in {file}.", file=path)
    elif dry_run:
        words = say("Would remove {file}.", file=path)
    else:
        _remove(path)
        words = say("Removed {file}.", file=path)
    terminal.show(result, words)


def _path(client: str, project: bool) -> Path:
    root = Path.cwd() if project else Path(home_folder(os.environ))
    return root / FOLDERS[client] / "skills" / _NAME / "SKILL.md"


def _ours(path: Path) -> bytes | None:
    """Return the installed skill; None if there is none. Raises ConfigurationError for a skill of others."""
    try:
        with path.open("rb") as file:
            written = file.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unwritable(path, error) from None
    if not written.startswith(_HEAD):
        raise ConfigurationError(
            say("{file} was not written by Tabane, so it is not changed. Move it away first.", file=path)
        )
    return written


def _remove(path: Path) -> None:
    """Remove the file, and each folder above it that installing made and that is empty now."""
    try:
        path.unlink()
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            if any(folder.iterdir()):
                return
            folder.rmdir()
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        say("{file} cannot be changed: {reason}", file=path, reason=error.strerror or str(error))
    )
