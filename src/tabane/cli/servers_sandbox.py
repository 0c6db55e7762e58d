"""`tabane servers sandbox`: the cage of a server, shown, chosen, or learned from what the server uses."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

import click

from tabane.cli.options import hub_options, option
from tabane.cli.output import Command, Terminal, examples
from tabane.cli.passphrase_check import check_passphrase
from tabane.cli.servers_file import ServersFile, file_option, files_changed, server_names
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.servers.editing import change_server
from tabane.servers.sandbox_keys import PRESETS

SECONDS = 3_600
"""Seconds for which a server is watched at most, if the user names none."""

_LOOK = 0.2

_name = click.argument("name", metavar="NAME", shell_complete=server_names)


@click.command(
    "sandbox",
    cls=Command,
    help=say(
        "Show the sandbox of a server: what it may do, what enforces that, and what stays open. --preset "
        "writes one to the servers file. --learn runs the server without a sandbox, records what it uses, "
        "and proposes a sandbox that allows just that."
    ),
    epilog=examples(
        "tabane servers sandbox notes",
        "tabane servers sandbox notes --preset files",
        "tabane servers sandbox notes --learn --seconds 60 --write",
    ),
)
@_name
@option("--preset", type=click.Choice(PRESETS), help=say("Write this preset to the servers file."))
@option("--learn", is_flag=True, help=say("Record what the server uses until Ctrl+C, and propose a sandbox."))
@option(
    "--seconds",
    type=click.IntRange(1, 86_400),
    metavar="SECONDS",
    help=say("Stop recording after this time."),
)
@option(
    "--accept-links",
    is_flag=True,
    help=say("Accept where the links in the paths of its sandbox lead now."),
)
@option("--write", is_flag=True, help=say("Write the proposed sandbox to the servers file."))
@file_option
@hub_options
@click.pass_obj
def sandbox(
    terminal: Terminal,
    name: str,
    preset: str | None,
    learn: bool,
    seconds: int | None,
    accept_links: bool,
    write: bool,
    file: str | None,
) -> None:
    if preset is not None and learn:
        raise BadArguments(say("Use either --preset or --learn."), "preset")
    if accept_links:
        _accept_links(terminal, name, file)
    if (write or seconds) and not learn:
        raise BadArguments(say("--write and --seconds belong to --learn."), "learn")
    if learn:
        _learn(terminal, name, seconds, file, write=write)
    elif preset is not None:
        _accept_links(terminal, name, file)
        _write(terminal, name, file, preset)
        done = {"name": name, "sandbox": preset}
        terminal.show(done, lambda: terminal.say(_written(name, preset)))
    else:
        found = terminal.hub().call("show_server", {"name": name})
        result = {"name": name, "sandbox": found["sandbox"]}
        terminal.show(result, lambda: _print_cage(terminal, name, found["sandbox"]))


def _accept_links(terminal: Terminal, name: str, file: str | None) -> None:
    """Let the hub record where the paths of the sandbox lead now."""
    from tabane.hub.servers.cages import cages_of  # most commands need no cages

    settings = ServersFile.found(terminal, file).settings
    check_passphrase(terminal, settings.home)
    cages_of(settings, os.environ)().accept_links(name)


def _learn(terminal: Terminal, name: str, seconds: int | None, file: str | None, *, write: bool) -> None:
    hub = terminal.hub()
    with terminal.working(say("Starting {name!n}", name=name)):
        begun = hub.call("start_learning_sandbox", {"name": name, "seconds": seconds or SECONDS})
    terminal.note(
        say(
            "{name!n} runs without a sandbox and is watched for {seconds} {seconds:second|seconds}. Use its "
            "tools now, as you usually do. Ctrl+C ends it earlier.",
            name=name,
            seconds=begun["seconds"],
        )
    )
    _wait(begun["seconds"])
    with terminal.working(say("Reading what {name!n} used", name=name)):
        found = hub.call("finish_learning_sandbox", {"name": name})
    if write:
        _write(terminal, name, file, found["sandbox"])
    terminal.show(found | {"written": write}, lambda: _print_proposal(terminal, found, written=write))
    for note in found["notes"]:
        terminal.note(note)


def _wait(seconds: float) -> None:
    """Wait so long, or until Ctrl+C."""
    until = time.monotonic() + seconds
    try:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))
    except KeyboardInterrupt:
        return


def _write(terminal: Terminal, name: str, file: str | None, value: object) -> None:
    def edit(definition: dict[str, Any]) -> Mapping[str, Any]:
        definition.pop("sandboxEnabled", None)
        return {**definition, "sandbox": value}

    place = ServersFile.found(terminal, file)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        change_server(place.path, name, edit, {"sandbox": value})


def _written(name: str, preset: str) -> Message:
    if preset == "none":
        return say("{name!n} now runs without a sandbox.", name=name)
    return say("{name!n} now runs in a sandbox ({preset}).", name=name, preset=preset)


def _print_proposal(terminal: Terminal, found: dict[str, Any], *, written: bool) -> None:
    terminal.say(json.dumps({"sandbox": found["sandbox"]}, indent=2, ensure_ascii=False))
    if written:
        terminal.say(say("Written to the servers file. {name!n} is restarted in it.", name=found["name"]))


def _print_cage(terminal: Terminal, name: str, found: dict[str, Any] | None) -> None:
    if found is None:
        terminal.say(
            say(
                "{name!n} runs without a sandbox. Add one with: tabane servers sandbox {name!c} --learn",
                name=name,
            )
        )
        return
    terminal.pairs((label, value) for label, value in _rows(found) if value not in (None, "", []))
    for note in [*found["uncovered"], *([found["problem"]] if found["problem"] else [])]:
        terminal.note(note)


def _rows(found: dict[str, Any]) -> list[tuple[Message, Any]]:
    return [
        (say("image"), found["image"]),
        (say("preset"), found["preset"]),
        (say("enforced by"), ", ".join(found["mechanism"])),
        (say("may change"), found["write"]),
        (say("may read"), found["read"]),
        (say("network"), _network(found["network"])),
        (say("memory"), found["memory"]),
        (say("CPU seconds"), found["cpu"]),
        (say("processes"), found["processes"]),
    ]


def _network(network: bool | list[str]) -> Message | str:
    if isinstance(network, list):
        return ", ".join(network)
    return say("yes") if network else say("no")


def sandbox_words(found: dict[str, Any] | None) -> str | Message | None:
    """Return the cage of a server in a few words, None if it has none: its preset and what enforces it."""
    if not found:
        return None
    if found["problem"]:
        return str(found["problem"])
    return ": ".join([found["image"] or found["preset"], ", ".join(found["mechanism"])])
