"""`tabane start`: the hub as a process, with an archive of posts where one is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tabane.build import this_build
from tabane.cli.beginning import FOLDERS, archive_of, wait_for_archive
from tabane.cli.lifecycle import started, tell, tell_of_http
from tabane.cli.output import Command, Terminal, examples, json_option, text
from tabane.cli.process import reach_hub
from tabane.errors import HubError
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient
    from tabane.settings import Settings

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ORIGINAL = {
    "posts_embeddings": ("-e", "--embeddings"),
    "posts_reasoning": ("-r", "--reasoning"),
    "posts_summary": ("-s", "--summary"),
}
"""Flags that twilog's own server had, by setting."""


def settings_options(function: _Function) -> _Function:
    """A flag for each setting: what ``start`` takes, and hands to the hub."""
    from tabane.settings import OPTIONS

    for option in reversed(OPTIONS):
        if option.kind == "switch":
            declared = f"{option.flag}/{option.flag.replace('--', '--no-', 1)}"
            function = click.option(declared, option.name, default=None, help=text(option.help))(function)
        else:
            metavar = "|".join(option.choices) or option.kind.upper()
            flags = (*_ORIGINAL.get(option.name, ()), option.flag)
            function = click.option(*flags, option.name, metavar=metavar, help=text(option.help))(function)
    return function


@click.command(
    "start",
    cls=Command,
    help=text(say("Start the hub as a process of its own, which runs until it is stopped.")),
    epilog=examples(
        "tabane start",
        "tabane start --servers ~/mcp-servers.json --lang ja",
        "tabane start -e embeddings -r batch/reasoning -s batch/summary",
        "tabane start --foreground",
    ),
)
@click.option(
    "--foreground", is_flag=True, help=text(say("Stay here, log to standard error, end at Ctrl+C."))
)
@json_option
@settings_options
@click.pass_obj
def start(terminal: Terminal, /, foreground: bool, **flags: Any) -> None:
    from tabane.settings import load_settings

    # Read here too, so that a mistake is told at once and by this process.
    settings = load_settings(flags, os.environ)
    if foreground:
        from tabane.hub.process.serve import run_foreground

        raise click.exceptions.Exit(run_foreground(flags))

    running, client = _reached(terminal, settings)
    with client:
        report = client.call("hub_status")
        if running:
            _check_flags(settings.as_flags(), report)
            _check_port(settings, report)
            _tell_of_version(terminal, report)
        client.call("keep_server")
        tell_of_http(terminal, report)
        result = {"status": "running", "pid": report["pid"], "started": not running}
        result |= {name: report[name] for name in ("http", "http_problem") if report.get(name)}
        archive = archive_of(settings)
        if not archive:
            tell(terminal, result, started(running, report))
            return
        if not terminal.json:
            terminal.say(started(running, report))
        taken = wait_for_archive(terminal, client, archive, fresh=not running)
    terminal.show(result | {"posts": taken}, lambda: _show_archive(terminal, taken))


def _reached(terminal: Terminal, settings: Settings) -> tuple[bool, HubClient]:
    """Whether a hub ran already, and a connection to the one that does now."""
    from tabane.hub.local.endpoint import Endpoint

    servers = str(settings.servers) if "servers" in settings.sources else None
    with terminal.working(say("Starting the hub")):
        return reach_hub(Endpoint(str(settings.home), os.environ), settings.as_flags(), servers=servers)


def _check_flags(wanted: Sequence[str], report: dict[str, Any]) -> None:
    """Raises HubError where a hub runs with other flags. An archive can be given to any: it is imported."""
    apart = tuple(f"--{name.replace('_', '-')}=" for name in FOLDERS)
    given, there = (
        [flag for flag in flags if not flag.startswith(apart)] for flags in (wanted, report["flags"])
    )
    if given and sorted(given) != sorted(there):
        raise HubError(
            say(
                "A hub runs already (process {pid}), with other flags: {flags}. "
                "End it first with: tabane stop",
                pid=report["pid"],
                flags=" ".join(report["flags"]) or "-",
            )
        )


def _check_port(settings: Settings, report: dict[str, Any]) -> None:
    """Raise HubError if HTTP was asked for, and the running hub does not serve it at that port."""
    from urllib.parse import urlsplit

    if not settings.insists_on_http:
        return
    if "http_port_refused" in report:
        raise HubError(Message(report["http_problem"]))
    of_flag = any(flag.startswith("--port=") for flag in report["flags"])
    served = urlsplit(report.get("http") or "").port
    away = settings.port != served and not report.get("http_problem")
    if away and settings.port and not of_flag:
        raise HubError(
            say(
                "The hub is already running (process {pid}), but does not serve HTTP at port {port}. "
                "To restart it with that port: tabane restart",
                pid=report["pid"],
                port=settings.port,
            )
        )


def _tell_of_version(terminal: Terminal, report: dict[str, Any]) -> None:
    """Say that the running hub is another build than this command, if it is."""
    there, here = report.get("version"), this_build().name
    if there and there != here:
        terminal.note(
            say(
                ("The running hub is Tabane {there}, but this is {here}. To replace the hub: tabane restart"),
                there=there,
                here=here,
            )
        )


def _show_archive(terminal: Terminal, taken: dict[str, Any]) -> None:
    if "sources" in taken:
        from tabane.cli.posts.taking import show_report

        show_report(terminal, taken)
    terminal.say(say("The archive is ready."))
