"""The terminal of a command: results, tables, errors, exit status, language, and the connection to the hub.

A command that is one call of an operation is declared by :mod:`tabane.cli.operation_command`. Another one
looks like this, and is imported only when it is used::

    @click.command("health", cls=Command, help=text(say("Ask each server whether it answers.")),
                   epilog=examples("tabane health", "tabane health --json"))
    @with_hub                               # --json, --url, and the terminal
    def health(terminal: Terminal) -> None:
        found = terminal.hub().call("health_check")
        if not terminal.show_json(found):
            terminal.table([say("server"), say("state")], rows(found))

``cls=Command`` (and ``cls=Group`` for a group) turns every TabaneError into a line on stderr and an exit
status: 2 if the caller is at fault, else 1. ``terminal.hub()`` starts a hub if none runs;
``terminal.hub(start=False)`` fails and says what to do. The connection is closed when the command ends.
With ``--json``, :meth:`Terminal.show_json` prints the result unchanged and returns True.
Render a Message with :func:`text` if click needs a string; otherwise pass it on unchanged.

Everything is printed by :func:`emit`, which removes what could steer a terminal or deceive its reader,
whether a terminal is there or not: text may come from servers, pages, files and clients. A test refuses any
other way to print in ``cli/``. JSON keeps these characters, as escapes.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.drawing import can_print, progress, table_lines
from tabane.cli.terminal_text import StyledText
from tabane.errors import BadArguments, CallerError, TabaneError, UnknownName
from tabane.messages import Lang, Message, filled, language, say
from tabane.messages.server_states import words_of_state
from tabane.settings.files import config_folder, read_trusted
from tabane.text.control_characters import ascii_json, escaped_controls, without_controls
from tabane.text.nearest_names import nearest

if TYPE_CHECKING:
    from datetime import datetime

    from tabane.hub.local.client import HubClient
    from tabane.hub.local.endpoint import Endpoint

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses."""

Shown = str | Message

CLEAR_LINE = "\r\x1b[K"
"""Moves the cursor to the start of its line, and empties the line."""


@lru_cache(maxsize=1)
def lang() -> Lang:
    """Return the language of this process: TABANE_LANG, else the setting, else its locale."""
    environ = os.environ
    names = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return language((environ.get("TABANE_LANG") or _lang_of_settings()).lower(), *names)


def _lang_of_settings() -> str:
    """Return ``lang`` of the settings file; auto if that cannot be read, which the command itself reports."""
    named = os.environ.get("TABANE_CONFIG")
    try:
        written = read_trusted(named or config_folder(os.environ) / "tabane.toml")
        if b"lang" not in written:
            return "auto"
        import tomllib  # few have the setting

        return str(tomllib.loads(written.decode()).get("lang", "auto"))
    except (OSError, ValueError, TabaneError):
        return "auto"


def text(message: Shown) -> str:
    """Return a Message in the language of this process, for help texts and other strings."""
    return message.render(lang()) if isinstance(message, Message) else message


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: command lines that work as written."""
    # \b stops click from wrapping the lines as a paragraph
    return "\b\n" + text(say("Examples:")) + "\n" + "\n".join(f"  {line}" for line in lines)


class CleanStream(io.TextIOWrapper):
    """A standard stream that cleans all that is written to it, also by libraries and by tracebacks."""

    def write(self, text: str) -> int:
        super().write(without_controls(text))
        return len(text)

    def write_styled(self, text: str) -> None:
        """Write text that :func:`emit` has cleaned, with the escape sequences of its styles."""
        super().write(text)


def clean_streams() -> None:
    """Replace the standard streams of this process by clean ones. What they cannot encode is escaped."""
    sys.stdout, sys.stderr = _cleaned(sys.stdout), _cleaned(sys.stderr)


def _cleaned(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # closed, or replaced by a test
    return CleanStream(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def emit(*parts: str | StyledText, err: bool = False, nl: bool = True) -> None:
    """Print text, clean, and with its styles on a terminal. The only door to the standard streams."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # it was closed before the start
        return
    styled = stream.isatty() and not os.environ.get("NO_COLOR")
    line = "".join(_shown(part, styled) for part in parts) + ("\n" if nl else "")
    if isinstance(stream, CleanStream):
        stream.write_styled(line)
    else:
        stream.write(line)
    stream.flush()


