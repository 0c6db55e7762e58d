"""`tabane run` and `tabane rpc`: a Python script that calls tools, and one call of a method of the hub."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import click

from tabane.cli.approvals import approved_call
from tabane.cli.arguments import read_object
from tabane.cli.jobs import hand_over
from tabane.cli.options import hub_options, option, parameter_option
from tabane.cli.output import INTERRUPTED, Command, Terminal, examples
from tabane.code.parameters import RunScript
from tabane.errors import CallerError, TabaneError
from tabane.messages import say
from tabane.wire.json import encode


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
@hub_options
@click.pass_obj
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


_NONE = object()


@click.command(
    "rpc",
    cls=Command,
    help=say(
        "Call METHOD of the hub and print its result as JSON. A streamed result is printed "
        "as one JSON line for each part."
    ),
    epilog=examples(
        "tabane rpc hub_status",
        'tabane rpc search_tools --params \'{"query": "read a file"}\'',
        "echo '{}' | tabane rpc list_servers --params -",
    ),
)
@click.argument("method")
@option(
    "--params",
    default="{}",
    metavar="JSON",
    help=say("Parameters as a JSON object; - reads them from standard input."),
)
@hub_options
@click.pass_obj
def call_method(terminal: Terminal, method: str, params: str) -> None:
    body = sys.stdin.buffer.read() if params == "-" else params.encode()
    terminal.json = True
    client = terminal.hub()
    parts = client.stream(method, read_object(body, "--params"))
    first, second = next(parts, None), next(parts, _NONE)
    if second is _NONE:
        if isinstance(first, dict) and first.get("operation") == method and first.get("status") == "running":
            hand_over(client, str(first.get("job")))  # other processes follow it with calls of their own
        terminal.print_json(first)
        return
    for part in itertools.chain([first, second], parts):
        terminal.print_json_line(encode(part))
