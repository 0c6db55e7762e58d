"""`tabane`: the group of all commands, each imported on first use.

To add a command, add an entry to :data:`COMMANDS`: its line in the help, its module in this folder and
its name there. ``tabane --help`` needs no more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

import click

from tabane.build import this_build
from tabane.cli.output import Group, Terminal, examples, lang, text
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

    for kinds, word in _NUMBERS:
        for kind in kinds:
            setattr(kind, "name", text(word))  # noqa: B010  (a class attribute of a library's)
    missing = click.MissingParameter.format_message
    setattr(click.MissingParameter, "format_message", lambda self: missing(self).removesuffix("."))  # noqa: B010
    for group_or_command in (click.Command, click.Group):
        _translate_usage(group_or_command)


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
    "completion": CommandEntry(say("Print the completion script for a shell."), "options"),
}
"""Every command in the order of the help."""


class Main(Group):
    """A group that imports a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command by its name; None if there is none."""
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module = importlib.import_module(f"tabane.cli.{entry.module or name}")
        found = getattr(module, entry.attribute or name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Run ``read`` if the first argument is a URL."""
        if args and args[0].lower().startswith(("http://", "https://")):
            return "read", self.get_command(ctx, "read"), args
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of the commands without importing them."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = ((name, entry) for name, entry in COMMANDS.items() if name.startswith(incomplete))
        return [CompletionItem(name, help=text(entry.about)) for name, entry in found]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(text(say("Commands"))):
            formatter.write_dl([(name, text(entry.about)) for name, entry in COMMANDS.items()])


@click.group(
    cls=Main,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": None},
    help=say(
        "A local hub for MCP: connect your AI assistant to it once, and it can search and "
        "call the tools of all your MCP servers."
    ),
    epilog=examples(
        "tabane demo", "tabane servers add time uvx mcp-server-time", "tabane tools search 'time zone'"
    ),
)
@click.version_option(this_build().name, prog_name="tabane")
@click.pass_context
def main(ctx: click.Context) -> None:
    ctx.call_on_close(ctx.ensure_object(Terminal).close)
