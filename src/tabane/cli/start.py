"""`tabane start`: the hub as a process, with a post archive if one is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tabane.build import this_build
from tabane.cli.hub_process import marked_terminal, reach_hub
from tabane.cli.job_progress import hand_over, result_of, watched
from tabane.cli.lifecycle import started, tell_of_problems
from tabane.cli.options import Decorated, combined, json_option, option
from tabane.cli.output import INTERRUPTED, Command, Terminal, emit, examples, lang, text
from tabane.errors import HubError
from tabane.hub.local.client import read_result
from tabane.hub.local.endpoint import Endpoint
from tabane.messages import Message, say
from tabane.posts import COLLECTION
from tabane.settings import OPTIONS, load_settings

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient
    from tabane.hub.sources.models.model_report import MissingModel
    from tabane.settings import Settings
    from tabane.settings.option import SettingOption

FOLDERS = {"posts_embeddings": "embeddings", "posts_reasoning": "reasoning", "posts_summary": "summary"}
"""Settings that name a post archive, and the matching parameters of import_posts."""

_STEP = 10  # percent between two lines if no bar can be drawn


_ORIGINAL = {
    "posts_embeddings": ("-e", "--embeddings"),
    "posts_reasoning": ("-r", "--reasoning"),
    "posts_summary": ("-s", "--summary"),
}
"""Flags of the original twilog server, by setting."""

_OFTEN = frozenset(
    (
        *("foreground", "as_json", "home", "config", "servers", "mode", "lang", "host", "port", "model"),
        *("posts_embeddings", "posts_reasoning", "posts_summary", "log_level", "help_all"),
    )
)
"""Options that ``--help`` shows. The other settings are shown by ``--help-all``."""

_METAVARS = {"path": "PATH", "text": "TEXT", "list": "TEXT,…", "whole": "COUNT", "bytes": "BYTES"}
"""Names of values in the help, by kind of setting. Those of numbers are their units."""


class StartCommand(Command):
    """A command whose help is short unless all options are asked for."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        whole = ctx.meta.get(_WHOLE, False)
        shown = [one for one in self.get_params(ctx) if whole or one.name in _OFTEN or "--help" in one.opts]
        records = [record for one in shown if (record := one.get_help_record(ctx)) is not None]
        with formatter.section(text(say("Options"))):
            formatter.write_dl(records)
        if not whole:
            formatter.write_paragraph()
            formatter.write_text(text(say("Every setting is an option too: tabane start --help-all")))


_WHOLE = "tabane.cli.start.whole"


def _show_all(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_WHOLE] = True
        emit(ctx.get_help())
        ctx.exit()


def _metavar(setting: SettingOption) -> str:
    """Return the name of a setting's value in the help, which is its unit if it has one."""
    if setting.choices:
        return "|".join(setting.choices)
    unit = setting.unit.render("en").upper() if setting.unit is not None else ""
    if setting.name == "port":
        return "PORT"
    return unit if unit.isalpha() else _METAVARS.get(setting.kind, "NUMBER")


def settings_options(function: Decorated) -> Decorated:
    """Add a flag for each setting, which ``start`` passes to the hub."""

    options = []
    for setting in OPTIONS:
        if setting.kind == "switch":
            declared = f"{setting.flag}/{setting.flag.replace('--', '--no-', 1)}"
            options.append(option(declared, setting.name, default=None, help=setting.help))
        else:
            metavar = _metavar(setting)
            flags = (*_ORIGINAL.get(setting.name, ()), setting.flag)
            options.append(option(*flags, setting.name, metavar=metavar, help=setting.help))
    return combined(options)(function)


@click.command(
    "start",
    cls=StartCommand,
    help=say("Start the hub as a separate process, which runs until it is stopped."),
    epilog=examples(
        "tabane start",
        "tabane start --servers ~/mcp-servers.json --lang ja",
        "tabane start -e embeddings -r batch/reasoning -s batch/summary",
        "tabane start --foreground",
    ),
)
@option(
    "--foreground",
    is_flag=True,
    help=say("Run in the foreground, log to standard error, and stop at Ctrl+C."),
)
@json_option
@option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help=say("Show this message with every option and exit."),
)
@settings_options
@click.pass_obj
def start(terminal: Terminal, /, foreground: bool, **flags: Any) -> None:

    # also read here, so that this process reports a mistake at once
    settings = load_settings(flags, os.environ)
    if foreground:
        from tabane.hub.process.serve import run_foreground

        os.environ.update(marked_terminal(os.environ))
        raise click.exceptions.Exit(run_foreground(flags))

    servers = str(settings.servers) if "servers" in settings.sources else None
    with terminal.working(say("Starting the hub")):
        endpoint = Endpoint(str(settings.home), os.environ)
        running, client = reach_hub(endpoint, settings.as_flags(), lang(), servers=servers)
    with client:
        report = client.call("hub_status")
        if running:
            _check_flags(settings.as_flags(), report)
            _check_port(settings, report)
            _tell_of_version(terminal, report)
        client.call("keep_server")
        tell_of_problems(terminal, report)
        result = {"status": "running", "pid": report["pid"], "started": not running}
        result |= {
            name: report[name] for name in ("http", "http_problem", "disk_problem") if report.get(name)
        }
        archive = archive_of(settings)
        if not archive:
            terminal.show(result, started(running, report))
            return
        if not terminal.json:
            terminal.say(started(running, report))
        taken = wait_for_archive(terminal, client, archive, fresh=not running)
        missing = _missing_models(client)
    shown = result | {"posts": taken, "models_missing": [row.model for row in missing]}
    if not terminal.show_json(shown):
        _show_archive(terminal, taken, missing)


