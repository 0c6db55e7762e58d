"""`tabane usage`: how much the tools are used, how fast they are, and what nobody uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from tabane.audit.rendered_text import milliseconds
from tabane.audit.table import GetUsageStats
from tabane.cli.audit import holder_name, tell_hidden
from tabane.cli.operation_command import Column, count_column, print_rows
from tabane.cli.options import given, hub_options, option, parameter_option
from tabane.cli.output import Command, Terminal, examples
from tabane.cli.terminal_text import clean
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.text.units import bytes_text

_GROUPS = {
    "tool": say("tool"),
    "server": say("server"),
    "key": say("key"),
    "client": say("client"),
    "day": say("day"),
}


_of_stats = partial(parameter_option, GetUsageStats)


@click.command(
    "usage",
    cls=Command,
    help=say(
        "Show calls, errors, latencies and saved tokens by tool, server, key, client or day. "
        "Whole days are counted; the default is the last 30."
    ),
    epilog=examples(
        "tabane usage",
        "tabane usage --by day --since 7d",
        "tabane usage --server github",
        "tabane usage --unused",
    ),
)
@_of_stats("by", help=say("What to group calls by."))
@_of_stats(
    "start", "--since", "start", help=say("First day: a date, today, or a time ago such as 24h or 7d.")
)
@_of_stats("end", "--until", "end", help=say("Last day."))
@_of_stats("tool", help=say("Only calls of this tool; * stands for any characters."))
@_of_stats("server", help=say("Only calls of this server."))
@_of_stats("key", help=say("Only calls of this key, by its id or name."))
@_of_stats("client", help=say("Only calls of this client."))
@_of_stats("limit", "--limit", "-n", "limit", help=say("Maximum number of rows."))
@_of_stats("cursor", help=say("Show the page at this cursor, which the previous page printed."))
@option(
    "--all",
    "everything",
    is_flag=True,
    help=say("Also count look-ups of Tabane itself, such as hub_status and list_servers."),
)
@option(
    "--unused", is_flag=True,
    help=say("Show unused servers and tools, what their definitions cost, and what is slow or fails."),
)  # fmt: skip
@hub_options
@click.pass_context
def usage(ctx: click.Context, /, unused: bool, everything: bool, **options: Any) -> None:
    terminal = ctx.ensure_object(Terminal)
    if unused:
        _analyze(ctx, terminal, options)
        return
    with terminal.working(say("Counting calls")):
        params = given(options)
        found = terminal.hub().call("get_usage_stats", params | {"lookups": everything or "tool" in params})
    if terminal.show_json(found):
        return
    if found.get("problem"):
        terminal.note(found["problem"])
    if not found["results"]:
        terminal.note(say("No calls from {start} to {end}.", start=found["start"], end=found["end"]))
        tell_hidden(terminal, found)
        return
    print_rows(terminal, _columns(found["by"]), found["results"], whole=(1, 2, 3, 4, 5, 7))
    if len(found["results"]) < found["total"]:
        terminal.note(
            say("{shown} of {total} {total:row|rows}, {calls} {calls:call|calls} in total.",
                shown=len(found["results"]), total=found["total"], calls=f"{found['sum']['calls']:,}")
        )  # fmt: skip
    if found["next_cursor"]:
        terminal.note(say("Next page: --cursor {cursor}", cursor=found["next_cursor"]))
    tell_hidden(terminal, found)


def _columns(by: str) -> list[Column]:
    return [
        Column(_GROUPS[by], lambda group: holder_name(group[by], group.get("label"), group.get("person"))),
        count_column(say("calls"), "calls"),
        count_column(say("errors"), "errors"),
        *(time_column(name) for name in ("p50", "p95", "p99")),
        count_column(say("tokens saved"), "saved"),
        Column(say("size"), lambda group: bytes_text(group["bytes"])),
    ]


def time_column(name: str) -> Column:
    """Return the column of a percentile of latencies."""
    return Column(name, lambda row: milliseconds(row[f"{name}_ms"]))


def _analyze(ctx: click.Context, terminal: Terminal, options: Mapping[str, Any]) -> None:
    allowed = {name: options[name] for name in ("start", "end")}
    if _is_given(ctx, "limit"):
        allowed["limit"] = options["limit"]
    for name in options.keys() - {"start", "end", "limit"}:
        if _is_given(ctx, name):
            raise BadArguments(say("--unused cannot be combined with --{option}.", option=name))
    with terminal.working(say("Counting calls")):
        found = terminal.hub().call("analyze_usage", given(allowed))
    if not terminal.show_json(found):
        _print_analysis(terminal, found)
    if found.get("problem") and not terminal.json:
        terminal.note(found["problem"])


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def _print_analysis(terminal: Terminal, found: Mapping[str, Any]) -> None:
    offered, unused = found["offered"], found["unused"]
    terminal.say(
        say(
            "From {start} to {end}, {unused} of {tools} {tools:tool|tools} {unused:was|were} not used. "
            "Unused definitions take about {tokens} of {all} {all:token|tokens}.",
            start=found["start"], end=found["end"], unused=unused["tools"], tools=offered["tools"],
            tokens=f"{unused['tokens']:,}", all=f"{offered['tokens']:,}",
        )
    )  # fmt: skip
    for title, key, columns in _TABLES:
        if found[key]:
            terminal.say("")
            terminal.say(title)
            print_rows(terminal, columns, found[key])
    if found["unused_servers"]:
        terminal.note(say("Disable a server with: tabane servers disable NAME"))


_TOOL = Column(say("tool"), lambda row: clean(row["tool"]))
_TABLES: tuple[tuple[Message, str, Sequence[Column]], ...] = (
    (
        say("Unused servers:"),
        "unused_servers",
        (
            Column(say("server"), lambda row: clean(row["server"])),
            Column(say("tools"), "tools"),
            count_column(say("tokens"), "tokens"),
        ),
    ),
    (
        say("Unused tools:"),
        "unused_tools",
        (Column(say("tool"), lambda row: clean(row["name"])), count_column(say("tokens"), "tokens")),
    ),
    (
        say("Slowest tools:"),
        "slowest",
        (_TOOL, Column(say("calls"), "calls"), time_column("p50"), time_column("p95")),
    ),
    (
        say("Tools that fail most often:"),
        "failing",
        (
            _TOOL,
            Column(say("calls"), "calls"),
            Column(say("errors"), "errors"),
            Column(say("share"), lambda row: f"{row['share']:.1%}"),
        ),
    ),
    (
        say("Clients:"),
        "clients",
        (
            Column(say("client"), lambda row: clean(row["client"]) or "-"),
            count_column(say("calls"), "calls"),
            count_column(say("tokens of results"), "tokens"),
            count_column(say("tokens saved"), "saved"),
        ),
    ),
)
