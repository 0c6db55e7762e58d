"""`tabane`: the group of all commands, each imported on first use.

To add a command, add an entry to :data:`COMMANDS` (its line in the help, its module in this folder and its
name there) and its name to a group of :data:`GROUPS`. ``tabane --help`` needs no more.

Each way in which a command can end is here, too: :meth:`Main.main` turns errors of usage, Ctrl+C and outputs
that cannot be written into a line and an exit status.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tabane.build import this_build
from tabane.cli.options import VARIABLE, configured_servers, keep
from tabane.cli.output import (
    DONE,
    FAILED,
    INTERRUPTED,
    WORDS,
    Group,
    Terminal,
    emit,
    examples,
    lang,
    path_of,
    text,
    unwritable,
)
from tabane.cli.terminal_text import wrapped
from tabane.messages import Message, say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SENTENCES = (
    say("Usage:"),
    say("[OPTIONS]"),
    say("COMMAND [ARGS]..."),
    say("[COMMAND] [ARGS]..."),
    say("Options"),
    say("Commands"),
    say("Positional arguments"),
    say("Error: {message}"),
    say("Try '{command} {option}' for help."),
    say("Show this message and exit."),
    say("Show the version and exit."),
    say("%(prog)s, version %(version)s"),
    say("Missing command."),
    say("Missing argument"),
    say("Missing option"),
    say("Missing parameter"),
    say("Missing {param_type}"),
    say("Missing parameter: {param_name}"),
    say("Choose from:\n\t{choices}"),
    say("No such option {name!r}."),
    say("No such command {name!r}."),
    say("Did you mean {possibility}?"),
    say("(Did you mean one of: {possibilities}?)"),
    say("Invalid value: {message}"),
    say("Invalid value for {param_hint}: {message}"),
    say("{value!r} is not {choice}."),
    say("{value!r} is not one of {choices}."),
    say("{value!r} is not a valid {number_type}."),
    say("{value} is not in the range {range}."),
    say("{value!r} is not a valid boolean. Recognized values: {states}"),
    say("{name} {filename!r} does not exist."),
    say("{name} {filename!r} is a file."),
    say("{name} {filename!r} is a directory."),
    say("{name} {filename!r} is not readable."),
    say("file"),
    say("directory"),
    say("path"),
    say("Could not open file {filename!r}: {message}"),
    say("Got unexpected extra argument ({args})"),
    say("Got unexpected extra arguments ({args})"),
    say("Option {name!r} does not take a value."),
    say("Option {name!r} requires an argument."),
    say("Option {name!r} requires {nargs} arguments."),
    say("Argument {name!r} takes {nargs} values."),
    say("Takes {nargs} values but 1 was given."),
    say("Takes {nargs} values but {len} were given."),
    say("default: {default}"),
    say("env var: {var}"),
    say("required"),
    say("Aborted!"),
    say("Error: invalid input"),
    say("unknown error"),
)
"""Sentences of click that a user of these commands can see. Others stay in English."""

_MODULES = ("core", "decorators", "exceptions", "formatting", "parser", "termui", "types")


def speak() -> None:
    """Translate click's own sentences, unless the language is English."""
    if lang() == "en":
        return
    for name in _MODULES:
        module = importlib.import_module(f"click.{name}")
        # click uses the gettext catalog of the whole process, which other libraries share
        for function, ours in (("_", _translated), ("ngettext", _counted)):
            if hasattr(module, function):
                setattr(module, function, ours)

    setattr(click.formatting, "wrap_text", _wrapped_text)  # noqa: B010

    for kinds, word in _NUMBERS:
        for kind in kinds:
            setattr(kind, "name", text(word))  # noqa: B010  (a class attribute of a library's)
    missing = click.MissingParameter.format_message
    setattr(click.MissingParameter, "format_message", lambda self: missing(self).removesuffix("."))  # noqa: B010
    for group_or_command in (click.Command, click.Group):
        _translate_usage(group_or_command)


