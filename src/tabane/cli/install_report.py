"""The report of `tabane install` and `tabane uninstall` on a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabane.cli.assistant_setup import AssistantSetup
from tabane.cli.output import Terminal, emit
from tabane.messages import Message, say
from tabane.servers.assistants.installation import InstallChange


def install_result(setup: AssistantSetup, change: InstallChange, dry: bool) -> dict[str, Any]:
    return {
        "client": setup.client.name,
        "path": str(setup.file.path),
        "scope": setup.file.scope,
        "status": change.status,
        "dry_run": dry,
        "backup": str(change.backup) if change.backup else None,
        "other_servers": change.others,
    }


def tell_installed(
    terminal: Terminal, setup: AssistantSetup, change: InstallChange, dry: bool, lines: str
) -> None:
    tell = _would_install if dry else _installed
    terminal.say(tell(change.status, setup.client.title, setup.file.path))
    if dry and change.status != "unchanged":
        emit(lines, nl=False)
    if not dry and change.status != "unchanged":
        _tell_rest(terminal, setup, change)
        if setup.project is not None:
            terminal.note(
                say(
                    "The entry names the command tabane without its folder, since others share this file: "
                    "tabane must be on their PATH."
                )
            )
    if change.others:
        terminal.note(
            say(
                "That file also has {count} other {count:server|servers}. Run tabane servers "
                "import to copy them into Tabane, then delete them from that file. Otherwise they "
                "run twice and fill the assistant's context.",
                count=change.others,
            )
        )


def tell_uninstalled(terminal: Terminal, setup: AssistantSetup, change: InstallChange, dry: bool) -> None:
    terminal.say(_uninstalled(change.status, setup.client.title, setup.file.path, dry))
    if not dry and change.status == "removed":
        _tell_rest(terminal, setup, change)


def _tell_rest(terminal: Terminal, setup: AssistantSetup, change: InstallChange) -> None:
    if change.backup:
        terminal.note(say("The previous version is saved as {path}.", path=change.backup))
    terminal.note(say("It takes effect when {title} is started the next time.", title=setup.client.title))


def _installed(status: str, title: str, path: Path) -> Message:
    if status == "installed":
        return say("{title} now starts Tabane: {path}", title=title, path=path)
    if status == "updated":
        return say("Tabane's entry in {title} was updated: {path}", title=title, path=path)
    return say("Tabane is already set up in {title}: {path}", title=title, path=path)


def _would_install(status: str, title: str, path: Path) -> Message:
    if status == "installed":
        return say("Tabane would be added to {path} of {title}:", title=title, path=path)
    if status == "updated":
        return say("Tabane's entry in {path} of {title} would be updated:", title=title, path=path)
    return _installed(status, title, path)


def _uninstalled(status: str, title: str, path: Path, dry: bool) -> Message:
    if status == "absent":
        return say("Tabane is not set up in {title}: {path}", title=title, path=path)
    if dry:
        return say("Tabane would be removed from {path} of {title}.", title=title, path=path)
    return say("Tabane was removed from {title}: {path}", title=title, path=path)
