"""`tabane posts export`: the archive, or a part of it, as a file or on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from tabane.cli.output import Command, Terminal, examples, hub_options, text
from tabane.cli.posts.limits import limits, limits_options, warn_of_users
from tabane.errors import CallerError
from tabane.messages import say


@click.command(
    "export",
    cls=Command,
    help=text(
        say(
            "Write posts as JSON lines, with all that is known of them, or as the CSV that they can be "
            "imported from."
        )
    ),
    epilog=examples(
        "tabane posts export > posts.jsonl",
        "tabane posts export --format csv -o twilog.csv",
        "tabane posts export --user alice --from 2024-01-01 -o alice.jsonl",
    ),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    help=text(say("By default what the name of the file ends with, else jsonl.")),
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help=text(say("The file, which is replaced when all is written; - is standard output, the default.")),
)
@limits_options
@hub_options
@click.pass_obj
def export(terminal: Terminal, /, form: str | None, output: str, **given: Any) -> None:
    hub = terminal.hub()
    warn_of_users(terminal, hub, (*given["users"], *given["not_users"]))
    wanted = limits(**given) | {"format": form or ("csv" if output.lower().endswith(".csv") else "jsonl")}
    with _opened(output) as file, terminal.working(say("Writing posts")):
        count = sum(_write(file, part["data"]) for part in hub.stream("export_posts", wanted))
    if output != "-":
        result = {"path": os.path.abspath(output), "bytes": count}
        terminal.show(
            result, lambda: terminal.say(say("{path}: {count} bytes", path=output, count=f"{count:,}"))
        )


def _write(file: IO[bytes], part: str) -> int:
    return file.write(part.encode("utf-8", "replace"))


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The file to write to, in place of the old one when the block is through, and not before."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise CallerError(
            say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from None
    finally:
        if os.path.exists(part):
            os.unlink(part)
