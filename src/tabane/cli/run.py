"""`tabane run`: a Python script that calls tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from tabane.cli.approvals import approved_call
from tabane.cli.options import configured_servers, option, parameter_option, with_hub
from tabane.cli.output import INTERRUPTED, Command, Terminal, examples
from tabane.code.table import RunScript
from tabane.errors import CallerError, TabaneError
from tabane.messages import say


@click.command(
    "run",
    cls=Command,
    help=say(
        "Run SCRIPT, a file with Python, in the sandbox of the hub. It prints what the script prints, and "
        "the value of its last line. Tools are async functions: from tools import SERVER, then "
        "await SERVER.TOOL(…)."
    ),
    epilog=examples(
        "tabane run report.py",
        "tabane run report.py --input topic=bugs --input limit=5",
        "echo 'from tools import memory; await memory.read_graph()' | tabane run -",
    ),
)
@click.argument("script", metavar="SCRIPT")
@option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help=say("A variable of the script. The value is JSON, or else a text. It can be repeated."),
)
@parameter_option(
    RunScript, "timeout", metavar="SECONDS", help=say("End the script after this time. Default: the setting.")
)
@with_hub
def run(terminal: Terminal, script: str, inputs: tuple[str, ...], timeout: float | None) -> None:
    wanted: dict[str, Any] = {"code": _source(script), "inputs": dict(map(_variable, inputs))}
    if timeout is not None:
        wanted["timeout"] = timeout
    try:
        report = json.loads(approved_call(terminal, "run_script", wanted))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not terminal.show_json(report):
        _print(terminal, report)
    if report.get("error"):
        raise click.exceptions.Exit(1)


def _source(script: str) -> str:
    """Return the text of a file, or of the standard input. Raises CallerError."""
    try:
        return sys.stdin.read() if script == "-" else Path(script).read_text("utf-8")
    except OSError as error:
        if script in configured_servers():
            raise CallerError(
                say(
                    "{name!n} is a server, not a script. To start it: tabane servers start {name!c}",
                    name=script,
                )
            ) from None
        reason = error.strerror or str(error)
        raise CallerError(say("{file} cannot be read: {reason}", file=script, reason=reason)) from None
    except UnicodeDecodeError:
        raise CallerError(say("{file} is not UTF-8.", file=script)) from None


def _variable(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not equals:
        raise CallerError(say("--input: {given} is not NAME=VALUE.", given=given))
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _print(terminal: Terminal, report: dict[str, Any]) -> None:
    if report["output"]:
        terminal.say(report["output"].rstrip("\n"))
    if report.get("error"):
        terminal.warn(TabaneError(say("{error}", error=report["error"])))
        return
    value = report["value"]
    if isinstance(value, str):
        terminal.say(value)
    elif value is not None:
        terminal.print_json(value)