def _wrapped_text(
    text: str,
    width: int = 78,
    initial_indent: str = "",
    subsequent_indent: str = "",
    preserve_paragraphs: bool = False,
) -> str:
    """Wrap text as click does, but to columns of the terminal: wide letters take two.

    A paragraph that begins with ``\\b`` keeps its lines.
    """
    found: list[str] = []
    for paragraph in text.split("\n\n") if preserve_paragraphs else [text]:
        kept = preserve_paragraphs and paragraph.lstrip().startswith("\b")
        lines = paragraph.splitlines()[1:] if kept else [" ".join(paragraph.split())]
        shown: list[str] = []
        for line in lines:
            indent = subsequent_indent if shown else initial_indent
            parts = [line] if kept else list(wrapped(line, width - len(subsequent_indent)))
            shown += [
                (subsequent_indent if shown or number else indent) + part for number, part in enumerate(parts)
            ]
        found.append("\n".join(shown))
    return "\n\n".join(found)


def _translate_usage(kind: type[click.Command]) -> None:
    """Translate the words of a usage line that are not names of a command's own arguments."""
    pieces = kind.collect_usage_pieces

    def translated(self: click.Command, ctx: click.Context) -> list[str]:
        return [_translated(piece) if piece in _USAGE else piece for piece in pieces(self, ctx)]

    setattr(kind, "collect_usage_pieces", translated)  # noqa: B010


_USAGE = ("[OPTIONS]", "COMMAND [ARGS]...", "[COMMAND] [ARGS]...")


_NUMBERS = (
    ((click.types.IntParamType, click.IntRange), say("integer")),
    ((click.types.FloatParamType, click.FloatRange), say("number")),
)


def _translated(sentence: str) -> str:
    return Message(sentence).render(lang())


def _counted(one: str, many: str, count: int) -> str:
    return _translated(one if count == 1 else many)


speak()


class CommandEntry(NamedTuple):
    """The line of a command in the help, and its module and name, if these are not its own."""

    about: Message
    module: str = ""
    attribute: str = ""