_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG)


def unwritable(error: OSError) -> bool:
    """Return whether this is the error of an output that is closed, full or broken."""
    return error.errno in _UNWRITABLE and error.filename is None


def clear_line() -> None:
    """Empty the last line of a terminal, so that the next output replaces it."""
    if sys.stdout.isatty():
        if isinstance(sys.stdout, CleanStream):
            sys.stdout.write_styled(CLEAR_LINE)
        else:
            sys.stdout.write(CLEAR_LINE)
        sys.stdout.flush()


def _shown(part: str | StyledText, styled: bool) -> str:
    if isinstance(part, str):
        return without_controls(part)
    cleaned = without_controls(part.text)
    if not part.style or not styled:
        return cleaned
    attributes = {word: True for word in part.style.split() if word in ("bold", "dim", "underline")}
    color = next((word for word in part.style.split() if word not in attributes), None)
    return click.style(cleaned, fg=color, **attributes)


class Terminal:
    """Prints a command's results and connects to the hub: ``click``'s object of every command."""

    def __init__(self) -> None:
        self.json = False
        self.detach = False
        self.url: str | None = None
        self.config: str | None = None
        self._client: HubClient | None = None
        self._advice: dict[str, dict[str, list[Any]]] = {}

    # -- printing --------------------------------------------------------------------------------

    def show(self, result: object, message: Shown) -> None:
        """Print a result: as JSON with ``--json``, else as a line."""
        if not self.show_json(result):
            self.say(message)

    def show_json(self, result: object) -> bool:
        """Print a result as JSON if ``--json`` is given, and return whether it is."""
        if self.json:
            from msgspec import to_builtins  # help prints no result

            self.print_json(to_builtins(result))
        return self.json

    def print_json(self, value: object) -> None:
        """Print indented JSON. Non-ASCII characters are escaped only if stdout cannot encode them."""
        import json

        written = escaped_controls(json.dumps(value, indent=2, ensure_ascii=False))
        emit(written if can_print(written) else json.dumps(value, indent=2))

    def print_json_line(self, written: str | bytes) -> None:
        """Print valid JSON as it is written, on one line if it is. Control characters in it are escaped."""
        given = written if isinstance(written, str) else written.decode("utf-8", "replace")
        given = escaped_controls(given)
        emit(given if can_print(given) else ascii_json(given))

    def say(self, message: Shown | StyledText) -> None:
        """Print a line to stdout."""
        emit(message if isinstance(message, StyledText) else text(message))

    def note(self, message: Shown) -> None:
        """Print a line that is not part of the result to stderr."""
        emit(text(message), err=True)

    def advise(self, message: Message) -> None:
        """Print advice to stderr when the command ends: each sentence once, however often it is given.

        What its fields were is joined with commas; numbers are added.
        """
        known = self._advice.setdefault(message.template, {})
        for name, value in message.fields.items():
            known.setdefault(name, []).append(value)

    def warn(self, error: TabaneError) -> None:
        """Print an error to stderr without ending the command."""
        emit(text(say("Error: {text}", text=error.text(lang()))), err=True)

    def table(
        self,
        headers: Sequence[Shown],
        rows: Iterable[Sequence[object]],
        *,
        whole: Container[int] = (),
        below: int | None = None,
    ) -> None:
        """Print rows under headers: a table on a terminal, else tab-separated lines without headers.

        If the terminal is too narrow, cells are wrapped, except in the columns with the numbers ``whole``.
        The column ``below`` is printed under the table, each of its cells after the first one of its row.
        Without rows, nothing is printed.
        """
        if not sys.stdout.isatty():
            for row in rows:
                emit("\t".join(_plain(cell) for cell in row))
            return
        if below is not None:
            rows = list(rows)
            self.table(*_without_column(headers, rows, below), whole=whole)
            told = [f"{_on_terminal(row[0])}: {_on_terminal(row[below])}" for row in rows if row[below]]
            for line in table_lines([[StyledText(each, "")] for each in told]) if told else ():
                emit(*line)
            return
        shown = [[StyledText(_on_terminal(cell), _style(cell)) for cell in row] for row in rows]
        if shown and any(headers):
            shown.insert(0, [StyledText(text(header), "bold") for header in headers])
        for line in table_lines(shown, whole=whole):
            emit(*line)

    def pairs(self, rows: Iterable[tuple[Shown, object]]) -> None:
        """Print names and values, one pair per line."""
        self.table(["", ""], [(text(name), value) for name, value in rows])

    def working(self, what: Shown) -> AbstractContextManager[None]:
        """Show a progress line on a terminal while the block runs, if it takes long enough."""
        return progress(text(what))

    def agreed(self, question: Shown, *, default: bool = True) -> bool:
        """Ask the user, and return whether the answer is yes. Only if :attr:`asks` is true."""
        return click.confirm(without_controls(text(question)), default=default, err=True)

    def confirmed(self, question: Shown, agreed: bool, refused: Message, *, default: bool = True) -> bool:
        """Return whether ``--yes`` is given or the user agrees. Raises BadArguments where nobody is asked."""
        if not agreed and not self.asks:
            raise BadArguments(refused, "--yes")
        return agreed or self.agreed(question, default=default)

    def ask(self, question: Shown, **options: Any) -> str:
        """Return what the user types. ``options`` are those of click.prompt."""
        return str(click.prompt(without_controls(text(question)), err=True, **options))

    @property
    def asks(self) -> bool:
        """Whether a user can be asked: stdin and stderr are terminals, and ``--json`` is not given."""
        return not self.json and sys.stdin.isatty() and sys.stderr.isatty()

    # -- the hub ---------------------------------------------------------------------------------

    def endpoint(self) -> Endpoint:
        """Return the address of the hub: that of ``--url``, else of this user's home. Raises CallerError."""
        from tabane.hub.local.endpoint import Endpoint, at_url, home_of

        if not self.url:
            return Endpoint(home_of(os.environ), os.environ)
        try:
            return at_url(self.url, os.environ)
        except ValueError:
            raise CallerError(
                say(
                    "{url}: this command needs a hub on this machine. For your own hub, omit --url and "
                    "TABANE_URL; for another, give unix:/path/to/its/TABANE_HOME.",
                    url=self.url,
                )
            ) from None

    def hub(self, *, start: bool = True) -> HubClient:
        """Return the connection to the hub, the same for the whole command. Raises HubError.

        If none runs, one is started, which ends when idle, unless ``start`` is False or ``--url`` names a
        hub. A hub at ``ws://`` gets the token in TABANE_TOKEN. Without a token it allows only what it allows
        to every program on its machine.
        """
        if self._client is None and self.url and self.url.startswith(_OVER_TCP):
            from tabane.hub.local.endpoint import home_of
            from tabane.hub.rpc.client import connect_to

            with self.working(say("Connecting to the hub")):
                self._client = connect_to(self.url, os.environ.get(_TOKEN), lang(), home=home_of(os.environ))
        if self._client is None:
            from tabane.cli.hub_process import approach
            from tabane.hub.local.client import connect

            flags = () if start and not self.url else None
            route = approach(self.endpoint(), flags, named=bool(self.url))
            with self.working(say("Connecting to the hub")):
                self._client = connect(route, lang())
        if self.asks:
            self._client.passphrase = lambda: self.ask(say("Passphrase"), hide_input=True)
        return self._client

    def running_hub(self) -> HubClient | None:
        """Return the connection to this user's running hub, or None.

        Raises HubError if the hub refuses the user.
        """
        from tabane.hub.local import lock

        return self.hub(start=False) if lock.held(self.endpoint().lock) else None

    def end(self) -> None:
        """Print the advice that was given, and close the connection."""
        advice, self._advice = self._advice, {}
        self.close()
        for template, fields in advice.items():
            self.note(filled(Message(template), {name: _joined(values) for name, values in fields.items()}))

    def close(self) -> None:
        """Close the connection to the hub, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _joined(values: list[Any]) -> object:
    """Return one value for a field of advice that was given several times."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    return ", ".join(dict.fromkeys(map(str, values)))


