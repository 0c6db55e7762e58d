"""`tabane rpc`: any method of the hub, as programs call it."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import click

from tabane.cli.jobs import hand_over
from tabane.cli.output import Command, Terminal, examples, hub_options, text
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.wire.json import encode

_NONE = object()


@click.command(
    "rpc",
    cls=Command,
    help=text(say("Call METHOD of the hub and print its result as JSON; a result in parts as lines of it.")),
    epilog=examples(
        "tabane rpc hub_status",
        'tabane rpc search_tools --params \'{"query": "read a file"}\'',
        "echo '{}' | tabane rpc list_servers --params -",
    ),
)
@click.argument("method")
@click.option(
    "--params",
    default="{}",
    metavar="JSON",
    help=text(say("The parameters, a JSON object; - reads them from standard input.")),
)
@hub_options
@click.pass_obj
def call(terminal: Terminal, method: str, params: str) -> None:
    body = sys.stdin.buffer.read() if params == "-" else params.encode()
    terminal.json = True
    client = terminal.hub()
    parts = client.stream(method, _object(body))
    first, second = next(parts, None), next(parts, _NONE)
    if second is _NONE:
        if isinstance(first, dict) and first.get("operation") == method and first.get("status") == "running":
            hand_over(client, str(first.get("job")))  # it is followed with other calls, by other processes
        terminal.print_json(first)
        return
    for part in itertools.chain([first, second], parts):
        click.echo(encode(part))


def _object(body: bytes) -> dict[str, Any]:
    from tabane.wire.json import InvalidJson, decode

    try:
        value = decode(body)
    except InvalidJson as error:
        raise BadArguments(say("--params: not JSON: {detail}", detail=error)) from None
    if not isinstance(value, dict):
        raise BadArguments(say("--params: a JSON object is wanted."))
    return value
