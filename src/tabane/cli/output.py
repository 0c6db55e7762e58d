"""How commands speak: results, tables, errors, exit status, language; and how they reach the hub.

A command module looks like this, and is imported only when its command is used::

    @click.command("health", cls=Command, help=text(say("Ask each server whether it answers.")),
                   epilog=examples("tabane health", "tabane health --json"))
    @hub_options                            # --json, --url
    @click.pass_obj
    def health(terminal: Terminal) -> None:
        found = terminal.hub().call("health_check")
        terminal.show(found, lambda: terminal.table([say("server"), say("state")], rows(found)))

``cls=Command`` (and ``cls=Group`` for a group) turns every TabaneError into a line on stderr and the
exit status: 2 where the caller is at fault, else 1. ``terminal.hub()`` starts a hub where none runs;
``terminal.hub(start=False)`` fails with what to do. The connection is closed when the command ends.
With ``--json`` :meth:`Terminal.show` prints the result as it is and never calls its second argument.
Messages are rendered with :func:`text` where click wants a string, else handed over as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tabane.errors import CallerError, TabaneError
from tabane.messages import Lang, Message, language, say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient
    from tabane.hub.local.endpoint import Endpoint

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses."""

Shown = str | Message
_Function = TypeVar("_Function", bound=Callable[..., Any])


@lru_cache(maxsize=1)
def lang() -> Lang:
    """The language of this process: TABANE_LANG, else its locale."""
    environ = os.environ
    names = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return language(environ.get("TABANE_LANG", "auto").lower(), *names)


def text(message: Shown) -> str:
    """A Message in the language of this process; for help texts, and anything else that wants a string."""
    return message.render(lang()) if isinstance(message, Message) else message


def examples(*lines: str) -> str:
    """The epilog of a command's help: command lines that work as they stand."""
    # \b keeps click from filling the lines as a paragraph.
    return "\b\n" + text(say("Examples:")) + "\n" + "\n".join(f"  {line}" for line in lines)


