"""`tabane servers find`, and servers of the registry: chosen, and completed with the user's values."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct, structs

from tabane.cli.options import config_option, option, with_json
from tabane.cli.output import Command, Terminal, examples, lang, text
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.servers.plain_secrets import without_secrets
from tabane.servers.registry.runs import DeclaredInput, InputTemplate, RegistryRun, command_of, variable_for
from tabane.settings import Settings, load_settings
from tabane.text.nearest_names import nearest

if TYPE_CHECKING:
    from tabane.servers.registry.finding import FoundServers, Registry, RegistryServer

Found = TypeVar("Found")

KeepSecret = Callable[[str, str], str]
"""Keeps a secret, given a name for its variable and its value. Returns the name that it got."""


def ask_registry(
    terminal: Terminal, settings: Settings, work: Callable[[Registry], Awaitable[Found]]
) -> Found:
    """Return what ``work`` finds in the registry of the settings. Raises its errors."""
    # on first use: other commands of servers need no event loop
    import asyncio

    from tabane.servers.registry.finding import open_registry

    async def asked() -> Found:
        async with open_registry(settings.registry_url, os.environ, settings.home) as registry:
            return await work(registry)

    with terminal.working(say("Asking the registry")):
        return asyncio.run(asked())


class GivenValues(Struct, frozen=True):
    """Values of the command line as ``NAME=VALUE`` or ``NAME``, and the kind of package to use."""

    env: Sequence[str] = ()
    headers: Sequence[str] = ()
    inputs: Sequence[str] = ()
    using: str | None = None


class RegistryChoice(Struct, frozen=True):
    """A server as it will be added: its name for the servers file, and its definition."""

    server: RegistryServer
    name: str
    definition: dict[str, Any]


def choose(
    terminal: Terminal,
    settings: Settings,
    wanted: str,
    name: str | None,
    given: GivenValues,
    keep_secret: KeepSecret | None,
) -> RegistryChoice:
    """Look a server up, show what it runs, and return its definition with the user's values.

    ``wanted`` is its name, with ``@VERSION`` for a certain version. Missing values are asked for on a
    terminal. Raises BadArguments if one is missing and nobody can be asked, UnknownName, and
    RegistryUnavailable.
    """
    listed, _, version = wanted.partition("@")

    async def look(registry: Registry) -> tuple[RegistryServer, tuple[Message, ...]]:
        return await registry.get(listed, version or "latest")

    server, notes = ask_registry(terminal, settings, look)
    for note in notes:
        terminal.note(note)
    if server.status == "deprecated":
        why = server.status_message
        said = say("{name} is deprecated: {why}", name=server.name, why=why)
        terminal.note(said if why else say("{name} is deprecated.", name=server.name))
    run = with_own(chosen_run(server, given.using), given)
    own = name or server.short_name
    answers = dict(_answers(run, given))
    answers |= dict(_kept(terminal, run, answers, own, keep_secret))
    if not terminal.json:
        about = [server.title, server.description, server.repository]
        terminal.note(f"{server.name} {server.version}")
        for line in (line for line in about if line):
            terminal.note(f"  {line}")
        others = list(dict.fromkeys(each.kind for each in server.usable_runs if each.kind != run.kind))
        if others:
            terminal.note(say("  Other ways to run it: {kinds} (--using)", kinds=", ".join(others)))
        for line in needs_of(run):
            terminal.note(f"  {line}")
    answers |= _missing(terminal, run, answers, own, keep_secret)
    definition = run.definition({key: _absolute(run, key, value) for key, value in answers.items()})
    if server.description:
        definition["description"] = server.description
    if not terminal.json:
        shown = without_secrets(own, definition)
        terminal.note(say("It runs: {command}", command=command_of(shown)))
    return RegistryChoice(server, own, definition)


def needs_of(run: RegistryRun) -> Iterator[str]:
    """Yield a line for each input of a server: its option, whether it is required, and what it is."""
    for each in run.inputs:
        kinds = [say("required") if each.required else say("optional")]
        kinds += [say("secret")] if each.secret else []
        facts = ", ".join(text(kind) for kind in kinds)
        more = [each.description] if each.description else []
        more += [text(say("one of {choices}", choices=", ".join(each.choices)))] if each.choices else []
        more += [text(say("default {value}", value=each.default))] if each.default is not None else []
        more += [text(say("such as {value}", value=each.example))] if each.example else []
        yield f"{option_of(each)} ({facts}){': ' if more else ''}{'; '.join(more)}"


def option_of(wanted: DeclaredInput) -> str:
    """Return how a value is given on the command line."""
    options = {"env": "--env", "header": "--header"}
    option = "--input" if wanted.nested else options.get(wanted.place, "--input")
    return f"{option} {wanted.name}"


# -- choosing --------------------------------------------------------------------------------------


def chosen_run(server: RegistryServer, using: str | None) -> RegistryRun:
    """Return the way to run a server: the wanted kind, else the first whose program is installed.

    Raises BadArguments if there is none.
    """
    runs = server.usable_runs
    if not runs:
        why = next((run.why_not for run in server.runs if run.why_not), None)
        raise BadArguments(
            say("{name} cannot be added: {why}", name=server.name, why=why)
            if why
            else say("{name} cannot be added: its entry says nothing about how to run it.", name=server.name)
        )
    if using:
        found = next((run for run in runs if using in (run.kind, run.program)), None)
        if found is None:
            kinds = ", ".join(dict.fromkeys(run.kind for run in runs))
            raise BadArguments(
                say("{name} cannot be run with {using}. It can be run with: {kinds}",
                    name=server.name, using=using, kinds=kinds), "--using"
            )  # fmt: skip
        return found
    from shutil import which

    return next((run for run in runs if not run.program or which(run.program)), runs[0])


def with_own(run: RegistryRun, given: GivenValues) -> RegistryRun:
    """Return the run with variables and headers that the user gives and the registry does not declare."""

    def extended(
        declared: tuple[tuple[str, InputTemplate], ...], pairs: Sequence[str], place: Any
    ) -> tuple[tuple[str, InputTemplate], ...]:
        names = {pair.partition("=")[0] for pair in pairs} - {""}
        known = {each.name for each in run.inputs}
        kept = [(name, t) for name, t in declared if name not in names or name in known]
        fresh = sorted(names - known)
        return (*kept, *((name, InputTemplate((DeclaredInput(name, place),))) for name in fresh))

    if run.url is not None and given.env:
        raise BadArguments(say("--env applies to a command, and this server is at a URL."), "--env")
    if run.url is None and given.headers:
        raise BadArguments(say("--header applies to a URL, and this server is a command."), "--header")
    return structs.replace(
        run, env=extended(run.env, given.env, "env"), headers=extended(run.headers, given.headers, "header")
    )


def _answers(run: RegistryRun, given: GivenValues) -> Iterator[tuple[str, str]]:
    known = {each.name: each for each in run.inputs}
    for source, pairs in (("--env", given.env), ("--header", given.headers), ("--input", given.inputs)):
        for pair in pairs:
            name, found, value = pair.partition("=")
            if name not in known:
                near = nearest(name, known)
                raise BadArguments(
                    say("It has no input {name}. Did you mean {near}?", name=name, near=", ".join(near))
                    if near
                    else say("It has no input {name}.", name=name),
                    source,
                )
            yield name, value if found else f"${{{name}}}"


def _kept(
    terminal: Terminal,
    run: RegistryRun,
    answers: Mapping[str, str],
    name: str,
    keep_secret: KeepSecret | None,
) -> Iterator[tuple[str, str]]:
    """Keep secrets that were given as they are, and yield the variables instead."""
    for each in run.inputs:
        answer = answers.get(each.name, "")
        if not each.secret or not answer or "${" in answer:
            continue
        variable = variable_for(each, name)
        if keep_secret is None:
            terminal.note(
                say("{input} is a secret, and is written into the servers file. Without --plain it is "
                    "kept as the secret {variable}.", input=each.name, variable=variable)
            )  # fmt: skip
        else:
            yield each.name, f"${{{keep_secret(variable, each.checked(answer))}}}"


def _missing(
    terminal: Terminal,
    run: RegistryRun,
    answers: Mapping[str, str],
    name: str,
    keep_secret: KeepSecret | None,
) -> dict[str, str]:
    """Ask for what is required and was not given. Raises BadArguments if nobody can be asked."""
    wanted = [each for each in run.inputs if each.required and each.name not in answers]
    if not terminal.asks:
        needed = [each for each in wanted if each.is_missing]
        if needed:
            lines = "\n".join(f"  {_given_as(each, name)}" for each in needed)
            raise BadArguments(
                say("{name} needs values for:\n{lines}",
                    name=name, lines=lines)
            )  # fmt: skip
        return {}
    asked = {each.name: _asked(terminal, each, name, keep_secret) for each in wanted}
    return {name: answer for name, answer in asked.items() if answer is not None}


def _given_as(wanted: DeclaredInput, name: str) -> str:
    """Return an option to be completed. A secret is given by the name of its variable."""
    if not wanted.secret:
        return f"{option_of(wanted)}={wanted.example or '…'}"
    variable = variable_for(wanted, name)
    return option_of(wanted) if variable == wanted.name else f"{option_of(wanted)}='${{{variable}}}'"


def _asked(
    terminal: Terminal, wanted: DeclaredInput, name: str, keep_secret: KeepSecret | None
) -> str | None:
    """Return the answer for the servers file; None if the user takes the default."""
    question = wanted.name + (f" ({wanted.description})" if wanted.description else "")
    if wanted.secret and keep_secret is None:
        variable = variable_for(wanted, name)
        terminal.note(say("{question}: set it with: tabane secrets set {variable}",
                          question=question, variable=variable))  # fmt: skip
        return f"${{{variable}}}"
    while True:
        kind: Any = click.Choice(wanted.choices) if wanted.choices else str
        answer = terminal.ask(question, default=wanted.default, hide_input=wanted.secret, type=kind).strip()
        if answer == wanted.default:
            return None  # the publisher's text, which reads no variables
        try:
            checked = wanted.checked(answer)
        except BadArguments as wrong:
            terminal.note(wrong.message)
            continue
        if not wanted.secret or keep_secret is None or checked.startswith("${"):
            return checked
        return f"${{{keep_secret(variable_for(wanted, name), checked)}}}"


def _absolute(run: RegistryRun, key: str, value: str) -> str:
    """Return the value; a path of this folder as an absolute one, since the server has another folder."""
    wanted = next(each for each in run.inputs if each.name == key)
    if wanted.format != "filepath" or value.startswith("${") or not value:
        return value
    return os.path.abspath(os.path.expanduser(value))


@click.command(
    "find",
    cls=Command,
    help=say(
        "Find servers in the MCP registry: what each is, what it runs, and what it needs. Anyone can publish "
        "there, and the registry does not check what a server does. Look at its repository before you add it."
    ),
    epilog=examples(
        "tabane servers find github",
        "tabane servers find io.github.github/github-mcp-server",
        "tabane servers find calendar --limit 50 --json",
    ),
)
@click.argument("words", metavar="TEXT…", nargs=-1, required=True)
@option(
    "--limit",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    metavar="COUNT",
    help=say("Number of servers on one page."),
)
@option("--cursor", metavar="CURSOR", help=say("Show the next page; the page before prints its cursor."))
@config_option
@with_json
def find(terminal: Terminal, words: tuple[str, ...], limit: int, cursor: str | None) -> None:
    query = " ".join(words)
    settings = load_settings({"config": terminal.config}, os.environ)

    async def work(registry: Registry) -> tuple[FoundServers, str]:
        return await registry.find(query, limit, cursor), registry.host

    found, host = ask_registry(terminal, settings, work)
    for note in found.notes:
        terminal.note(note)
    result = {"query": query} | found.row(host, lang())
    exact = next((server for server in found.servers if server.name.lower() == query.lower()), None)
    if terminal.show_json(result):
        return
    if exact:
        _print_whole(terminal, exact)
        return
    headers = [say("name"), say("version"), say("runs"), say("needs"), say("description")]
    terminal.table(headers, [_row(server) for server in found.servers])
    if not found.servers:
        terminal.note(say("The registry has no server for “{query}”.", query=query))
        return
    if found.next:
        terminal.note(say("There are more. Next page: --cursor {cursor}", cursor=shlex.quote(found.next)))
    terminal.note(
        say("Details of one: tabane servers find NAME. Add one: tabane servers add --from-registry NAME")
    )


def _row(server: RegistryServer) -> tuple[Any, ...]:
    runs = server.usable_runs
    kinds = list(dict.fromkeys(run.program or "URL" for run in runs))
    shown: Any = kinds or say("not supported")
    about = server.description
    if server.status == "deprecated":
        about = say("(deprecated) {text}", text=about)  # type: ignore[assignment]
    needed = [each.name for each in runs[0].inputs if each.is_missing] if runs else []
    return server.name, server.version, shown, needed, about


def _print_whole(terminal: Terminal, server: RegistryServer) -> None:
    rows: list[tuple[Message, Any]] = [
        (say("name"), f"{server.name} ({server.title})" if server.title else server.name),
        (say("description"), server.description),
        (say("version"), server.version),
        (say("status"), server.status + (f": {server.status_message}" if server.status_message else "")),
        (say("repository"), server.repository),
        (say("website"), server.website),
    ]
    terminal.pairs([(name, value) for name, value in rows if value])
    for run in server.runs:
        row = run.row(server.short_name, lang())
        terminal.say("")
        if not row["usable"]:
            terminal.say(f"{run.kind}: {row['why_not']}")
            continue
        terminal.say(f"{run.kind}: {row['runs']}")
        for line in needs_of(run):
            terminal.say(f"  {line}")
    if server.usable_runs:
        terminal.say("")
        terminal.say(say("Add it with: tabane servers add --from-registry {name!c}", name=server.name))
