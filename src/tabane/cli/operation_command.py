"""Commands that are one call of an operation: the call, and what is printed of its result.

A command is declared in one place, beside its group::

    operation_command(
        keys, "revoke", "keys_revoke", _key,
        help=say("Revoke a key. It stops working at once, also for open connections."),
        epilog=examples("tabane keys revoke ci"),
        text=say("{name} ({prefix}) is revoked."),
    )

Its options are those of :func:`tabane.cli.options.parameter_option`, which derives them from the operation's
parameter struct. With ``--json`` the result is printed as it is. Else a result with ``columns`` is a table,
one with ``text`` a sentence or what that function prints, and any other one is printed as JSON too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tabane.cli.job_progress import follow
from tabane.cli.options import Decorator, detach_option, given, hub_options, with_hub
from tabane.cli.output import FAILED, Command, Group, Shown, Terminal
from tabane.messages import Message, filled

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

Print = Callable[[Terminal, Any], Shown | None]
"""Prints a result, or returns a line that is printed."""

Explain = Callable[["HubClient"], Message]
"""Returns why a result is empty."""


_ROWS, _TOTAL = "results", "total"
"""Members of each list of an operation: a page of its rows, and the number of all."""


class Column(NamedTuple):
    """A column of a table. ``cell`` is a key of a row, or returns the cell of a row.

    A ``seldom`` one is left out if no row has a value of its key.
    """

    header: Shown
    cell: str | Callable[[Any], object]
    seldom: bool = False

    def of(self, row: Mapping[str, Any]) -> object:
        """Return the cell of a row."""
        if not isinstance(self.cell, str):
            return self.cell(row)
        return row.get(self.cell) if self.seldom else row[self.cell]


def count_column(header: Shown, key: str) -> Column:
    """Return the column of a number, with commas."""
    return Column(header, lambda row: f"{row[key]:,}")


class OperationCall(NamedTuple):
    """The call of a command and the output of its result: the arguments of :func:`operation_command`."""

    operation: str
    params: Callable[[dict[str, Any]], dict[str, Any]]
    start: bool
    job: bool
    working: Message | None
    columns: Sequence[Column]
    whole: Container[int]
    text: Message | Print | None
    empty: Message | Explain | None
    more: Message | None
    failed: Callable[[Any], bool] | None
    added: Callable[[Terminal, Any], Any] | None

    def run(self, terminal: Terminal, /, **options: Any) -> None:
        """Call the operation, and print its result. The exit status is 1 if ``failed`` says so."""
        params = self.params(given(options))
        if self.job:
            found = follow(terminal, self.operation, params)
        else:
            hub = terminal.hub(start=self.start)
            with terminal.working(filled(self.working, params)) if self.working else nullcontext():
                found = hub.call(self.operation, params)
            if not found and callable(self.empty) and not terminal.json:
                terminal.note(self.empty(hub))
                return
            if hub.warning:
                terminal.note(hub.warning)
        if self.added:
            found = self.added(terminal, found)
        if not terminal.show_json(found):
            self._print(terminal, params, found)
        if self.failed and self.failed(found):
            raise click.exceptions.Exit(FAILED)

    def _print(self, terminal: Terminal, params: Mapping[str, Any], found: Any) -> None:
        if self.columns:
            self._print_table(terminal, params, found)
        elif self.text is None:
            terminal.print_json(found)
        elif (line := self._line(terminal, params, found)) is not None:
            terminal.say(line)

    def _line(self, terminal: Terminal, params: Mapping[str, Any], found: Any) -> Shown | None:
        """Return the sentence of a result. One without fields gets those of the parameters and the result."""
        line = self.text(terminal, found) if callable(self.text) else self.text
        return filled(line, params, found) if isinstance(line, Message) and not line.fields else line

    def _print_table(self, terminal: Terminal, params: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        rows = found[_ROWS]
        left = found[_TOTAL] - len(rows) if self.more else 0
        if not rows and self.empty:
            terminal.note(self.empty(terminal.hub()) if callable(self.empty) else self.empty)
        print_rows(terminal, self.columns, rows, whole=self.whole)
        if self.more and left > 0:
            terminal.note(filled(self.more, {"count": left}))
        if line := self._line(terminal, params, found) if self.text else found.get("problem"):
            terminal.note(line)


class OperationCommand(Command):
    """A command that calls an operation."""

    call: OperationCall


def print_rows(
    terminal: Terminal, columns: Sequence[Column], rows: Sequence[Any], *, whole: Container[int] = ()
) -> None:
    """Print a row for each result of an operation."""
    shown = [each for each in columns if not each.seldom or any(each.of(row) is not None for row in rows)]
    headers = [each.header for each in shown]
    terminal.table(headers, ([each.of(row) for each in shown] for row in rows), whole=whole)


def print_facts(terminal: Terminal, labels: Mapping[str, Message], facts: Mapping[str, Any]) -> None:
    """Print the facts that have a label, one a line and in the order of the labels; none that is empty."""
    shown = [(label, facts.get(name)) for name, label in labels.items()]
    terminal.pairs((label, value) for label, value in shown if value not in (None, "", [], {}))


def unchanged(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as parameters: each is named as its parameter."""
    return options


def not_empty(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options without empty texts, which count as not given."""
    return {name: value for name, value in options.items() if value != ""}


def operation_command(
    group: click.Group | None,
    name: str,
    operation: str,
    *options: Decorator,
    help: Message,
    epilog: str,
    params: Callable[[dict[str, Any]], dict[str, Any]] = unchanged,
    start: bool = True,
    job: bool = False,
    working: Message | None = None,
    columns: Sequence[Column] = (),
    whole: Container[int] = (),
    text: Message | Print | None = None,
    empty: Message | Explain | None = None,
    more: Message | None = None,
    failed: Callable[[Any], bool] | None = None,
    added: Callable[[Terminal, Any], Any] | None = None,
) -> OperationCommand:
    """Return the command that calls an operation, and add it to its group.

    The options that were given are the parameters of the operation, after ``params`` has changed them. No hub
    is started if ``start`` is False. A ``job`` is followed, and ``--detach`` leaves it. ``working`` is said
    meanwhile, and names parameters.

    ``columns`` are those of a table of the ``results``; ``empty`` is noted if there are none (it may ask the
    hub why, also where the result is no table), and ``more`` if there are more than are shown: it can name
    their ``count``. What ``text`` returns is then a note, and without it the ``problem`` of the result is.
    ``added`` returns the result with what this machine knows.
    """
    call = OperationCall(
        operation, params, start, job, working, columns, whole, text, empty, more, failed, added
    )

    def run(terminal: Terminal, /, **options: Any) -> None:
        call.run(terminal, **options)

    function: Any = with_hub(run)
    for decorate in reversed((*options, detach_option) if job else options):
        function = decorate(function)
    command = click.command(name, cls=OperationCommand, help=help, epilog=epilog)(function)
    command.call = call
    if group is not None:
        group.add_command(command)
    return command


def default_group(name: str, *, help: Message, default: str = "list") -> Group:
    """Return a group that runs its command ``default`` if none is named."""

    def run(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None and isinstance(ctx.command, click.Group):
            command = ctx.command.commands[default]
            with command.make_context(default, [], parent=ctx) as inner:
                command.invoke(inner)

    made: Group = click.group(name, cls=Group, invoke_without_command=True, help=help)(
        hub_options(click.pass_context(run))
    )
    return made