COMMANDS = {
    "demo": CommandEntry(
        say("Run real servers in a temporary folder and show what Tabane does."), "demo.command"
    ),
    "start": CommandEntry(say("Start the hub.")),
    "stop": CommandEntry(say("Stop the hub and everything that it started."), "lifecycle"),
    "restart": CommandEntry(say("Stop the hub and start it again with the same flags."), "lifecycle"),
    "status": CommandEntry(say("Show the running hub and the settings in use."), "lifecycle"),
    "open": CommandEntry(
        say("Open the web page of the hub in a browser, signed in."), "browser", "open_page"
    ),
    "logs": CommandEntry(say("Show the log of the hub, or of a server."), "lifecycle"),
    "mcp": CommandEntry(say("Connect an assistant over standard input and output."), "lifecycle"),
    "servers": CommandEntry(say("List, add, change and control MCP servers.")),
    "secrets": CommandEntry(say("Keep keys and passwords of servers outside the servers file.")),
    "projects": CommandEntry(say("Trust the MCP servers of a project, for its folder alone.")),
    "tools": CommandEntry(say("Search, show and call the tools of all servers.")),
    "run": CommandEntry(say("Run a Python script that calls tools of all servers.")),
    "docs": CommandEntry(say("Save, search and delete documents, and add or watch folders.")),
    "posts": CommandEntry(say("Search, import and export your archive of posts.")),
    "read": CommandEntry(say("Print a page, PDF or other URL as Markdown.")),
    "reader": CommandEntry(say("Import cookies for pages that need a login.")),
    "search": CommandEntry(say("Search posts, documents, pages, tools and Tabane's documentation at once.")),
    "manual": CommandEntry(say("Read Tabane's documentation."), "search"),
    "models": CommandEntry(say("Manage the embedding model for semantic search.")),
    "setup": CommandEntry(say("Set up the assistants on this machine, with the servers they have.")),
    "install": CommandEntry(say("Add Tabane to an assistant's configuration file.")),
    "uninstall": CommandEntry(say("Remove Tabane from an assistant's configuration file."), "install"),
    "service": CommandEntry(say("Start the hub at each login (systemd, launchd).")),
    "skill": CommandEntry(say("Teach an assistant with a shell to use Tabane's commands.")),
    "settings": CommandEntry(say("List and change the settings.")),
    "keys": CommandEntry(say("Create, list, change and revoke API keys.")),
    "tls": CommandEntry(say("Make a certificate, so that other machines can reach the hub.")),
    "profiles": CommandEntry(say("List the profiles: named sets of servers and tools."), "access"),
    "policy": CommandEntry(say("Explain what keys may do."), "access"),
    "limits": CommandEntry(say("Show rate limits: what each caller has left."), "keys"),
    "usage": CommandEntry(
        say("Show how tools are used, how fast they are, and which are unused."), "usage_report"
    ),
    "audit": CommandEntry(say("Verify and read the audit log: who called which tool, and when.")),
    "backup": CommandEntry(say("Write the hub's data, settings and servers to one file.")),
    "restore": CommandEntry(say("Restore a backup, also of another machine."), "backup"),
    "migrate": CommandEntry(say("Copy all stored data to PostgreSQL, or from it to files."), "backup"),
    "jobs": CommandEntry(say("List, follow and cancel long-running work of the hub.")),
    "approve": CommandEntry(say("List and approve calls that wait for a person."), "approvals"),
    "passphrase": CommandEntry(say("Protect approvals and changes of what is allowed.")),
    "questions": CommandEntry(say("List and answer what servers ask you during a call."), "approvals"),
    "tasks": CommandEntry(say("List, show and cancel calls that run in the background."), "jobs"),
    "bench": CommandEntry(say("Measure how well an assistant finds and uses tools."), "bench.command"),
    "doctor": CommandEntry(say("Check for problems, and say how to fix them.")),
    "health": CommandEntry(say("Check whether each server responds."), "doctor"),
    "check": CommandEntry(say("Check the configuration without a hub, for CI and scripts.")),
    "update": CommandEntry(say("Show what is newer than this version, and install it.")),
    "rpc": CommandEntry(say("Call a method of the hub."), "jobs", "call_method"),
    "completion": CommandEntry(say("Print the completion script for a shell.")),
}
"""Every command."""

GROUPS: Sequence[tuple[Message, str]] = (
    (
        say("Everyday"),
        "setup status open servers tools search read docs posts doctor start stop manual "
        "install uninstall run demo mcp",
    ),
    (say("Archive and documents"), "reader models jobs backup restore migrate"),
    (
        say("Team and safety"),
        "keys profiles limits audit usage policy approve questions tasks passphrase secrets projects tls",
    ),
    (
        say("Maintenance"),
        "restart logs health check update settings service skill bench rpc completion",
    ),
)
"""The commands of ``--help-all``. ``--help`` shows the first :data:`SHORT` of them."""

SHORT = 13
"""Commands that ``--help`` shows."""


