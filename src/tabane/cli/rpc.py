"""`tabane rpc`: calls of any method of the hub."""

from __future__ import annotations

import itertools
import sys

import click

from tabane.cli.arguments import read_object
from tabane.cli.following import hand_over
from tabane.cli.options import hub_options, option
from tabane.cli.output import Command, Terminal, examples
from tabane.messages import say
from tabane.wire.json import encode

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
def call(terminal: Terminal, method: str, params: str) -> None:
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
