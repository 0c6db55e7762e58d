"""`tabane usage`: how much the tools are used, how fast they are, and what nobody uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tabane.audit.rendered_text import milliseconds
from tabane.audit.table import GetUsageStats
from tabane.cli.options import given, hub_options, key_names, option, parameter_option, server_names
from tabane.cli.output import Command, Terminal, examples
from tabane.cli.terminal_text import clean
from tabane.errors import BadArguments
from tabane.messages import Message, say

_GROUPS = {
    "tool": say("tool"),
    "server": say("server"),
    "key": say("key"),
    "client": say("client"),
    "day": say("day"),
}


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
@parameter_option(GetUsageStats, "by", help=say("What to group calls by."))
@parameter_option(
    GetUsageStats, "start", "--since", "start", metavar="TIME",
    help=say("First day: a date, today, or a time ago such as 24h or 7d."),
)  # fmt: skip
@parameter_option(GetUsageStats, "end", "--until", "end", metavar="TIME", help=say("Last day."))
@parameter_option(
    GetUsageStats, "tool", metavar="NAME", help=say("Only calls of this tool; * stands for any characters.")
)
@parameter_option(
    GetUsageStats, "server", metavar="NAME", shell_complete=server_names,
    help=say("Only calls of this server."),
)  # fmt: skip
@parameter_option(
    GetUsageStats, "key", metavar="NAME", shell_complete=key_names,
    help=say("Only calls of this key, by its id or name."),
)  # fmt: skip
@parameter_option(GetUsageStats, "client", metavar="NAME", help=say("Only calls of this client."))
@parameter_option(
    GetUsageStats, "limit", "--limit", "-n", "limit", metavar="COUNT", help=say("Maximum number of rows."),
)  # fmt: skip
@parameter_option(
    GetUsageStats, "cursor", metavar="CURSOR",
    help=say("Show the page at this cursor, which the previous page printed."),
)  # fmt: skip
@option(
    "--unused", is_flag=True,
    help=say("Show unused servers and tools, what their definitions cost, and what is slow or fails."),
)  # fmt: skip
@hub_options
@click.pass_context
def usage(ctx: click.Context, /, unused: bool, **options: Any) -> None:
    terminal = ctx.ensure_object(Terminal)
    if unused:
        _analyze(ctx, terminal, options)
        return
    with terminal.working(say("Counting calls")):
        found = terminal.hub().call("get_usage_stats", given(options))
    if terminal.show_json(found):
        return
    if found.get("problem"):
        terminal.note(found["problem"])
    if not found["results"]:
        terminal.note(say("No calls from {start} to {end}.", start=found["start"], end=found["end"]))
        return
    by = found["by"]
    headers: list[str | Message] = [
        _GROUPS[by], say("calls"), say("errors"), "p50", "p95", "p99", say("tokens saved"), say("size"),
    ]  # fmt: skip
    rows = [
        (
            _name(group, by),
            f"{group['calls']:,}",
            f"{group['errors']:,}",
            milliseconds(group["p50_ms"]),
            milliseconds(group["p95_ms"]),
            milliseconds(group["p99_ms"]),
            f"{group['saved']:,}",
            size_of(group["bytes"]),
        )
        for group in found["results"]
    ]
    terminal.table(headers, rows, whole=(1, 2, 3, 4, 5, 7))
    if len(rows) < found["total"]:
        terminal.note(
            say("{shown} of {total} {total:row|rows}, {calls} {calls:call|calls} in total.",
                shown=len(rows), total=found["total"], calls=f"{found['sum']['calls']:,}")
        )  # fmt: skip
    if found["next_cursor"]:
        terminal.note(say("Next page: --cursor {cursor}", cursor=found["next_cursor"]))


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


def _name(group: Mapping[str, Any], by: str) -> str:
    name, label = clean(group[by]), clean(group.get("label") or "")
    return f"{label} ({name})" if label and label != name else name or "-"


def size_of(count: int) -> str:
    """Return a number of bytes with three digits and its unit."""
    size, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 999.5 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"


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
    for title, headers, rows in _tables(found):
        if rows:
            terminal.say("")
            terminal.say(title)
            terminal.table(headers, rows)
    if found["unused_servers"]:
        terminal.note(say("Disable a server with: tabane servers disable NAME"))


def _tables(found: Mapping[str, Any]) -> list[tuple[Message, list[str | Message], list[tuple[object, ...]]]]:
    calls, tokens = say("calls"), say("tokens")
    return [
        (
            say("Unused servers:"),
            [say("server"), say("tools"), tokens],
            [(clean(row["server"]), row["tools"], f"{row['tokens']:,}") for row in found["unused_servers"]],
        ),
        (
            say("Unused tools:"),
            [say("tool"), tokens],
            [(clean(row["name"]), f"{row['tokens']:,}") for row in found["unused_tools"]],
        ),
        (
            say("Slowest tools:"),
            [say("tool"), calls, "p50", "p95"],
            [
                (clean(row["tool"]), row["calls"], milliseconds(row["p50_ms"]), milliseconds(row["p95_ms"]))
                for row in found["slowest"]
            ],
        ),
        (
            say("Tools that fail most often:"),
            [say("tool"), calls, say("errors"), say("share")],
            [
                (clean(row["tool"]), row["calls"], row["errors"], f"{row['share']:.1%}")
                for row in found["failing"]
            ],
        ),
        (
            say("Clients:"),
            [say("client"), calls, say("tokens of results"), say("tokens saved")],
            [
                (clean(row["client"]) or "-", f"{row['calls']:,}", f"{row['tokens']:,}", f"{row['saved']:,}")
                for row in found["clients"]
            ],
        ),
    ]