class Main(Group):
    """A group that imports a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        known = [name for _, names in GROUPS for name in names.split()]
        return [name for name in dict.fromkeys((*known, *COMMANDS)) if name in COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command by its name; None if there is none."""
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module = importlib.import_module(f"tabane.cli.{entry.module or name}")
        found = getattr(module, entry.attribute or name)
        assert isinstance(found, click.Command)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take words of other tools, orders and languages as the command that they mean."""
        return super().parse_args(ctx, _meant(ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Run ``read`` if the first argument is a URL."""
        if args[0].lower().startswith(("http://", "https://")):
            return "read", self.get_command(ctx, "read"), args
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from tabane.cli.meanings import unknown_command

            if advice := unknown_command(args, _leaves(self, ctx), configured_servers()):
                raise click.UsageError(text(advice), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of the commands without importing them."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = ((name, COMMANDS[name]) for name in self.list_commands(ctx) if name.startswith(incomplete))
        return [CompletionItem(name, help=text(entry.about)) for name, entry in found]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the everyday commands, or with ``--help-all`` all of them, in their groups."""
        everything = ctx.meta.get(EVERYTHING, False)
        for title, names in GROUPS if everything else GROUPS[:1]:
            listed = [name for name in names.split() if name in COMMANDS]
            with formatter.section(text(title)):
                for name in listed if everything else listed[:SHORT]:
                    _write_row(formatter, name, text(COMMANDS[name].about))
        if not everything:
            formatter.write_paragraph()
            more = say(
                "All {count} {count:command|commands}: tabane --help-all. Help for one: tabane help COMMAND",
                count=len(COMMANDS),
            )
            formatter.write(text(more) + "\n")

    def invoke(self, ctx: click.Context) -> None:
        """Run the command. What it returns is no exit status."""
        super().invoke(ctx)

    def main(  # type: ignore[override]  # both overloads in one
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command line, and exit with its status: 0, 1, 2, or 130 after Ctrl+C."""
        if os.environ.get(VARIABLE):
            importlib.import_module("tabane.cli.completion")
            with suppress(Exception):  # a printed error would appear in the command line being typed
                super().main(args, prog_name, **extra)
            sys.exit(FAILED)
        if not extra.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **extra)
        sys.exit(self._status(args, prog_name, extra))

    def _status(self, args: Sequence[str] | None, prog_name: str | None, extra: dict[str, Any]) -> int:
        try:
            status = super().main(args, prog_name, standalone_mode=False, **extra)
            return status if isinstance(status, int) else DONE
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            return error.exit_code
        except click.UsageError as error:
            _show_usage_error(error)
            return error.exit_code
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except click.Abort as abort:
            if isinstance(abort.__cause__ or abort.__context__, KeyboardInterrupt):
                return INTERRUPTED
            emit(text(say("Aborted!")), err=True)
            return FAILED
        except KeyboardInterrupt:
            return INTERRUPTED
        except OSError as error:
            if unwritable(error):
                return _end_of_output(error)
            if error.errno not in _NO_PLACE or not error.filename:
                raise
            why = say(
                "{path} cannot be used: {reason}. Set TABANE_HOME, TABANE_CONFIG and TABANE_SERVERS to "
                "places that you can write.",
                path=error.filename,
                reason=error.strerror or str(error),
            )
            emit(text(say("Error: {text}", text=text(why))), err=True)
            return FAILED