_OVER_TCP = ("ws://", "http://", "wss://", "https://")
_TOKEN = "TABANE_TOKEN"


WORDS = "tabane.words"
"""The member of a context's ``meta`` with the words that its command got."""


def path_of(ctx: click.Context) -> str:
    """Return the words of a command after ``tabane``: ``servers add``."""
    return ctx.command_path.partition(" ")[2]


class Command(click.Command):
    """A command with its help and its errors in the user's language."""

    def __init__(self, name: str | None = None, *, help: Shown | None = None, **attributes: Any) -> None:
        super().__init__(name, **_helps(help), **attributes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            if os.geteuid() == 0:
                from tabane.hub.local.endpoint import home_of
                from tabane.settings.files import refuse_foreign_home

                refuse_foreign_home(home_of(os.environ), os.environ)
            return super().invoke(ctx)
        except TabaneError as error:
            terminal = ctx.find_object(Terminal)
            help_at = _help_at(error)
            if terminal is not None and terminal.json:
                described_help = {"help": help_at} if help_at else {}
                terminal.print_json({"error": described(error) | described_help})
            (terminal or Terminal()).warn(error)
            if help_at:
                emit(text(say("Help: tabane manual {section}", section=help_at)), err=True)
            raise click.exceptions.Exit(status_of(error)) from None


class Group(click.Group):
    """A group of such commands."""

    def __init__(self, name: str | None = None, *, help: Shown | None = None, **attributes: Any) -> None:
        super().__init__(name, **_helps(help), **attributes)

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        if not any("--json" in each.opts for each in self.params):
            self.params.append(_json_before())
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take other words for a command as that command, else suggest what is meant."""
        if args[0].startswith("-") or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        from tabane.cli.meanings import by_letters, in_group

        names = self.list_commands(ctx)
        found = in_group(path_of(ctx), args, names)
        if found and found.words:
            return super().resolve_command(ctx, list(found.words))
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        advice = found.advice if found else None
        raise click.UsageError(text(advice or by_letters(path_of(ctx), args[0], names)), ctx)


def _json_before() -> click.Option:
    """Return ``--json`` of a group: it may come before the command, though no help says so."""

    def kept(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Terminal).json = True

    return click.Option(["--json"], is_flag=True, hidden=True, expose_value=False, callback=kept)


def _helps(help: Shown | None) -> dict[str, Any]:
    """Return the help of a command, and its first sentence if it is Japanese: click knows only ``. ``."""
    if help is None:
        return {}
    shown = text(help)
    sentence, end, _ = shown.partition("。")
    return {"help": shown, "short_help": sentence + end} if end else {"help": shown}


def _help_at(error: TabaneError) -> str | None:
    """Return the section of the manual about an error; None if its message is enough."""
    from tabane.hub.doctor.troubles import trouble_of  # errors are rare

    trouble = trouble_of(error)
    return trouble.section if trouble else None


def status_of(error: TabaneError) -> int:
    """Return the exit status of a command that ends with this error."""
    return WRONG_USAGE if isinstance(error, CallerError) else FAILED


def described(error: TabaneError) -> dict[str, Any]:
    """Return an error for ``--json``, in the shape of JSON-RPC."""
    data = getattr(error, "data", None)
    if data is None:
        near = list(getattr(error, "near", ()))
        data = {key: value for key, value in (("reason", error.reason), ("near", near)) if value}
    code = getattr(error, "answered", error.code)
    return {"code": code, "message": error.text(lang())} | ({"data": data} if data else {})


def unknown_name(name: str, known: Iterable[str], similar: Message, other: Message) -> UnknownName:
    """Return the error of a name that is not known: ``similar`` names those that are ``near``."""
    near = nearest(name, known)
    return UnknownName(filled(similar if near else other, {"name": name, "near": ", ".join(near)}), near)


class TableState(str):
    """The state of a server or job in a table: on a terminal in the user's language and in color."""

    __slots__ = ()


_STATES: dict[str, tuple[Message, str]] = {
    "running": (say("running"), "green"),
    "enabled": (say("enabled"), "green"),
    "done": (say("done"), "green"),
    "working": (say("running"), "cyan"),
    "input_required": (say("asks for input"), "yellow"),
    "completed": (say("completed"), "green"),
    "ok": (say("ok"), "green"),
    "refused": (say("refused"), "red"),
    "limited": (say("limited"), "yellow"),
    "watching": (say("watching"), "green"),
    "away": (say("away"), "yellow"),
    "not loaded": (say("not loaded"), "yellow"),
    "waiting": (say("waiting"), "yellow"),
    "stopped": (say("stopped"), "yellow"),
    "disabled": (say("disabled"), "dim"),
    "cancelled": (say("cancelled"), "yellow"),
    "interrupted": (say("interrupted"), "red"),
    "failed": (say("failed"), "red"),
    "active": (say("active"), "green"),
    "expired": (say("expired"), "yellow"),
    "revoked": (say("revoked"), "red"),
}


class ServerState(TableState):
    """The state of a server. Jobs have some states of the same name, which mean something else."""

    __slots__ = ()


_COLORS = {"ok": "green", "accent": "cyan", "warn": "yellow", "bad": "red", "": "dim"}


def state_word(state: str) -> Message | str:
    """Return the words for a state."""
    return _STATES[state][0] if state in _STATES else state


def _without_column(
    headers: Sequence[Shown], rows: Iterable[Sequence[object]], number: int
) -> tuple[list[Shown], list[list[object]]]:
    """Return headers and rows without a column."""
    return (
        [header for at, header in enumerate(headers) if at != number],
        [[cell for at, cell in enumerate(row) if at != number] for row in rows],
    )


def _on_terminal(cell: object) -> str:
    if isinstance(cell, ServerState):
        return text(words_of_state(cell).words)
    return text(state_word(cell)) if isinstance(cell, TableState) else _plain(cell)


def _style(cell: object) -> str:
    if isinstance(cell, ServerState):
        return _COLORS[words_of_state(cell).tone]
    if isinstance(cell, StyledText):
        return cell.style
    return _STATES[cell][1] if isinstance(cell, TableState) and cell in _STATES else ""


def _plain(cell: object) -> str:
    if isinstance(cell, StyledText):
        cell = cell.text
    if isinstance(cell, Message):
        return text(cell)
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return text(say("yes")) if cell else text(say("no"))
    if isinstance(cell, list | tuple):
        return ", ".join(_plain(item) for item in cell)
    # a row of a table is one line, whatever a server's name contains
    return " ".join(str(cell).split("\n")).replace("\t", " ")


def local_time(moment: str | float | None) -> datetime | None:
    """Return a time that is ISO text or seconds; None if there is none, or none that a calendar has."""
    from datetime import datetime  # the help shows no time

    try:
        if isinstance(moment, str):
            return datetime.fromisoformat(moment).astimezone()
        return None if moment is None else datetime.fromtimestamp(moment).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def local_minute(moment: str | float | None) -> str | None:
    """Return a time of the hub in the local time zone, to the minute; None if there is none."""
    local = local_time(moment)
    return local.strftime("%Y-%m-%d %H:%M") if local else None


def local_second(moment: str | float) -> str:
    """Return a time of the hub in the local time zone, to the second and with its offset."""
    local = local_time(moment)
    return local.isoformat(" ", "seconds") if local else ""