def _check_flags(wanted: Sequence[str], report: dict[str, Any]) -> None:
    """Raise HubError if a hub runs with other flags. Any hub can import another archive."""
    ignored = tuple(f"--{name.replace('_', '-')}=" for name in FOLDERS)
    given, there = (
        [flag for flag in flags if not flag.startswith(ignored)] for flags in (wanted, report["flags"])
    )
    if not given or sorted(given) == sorted(there):
        return
    if not there:
        raise HubError(
            say(
                "A hub is already running (process {pid}), without {flags}. Stop it first with: tabane stop",
                pid=report["pid"],
                flags=" ".join(given),
            )
        )
    raise HubError(
        say(
            "A hub is already running (process {pid}) with {there}, not with {flags}. Stop it first with: "
            "tabane stop",
            pid=report["pid"],
            there=" ".join(there),
            flags=" ".join(given),
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
    """Print a note if the running hub is another build than this command."""
    there, here = report.get("version"), this_build().name
    if there and there != here:
        terminal.note(
            say(
                ("The running hub is Tabane {there}, but this is {here}. To replace the hub: tabane restart"),
                there=there,
                here=here,
            )
        )


def _missing_models(client: HubClient) -> list[MissingModel]:
    """Return the models that posts were embedded with, and that cannot be used."""
    from tabane.hub.sources.models.model_report import MissingModel

    found = read_result(client.call("model_status").get("missing", []), list[MissingModel])
    return [row for row in found if row.collection == COLLECTION]


def _show_archive(terminal: Terminal, taken: dict[str, Any], missing: Sequence[MissingModel]) -> None:
    if "sources" in taken:
        from tabane.cli.posts import show_report

        show_report(terminal, taken)
    if not missing:
        terminal.say(say("The archive is ready."))
        return
    terminal.say(say("The archive is ready for searches by keywords."))
    for row in missing:
        terminal.note(say("Warning: {text}", text=row.problem))


def archive_of(settings: Settings) -> dict[str, Any]:
    """Return the archive that the settings name, as parameters of import_posts."""
    given = {parameter: getattr(settings, name) for name, parameter in FOLDERS.items()}
    return {parameter: str(folder) for parameter, folder in given.items() if folder}


def wait_for_archive(
    terminal: Terminal, client: HubClient, archive: Mapping[str, Any], *, fresh: bool
) -> dict[str, Any]:
    """Import the archive into the hub and show the progress. Return the report of the import.

    A ``fresh`` hub has just started, and imports it by itself. Ctrl+C ends only this command. Raises the
    error of the import; the hub continues to run.
    """
    job: dict[str, Any] | None = None
    try:
        rows = client.call("list_jobs", {"hub": "this"})["results"] if fresh else []
        job = next((row for row in rows if row["operation"] == "import_posts"), None)
        if job is None:
            job = client.call("import_posts", {**archive, "once": True})
            hand_over(client, job["job"])
        taken = result_of(watched(client, job, text(say("Progress")), _ProgressLines(terminal)))
        return taken if isinstance(taken, dict) else {}
    except KeyboardInterrupt:
        if job is not None:
            terminal.note(
                say("The hub and the import keep running. To watch the import: tabane jobs follow {job}",
                    job=job["job"])
            )  # fmt: skip
        raise click.exceptions.Exit(INTERRUPTED) from None


class _ProgressLines:
    """Prints the progress of a job line by line if stderr is not a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._wanted = not terminal.json and not sys.stderr.isatty()
        self._next = 0

    def __call__(self, state: dict[str, Any]) -> None:
        if not self._wanted or not state["total"]:
            return
        percent = min(100, state["done"] * 100 // state["total"])
        if percent >= self._next:
            self._next = percent + _STEP
            said = say("Progress: {percent} % {note}", percent=percent, note=state["note"] or "")
            self._terminal.note(said.render(lang()).rstrip())
