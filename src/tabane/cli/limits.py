"""`tabane limits`: who called, how much is left to them, and who was refused."""

from __future__ import annotations

from typing import Any

import click

from tabane.access.parameters import RateLimitStats
from tabane.cli.options import hub_options, option, parameter_option
from tabane.cli.output import Command, Terminal, examples
from tabane.messages import say


@click.command(
    "limits",
    cls=Command,
    help=say(
        "Show the rate limits: what each caller has left, and how many of its calls were refused. The limits "
        "are the tables [tiers] and [limits] of tabane.toml."
    ),
    epilog=examples("tabane limits", "tabane limits --holder key:3fa9c1d2e4b5", "tabane limits --json"),
)
@parameter_option(RateLimitStats, "limit", metavar="COUNT", help=say("Maximum number of callers."))
@option("--holder", metavar="ID", default="", help=say("Only this caller, such as key:ID."))
@hub_options
@click.pass_obj
def limits(terminal: Terminal, holder: str, limit: int) -> None:
    found = terminal.hub(start=False).call("get_rate_limit_stats", {"holder": holder, "limit": limit})
    terminal.show(found, lambda: _print(terminal, found, holder))


def _print(terminal: Terminal, found: dict[str, Any], holder: str) -> None:
    rows = found["results"]
    if not rows and not found["shared"]:
        terminal.note(
            say("No calls with limits since the hub started. The local user has no limits by default.")
        )
        return
    headers = [
        say("caller"),
        say("tier"),
        say("calls left"),
        say("calls running"),
        say("calls waiting"),
        say("refused"),
    ]
    terminal.table(headers, ([row["holder"], row["tier"], _tokens(row), *_counts(row)] for row in rows))
    if len(rows) < found["total"] and not holder:
        count = found["total"] - len(rows)
        terminal.note(say("{count} {count:caller is|callers are} not shown. Use --limit.", count=count))
    if found["shared"]:
        headers = [say("shared limit"), say("calls left"), say("calls running"), say("calls waiting")]
        terminal.table(headers, (_shared(row) for row in found["shared"]))


def _tokens(row: dict[str, Any]) -> str:
    return "–" if row["tokens"] is None else f"{row['tokens']}/{row['burst']} (+{row['rate']:g}/s)"


def _counts(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["in_flight"], row["waiting"], row["refused"]


def _shared(row: dict[str, Any]) -> list[str]:
    shown = ("–" if row[key] is None else str(row[key]) for key in ("tokens", "in_flight", "waiting"))
    return [f"{row['kind']} {row['pattern']}", *shown]
