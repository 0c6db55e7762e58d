"""`tabane update`: what is newer than this copy, and the installation of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field

import click

from tabane.build import newer, on_disk, this_build
from tabane.cli.options import agreed_option, option, with_json
from tabane.cli.output import FAILED, Command, Terminal, examples, lang
from tabane.errors import ConfigurationError, HubError, TabaneError
from tabane.extras import InstalledCopy, this_copy
from tabane.hub.local import lock
from tabane.messages import Message, say
from tabane.net.fetching import environment_fetcher
from tabane.net.package_index import indexes_of, newest_version

NEWER = 100
"""Exit status of `tabane update --check` if there is a newer version, as that of `dnf check-update`."""

FOLLOWS = "0.20"
"""The first version whose hubs notice that their files were replaced. Others are restarted."""

HUB_LIMIT = 180.0
"""Seconds to wait until the running hub is the new version; then it finishes long calls first."""

MOST_CHANGES = 20
"""Changes that are shown after an update."""

_LOOK = 0.1


@click.command(
    "update",
    cls=Command,
    help=say(
        "Show which version this is, whether a newer one exists, and how this copy is updated, then update "
        "it. Only this command asks for newer versions: at the package index that your installer uses. A "
        "running hub is replaced without losing a call. Exit statuses of --check: 0 if this is the newest "
        "version, 100 if there is a newer one, 1 if that is not known."
    ),
    epilog=examples("tabane update", "tabane update --check", "tabane update --yes"),
)
@option("--check", "only_check", is_flag=True, help=say("Only say what is newer. Nothing is changed."))
@agreed_option
@with_json
def update(terminal: Terminal, only_check: bool, agreed: bool) -> None:
    copy = this_copy()
    with terminal.working(say("Asking the package index")):
        newest, index, problem = _ask_index(copy)
    report = _report(copy, newest, index, problem)
    if not terminal.json:
        _show(terminal, copy, report)
    if only_check or not report.newer or not report.runnable:
        terminal.show_json(report)
        if report.newer:
            raise click.exceptions.Exit(NEWER if only_check else 0)
        raise click.exceptions.Exit(FAILED if report.newest is None else 0)
    question = say("Update now?")
    refused = say("Nothing was changed. To update without being asked, add --yes.")
    if not terminal.confirmed(question, agreed, refused):
        return
    _install(terminal, copy)
    report.updated, report.installed = True, on_disk().name
    report.changes = _changes_since(report.version)
    if not terminal.json:
        terminal.say(say("Tabane {version} is installed.", version=report.installed))
        for line in report.changes:
            terminal.say(line)
    report.hub = _replace_hub(terminal)
    terminal.show_json(report)


@dataclass
class ReplacedHub:
    """The running hub after an update. ``replaced``: it is of the version that is installed now."""

    version: str
    replaced: bool


@dataclass
class UpdateReport:
    """What is newer than this copy, and what was done about it. ``newest`` is None if it is not known."""

    version: str
    commit: str | None
    installed_with: str
    source: str | None
    index: str | None
    newest: str | None
    newer: bool
    problem: str | None
    command: str
    runnable: bool
    installed: str
    updated: bool = False
    changes: list[str] = field(default_factory=list)
    hub: ReplacedHub | None = None


def _report(copy: InstalledCopy, newest: str | None, index: str, problem: Message | None) -> UpdateReport:
    mine = this_build()
    return UpdateReport(
        version=mine.version,
        commit=mine.commit or None,
        installed_with=copy.installer,
        source=copy.source or None,
        index=index or None,
        newest=newest,
        newer=newest is not None and newer(newest, mine.version),
        problem=problem.render(lang()) if problem else None,
        command=copy.update(),
        runnable=copy.updates_itself and shutil.which(copy.update_steps()[0][0]) is not None,
        installed=mine.name,
    )


def _ask_index(copy: InstalledCopy) -> tuple[str | None, str, Message | None]:
    """Return the newest version, the index that has it, and why they are not known."""
    by_uv = copy.installer in ("uv tool", "uvx", "checkout") or (copy.installer == "venv" and not copy.pip)
    indexes = indexes_of("uv" if by_uv else "pip", os.environ, sys.prefix)

    async def ask() -> tuple[str | None, str, Message | None]:
        fetcher = environment_fetcher(os.environ, {})
        try:
            found = await newest_version("tabane", indexes, fetcher, sys.version_info[:2])
        finally:
            fetcher.close()
        hosts = ", ".join(index.host for index in indexes)
        if found is None:
            return None, hosts, say("The package index {host} has no release of Tabane.", host=hosts or "-")
        return found[0], found[1].host, None

    try:
        return asyncio.run(ask())
    except TabaneError as error:
        return None, ", ".join(index.host for index in indexes), error.message


_INSTALLERS: dict[str, Message] = {
    "uv tool": say("as a tool of uv"),
    "uvx": say("run by uvx"),
    "pipx": say("by pipx"),
    "checkout": say("from a checkout"),
    "container": say("in a container image"),
    "venv": say("in an environment of Python"),
    "system": say("into the Python of the system"),
}


def _show(terminal: Terminal, copy: InstalledCopy, report: UpdateReport) -> None:
    how = _INSTALLERS[copy.installer]
    terminal.say(say("This is Tabane {version}, installed {how}.", version=this_build().name, how=how))
    if report.problem:
        terminal.note(report.problem)
    elif report.newer:
        terminal.say(
            say("Tabane {version} is available ({index}).", version=report.newest, index=report.index)
        )
    else:
        terminal.say(say("That is the newest version ({index}).", index=report.index))
        return
    terminal.say(_advice(copy, report))


def _advice(copy: InstalledCopy, report: UpdateReport) -> Message:
    command = report.command
    match copy.installer:
        case "checkout":
            return say("To update the checkout, run: {command}, then: tabane restart", command=command)
        case "uvx":
            return say(
                "uvx runs the version that its command names. To run the newest one: {command}. Change the "
                "entries of your assistants in the same way",
                command=command,
            )
        case "container":
            return say(
                "Build the image again where its Dockerfile is, then start the container again with the same "
                "volumes: {command}",
                command=command,
            )
    return say("To update this copy, run: {command}", command=command)


def _changes_since(version: str) -> list[str]:
    """Return what the list of changes in the package says of later versions: each change in one sentence."""
    try:
        with open(os.path.join(this_build().code, "CHANGELOG.md"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found: list[str] = []
    later = False
    for line in lines:
        if line.startswith("## "):
            later = newer(line.split()[1], version)
        elif later and line.startswith("- "):
            found.append(line.partition(". ")[0].rstrip(".") + ".")
    more = len(found) - MOST_CHANGES
    return found if more <= 0 else [*found[:MOST_CHANGES], f"… (+{more})"]


def _install(terminal: Terminal, copy: InstalledCopy) -> None:
    """Run the commands that update this copy. Raises ConfigurationError if one fails.

    Their output is for people: with ``--json``, it goes to standard error.
    """
    for step in copy.update_steps():
        done = subprocess.run(step, stdout=2 if terminal.json else None, check=False)
        if done.returncode:
            raise ConfigurationError(
                say(
                    "The update failed (exit status {status}): {command}",
                    status=done.returncode,
                    command=copy.update(),
                )
            )
    if on_disk() == this_build():
        raise ConfigurationError(
            say(
                "The installer ended without a newer version. See what it says: {command}",
                command=copy.update(),
            )
        )


def _replace_hub(terminal: Terminal) -> ReplacedHub | None:
    """Wait until the running hub is of the version that is installed now. Return what is said of it."""
    place, wanted = terminal.endpoint().lock, on_disk()
    if not lock.held(place):
        return None
    holder = lock.read_holder(place)
    if holder is not None and newer(FOLLOWS, holder.version):
        _restart_hub()
    deadline = time.monotonic() + HUB_LIMIT
    with terminal.working(say("Replacing the running hub")):
        while time.monotonic() < deadline and lock.held(place):
            holder = lock.read_holder(place)
            if holder is not None and holder.ended is None and not newer(wanted.version, holder.version):
                break
            time.sleep(_LOOK)
    replaced = holder is not None and holder.ended is None and not newer(wanted.version, holder.version)
    if not terminal.json:
        if replaced and holder is not None:
            terminal.say(say("The running hub is {version} now.", version=holder.version))
        else:
            terminal.note(
                say(
                    "The running hub finishes long calls first, then it replaces itself. To not wait for "
                    "them: tabane restart"
                )
            )
    return ReplacedHub(holder.version if holder else "", replaced)


def _restart_hub() -> None:
    """Restart a hub of a version that does not notice the update. Raises HubError."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tabane", "restart", "--json"], stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise HubError(say("Tabane is updated, but the hub could not be restarted. Run: tabane restart"))
