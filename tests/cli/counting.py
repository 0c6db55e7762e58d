"""A command that follows a job, as those of the product do: `python counting.py GATE [--to N] [--detach]`."""

from __future__ import annotations

import click

from tabane.cli.job_progress import follow
from tabane.cli.options import detach_option, hub_options
from tabane.cli.output import Command, Terminal


@click.command(cls=Command)
@click.argument("gate")
@click.option("--to", type=int, default=200)
@click.option("--operation", default="count")
@detach_option
@hub_options
@click.pass_obj
def counting(terminal: Terminal, gate: str, to: int, operation: str) -> None:
    found = follow(terminal, operation, {"gate": gate, "to": to})
    terminal.show(found, f"counted to {found['counted']}")


if __name__ == "__main__":
    counting(obj=Terminal())