class Terminal:
    """Where a command's results go, and its way to the hub: ``click``'s object of every command."""

    def __init__(self) -> None:
        self.json = False
        self.detach = False
        self.url: str | None = None
        self.config: str | None = None
        self._client: HubClient | None = None

    # -- printing --------------------------------------------------------------------------------

    def show(self, result: object, render: Callable[[], object]) -> None:
        """Print a result: as JSON where that was asked for, else by ``render``."""
        if self.json:
            self.print_json(result)
        else:
            render()

    def print_json(self, value: object) -> None:
        """A JSON document for a machine: two spaces deep, non-ASCII as it is where it can be written so."""
        import json

        written = json.dumps(value, indent=2, ensure_ascii=False)
        click.echo(written if _can_be_said(written) else json.dumps(value, indent=2))

    def say(self, message: Shown) -> None:
        """A line on stdout."""
        click.echo(text(message))

    def note(self, message: Shown) -> None:
        """A line on stderr: what is no part of the result."""
        click.echo(text(message), err=True)

    def warn(self, error: TabaneError) -> None:
        """An error on stderr, without ending the command."""
        click.echo(text(say("Error: {text}", text=error.text(lang()))), err=True)

    def table(self, headers: Sequence[Shown], rows: Iterable[Sequence[object]]) -> None:
        """Rows under headers: a table on a terminal, tab-separated lines without headers elsewhere."""
        if not sys.stdout.isatty():
            for row in rows:
                click.echo("\t".join(_plain(cell) for cell in row))
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(headers))
        for header in headers:
            table.add_column(text(header), overflow="fold")
        for row in rows:
            table.add_row(*(Text(_on_terminal(cell), _style(cell)) for cell in row))
        Console().print(table)

    def pairs(self, rows: Iterable[tuple[Shown, object]]) -> None:
        """Names and values, one a line."""
        self.table(["", ""], [(text(name), value) for name, value in rows])

    def working(self, what: Shown) -> AbstractContextManager[None]:
        """For what may take more than a moment: a line on a terminal that says so while the block runs."""
        from tabane.cli.progress import progress

        return progress(text(what))

    def agreed(self, question: Shown) -> bool:
        """Whether the user says yes. Only for where :attr:`asks` is true."""
        return click.confirm(text(question), default=True, err=True)

    @property
    def asks(self) -> bool:
        """Whether somebody sits there who can be asked."""
        return not self.json and sys.stdin.isatty() and sys.stderr.isatty()

    # -- the hub ---------------------------------------------------------------------------------

    def endpoint(self) -> Endpoint:
        """Where the hub is: that of --url, or of this user's home. Raises CallerError."""
        from tabane.hub.local.endpoint import Endpoint, at_url, home_of

        if not self.url:
            return Endpoint(home_of(os.environ), os.environ)
        try:
            return at_url(self.url, os.environ)
        except ValueError:
            raise CallerError(
                say(
                    "{url}: this command wants a hub on this machine. Leave --url and TABANE_URL out for "
                    "your own, or give unix:/path/to/its/TABANE_HOME.",
                    url=self.url,
                )
            ) from None

    def hub(self, *, start: bool = True) -> HubClient:
        """The connection to the hub, the same for the whole command. Raises HubError.

        Where none runs, one is started (it ends when it has been idle) unless ``start`` is False or
        the hub is another's. One that is named by ``ws://`` is shown the token in TABANE_TOKEN; without
        it, it answers what it answers to everybody on its machine.
        """
        if self._client is None and self.url and self.url.startswith(_OVER_TCP):
            from tabane.hub.rpc.client import connect_to

            with self.working(say("Reaching the hub")):
                self._client = connect_to(self.url, os.environ.get(_TOKEN), lang())
        if self._client is None:
            from tabane.cli.way import approach
            from tabane.hub.local.client import connect

            way = approach(
                self.endpoint(), flags=() if start and not self.url else None, named=bool(self.url)
            )
            with self.working(say("Reaching the hub")):
                self._client = connect(way, lang())
        return self._client

    def follow(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the result of an operation that is a job, and show its progress as a bar on a terminal.

        Ctrl+C cancels the job and ends the command with the status 130. The job is also canceled if this
        process ends in any other way. With --detach the command ends at once, and the job continues. Raises
        Declined, Failed, and HubError, also if the hub ends meanwhile.
        """
        from tabane.cli.jobs import follow

        return follow(self, operation, params or {})

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


_OVER_TCP = ("ws://", "http://")
_TOKEN = "TABANE_TOKEN"


class Command(click.Command):
    """A command whose errors are said in the user's language."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TabaneError as error:
            terminal = ctx.find_object(Terminal)
            if terminal is not None and terminal.json:
                terminal.print_json({"error": described(error)})
            (terminal or Terminal()).warn(error)
            raise click.exceptions.Exit(status_of(error)) from None


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


def status_of(error: TabaneError) -> int:
    """The exit status that an error ends a command with."""
    return WRONG_USAGE if isinstance(error, CallerError) else FAILED


def described(error: TabaneError) -> dict[str, Any]:
    """An error for ``--json``: the shape of JSON-RPC's."""
    data = getattr(error, "data", None)
    if data is None:
        near = list(getattr(error, "near", ()))
        data = {key: value for key, value in (("reason", error.reason), ("near", near)) if value}
    code = getattr(error, "answered", error.code)
    return {"code": code, "message": error.text(lang())} | ({"data": data} if data else {})


def json_option(function: _Function) -> _Function:
    """``--json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        callback=keep("json"),
        help=text(say("Print the result as JSON.")),
    )(function)


def detach_option(function: _Function) -> _Function:
    """Add ``--detach`` to commands that follow a job."""
    return click.option(
        "--detach",
        is_flag=True,
        expose_value=False,
        callback=keep("detach"),
        help=text(say("Do not wait. The job continues in the hub, and tabane jobs shows it.")),
    )(function)


def hub_options(function: _Function) -> _Function:
    """``--json`` and ``--url`` (``--websocket``, TABANE_URL): what every client command takes."""
    url = click.option(
        "--url",
        "--websocket",
        envvar="TABANE_URL",
        metavar="URL",
        expose_value=False,
        callback=keep("url"),
        help=text(say("Another hub: unix:/path/to/its/TABANE_HOME, or ws://host:port with TABANE_TOKEN.")),
    )
    return json_option(url(function))


def keep(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """The callback of an option that the Terminal remembers under that name."""

    def kept(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value:
            setattr(ctx.ensure_object(Terminal), name, value)
        return value

    return kept


class State(str):
    """The state of a server or a job in a table: on a terminal in the user's language, and in colour."""

    __slots__ = ()


_STATES: dict[str, tuple[Message, str]] = {
    "ready": (say("ready"), "green"),
    "running": (say("running"), "green"),
    "enabled": (say("enabled"), "green"),
    "done": (say("done"), "green"),
    "starting": (say("starting"), "cyan"),
    "watching": (say("watching"), "green"),
    "away": (say("away"), "yellow"),
    "idle": (say("idle"), "cyan"),
    "not loaded": (say("not loaded"), "yellow"),
    "waiting": (say("waiting"), "yellow"),
    "stopped": (say("stopped"), "yellow"),
    "disabled": (say("disabled"), "dim"),
    "cancelled": (say("cancelled"), "yellow"),
    "failed": (say("failed"), "red"),
    "circuit open": (say("circuit open"), "red"),
}


def state_word(state: str) -> Message | str:
    """That state in words for a person."""
    return _STATES[state][0] if state in _STATES else state


def _on_terminal(cell: object) -> str:
    return text(state_word(cell)) if isinstance(cell, State) else _plain(cell)


def _style(cell: object) -> str:
    return _STATES[cell][1] if isinstance(cell, State) and cell in _STATES else ""


def _plain(cell: object) -> str:
    if isinstance(cell, Message):
        return text(cell)
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return text(say("yes")) if cell else text(say("no"))
    if isinstance(cell, list | tuple):
        return ", ".join(_plain(item) for item in cell)
    # A table's row is one line, whatever a server calls itself.
    return " ".join(str(cell).split("\n")).replace("\t", " ")


def _can_be_said(written: str) -> bool:
    """Whether standard output takes the text: no encoding has half surrogates, and small ones lack much."""
    try:
        written.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