_NO_PLACE = (errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors of a home that is none, or that this user may not write."""

EVERYTHING = "tabane.everything"
"""The member of a context's ``meta`` that is true with ``--help-all``."""


def _meant(ctx: click.Context, args: list[str]) -> list[str]:
    """Return the command line that is meant. Raises UsageError that says what is right."""
    words = list(args)
    for _ in range(4):  # a word may mean one that means another: `key ls`
        at = 0
        while words[at : at + 1] and words[at] in _ANYWHERE:
            at += _ANYWHERE[words[at]]
        rest = words[at:]
        if not rest or rest[0] in _OWN or (rest[0] in COMMANDS and (rest[0] != "mcp" or len(rest) == 1)):
            break
        from tabane.cli.meanings import understood

        found = understood(rest, COMMANDS)
        if found is None or (found.advice and ctx.resilient_parsing):
            break
        if found.advice:
            raise click.UsageError(text(found.advice), ctx)
        words = [*words[:at], *(found.words or ())]
    return words


_ANYWHERE = {"--json": 1, "--url": 2, "--websocket": 2}
"""Options that may come before the command, and the number of their words."""

_OWN = ("--help", "-h", "--help-all", "--version")


def _leaves(group: click.Group, ctx: click.Context) -> dict[str, list[str]]:
    """Return the commands inside of the groups, by their names: as ``keys revoke`` for ``revoke``."""
    found: dict[str, list[str]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        for leaf in command.list_commands(ctx) if isinstance(command, click.Group) else ():
            found.setdefault(leaf, []).append(f"{name} {leaf}")
    return found


def _write_row(formatter: click.HelpFormatter, name: str, about: str) -> None:
    """Write a command and its line. The formatter's own lists count letters, not columns."""
    indent = " " * formatter.current_indent
    first, *more = wrapped(about, formatter.width - formatter.current_indent - _NAME_WIDTH)
    formatter.write(f"{indent}{name:<{_NAME_WIDTH}}{first}\n")
    for line in more:
        formatter.write(f"{indent}{'':<{_NAME_WIDTH}}{line}\n")


_NAME_WIDTH = 2 + max(map(len, COMMANDS))


def _show_usage_error(error: click.UsageError) -> None:
    """Print an error of usage: first what is right, then the usage and where the help is."""
    lines = [text(say("Error: {message}", message=_explained(error)))]
    if (ctx := error.ctx) is not None:
        lines.append(ctx.get_usage())
        hint = say("Try '{command} {option}' for help.", command=ctx.command_path, option="--help")
        lines.append(text(hint))
    emit("\n".join(lines), err=True)


def _explained(error: click.UsageError) -> str:
    """Return the sentence of an error of usage: what is right, if that is known, else what is wrong."""
    from tabane.cli.meanings import extra_words, odd_characters, option_advice

    ctx = error.ctx
    path, words = (path_of(ctx), ctx.meta.get(WORDS, ())) if ctx else ("", ())
    if isinstance(error, click.NoSuchOption):
        advice = option_advice(path, error.option_name) or odd_characters(words)
        return f"{error.message} {text(advice)}" if advice else error.format_message()
    if isinstance(error, click.MissingParameter):
        help_lines = (ctx.command.epilog or "").splitlines() if ctx else []
        example = next((line.strip() for line in help_lines if line.startswith("  tabane")), "")
        missing = error.format_message().rstrip(".")
        return text(say("{missing}. Example: {line}", missing=missing, line=example)) if example else missing
    for sentence in _UNEXPECTED:
        before, _, after = text(sentence).partition("{args}")
        if error.message.startswith(before) and error.message.endswith(after):
            plain = [word for word in words if not word.startswith("-")]
            advice = odd_characters(words) or extra_words(path, plain)
            return text(advice) if advice else error.format_message()
    return error.format_message()


_UNEXPECTED = (say("Got unexpected extra argument ({args})"), say("Got unexpected extra arguments ({args})"))


def _end_of_output(error: OSError) -> int:
    """End where nobody reads any more, silently, or where nothing can be written, with a line."""
    # what Python still holds goes nowhere: it would try again when it ends
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if error.errno == errno.EPIPE:
        os.dup2(nowhere, 2)
    else:
        reason = error.strerror or str(error)
        emit(text(say("Error: the output cannot be written: {reason}", reason=reason)), err=True)
    return FAILED


def _show_everything(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[EVERYTHING] = True
        emit(ctx.get_help())
        ctx.exit()


@click.group(
    cls=Main,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": None},
    help=say(
        "A local hub for MCP: connect your AI assistant to it once, and it can search and "
        "call the tools of all your MCP servers."
    ),
    epilog=examples(
        "tabane setup", "tabane servers add time uvx mcp-server-time", "tabane tools search 'time zone'"
    ),
)
@click.option("--url", "--websocket", hidden=True, expose_value=False, callback=keep("url"))
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_show_everything,
    help=text(say("Show all commands, in four groups.")),
)  # fmt: skip
@click.version_option(this_build().name, prog_name="tabane")
@click.pass_context
def main(ctx: click.Context) -> None:
    ctx.call_on_close(ctx.ensure_object(Terminal).end)
