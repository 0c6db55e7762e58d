"""Click's own sentences, in help pages and usage errors, in the user's language."""

from __future__ import annotations

import importlib

import click

from tabane.cli.output import lang, text
from tabane.messages import Message, say

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
