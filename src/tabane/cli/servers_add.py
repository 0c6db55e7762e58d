"""`tabane servers add`: a server is tried and scanned, its tools are shown, and it is added to the file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click
from msgspec import Struct, field

from tabane.build import this_build
from tabane.cli.job_progress import result_of, watched
from tabane.cli.meanings import claude_words, server_mistake
from tabane.cli.options import combined, file_option, option, with_json
from tabane.cli.output import INTERRUPTED, Command, Terminal, examples, lang, text
from tabane.cli.passphrase import check_passphrase
from tabane.cli.registry_servers import GivenValues, KeepSecret, choose
from tabane.cli.secrets import accepted, naming_of, plain_option, report_kept, store_of
from tabane.cli.servers_changes import KIND_WORDS
from tabane.cli.servers_file import ServersFile, files_changed
from tabane.errors import BadArguments, TabaneError
from tabane.messages import say
from tabane.servers.editing import add_server, check_addable
from tabane.servers.secret_store import SecretNaming, keeping, moves_of, with_values
from tabane.servers.variables import each_text

FIRST_ANSWER = 4.0
"""Seconds after which a program gets what is known of servers that were just added."""


def tried(
    place: ServersFile, name: str, wanted: dict[str, Any], secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Try a definition with the secrets that are not kept yet, and return what the server lists.

    Raises TabaneError if the server does not work.
    """
    params: dict[str, Any] = {"name": name, "definition": wanted}
    if place.hub and secrets and place.hub.welcome.version != this_build().name:
        # A hub of an earlier version takes no secrets: it gets the values where they belong.
        params["definition"] = each_text(wanted, partial(with_values, values=secrets))
    elif secrets:
        params["secrets"] = dict(secrets)
    if place.hub:
        found: dict[str, Any] = place.hub.call("try_server", params)
        return found
    from tabane.hub.servers.server_setup import TryServer
    from tabane.hub.servers.trial import try_alone
    from tabane.operations import Caller, Face

    caller = Caller("local", Face.CLI, "", lang(), "tabane", os.getcwd())
    given = TryServer(name, wanted, secrets=dict(secrets))
    return try_alone(place.settings, os.environ, caller, given)


def warn_of_findings(terminal: Terminal, server: str, suspicious: Iterable[Mapping[str, Any]]) -> None:
    """Print what a scan found in the definitions of a server."""
    for row in suspicious:
        for finding in row["findings"]:
            terminal.note(
                say(
                    "Warning: the {kind} {name} of {server!n} looks like an attack: {message}",
                    kind=KIND_WORDS.get(row["kind"], row["kind"]),
                    name=row["name"],
                    server=server,
                    message=finding["message"],
                )
            )


class AddedServers(Struct):
    """Servers that were just added, as far as they have started.

    ``job`` is the hub's job that waits for the ``pending`` ones, None if there is none. ``suspicious`` are
    the definitions that look like an attack, by server. ``unscanned`` did not start: why is in ``failed``.
    """

    job: str | None = None
    pending: list[str] = field(default_factory=list)
    tools: dict[str, int] = field(default_factory=dict)
    suspicious: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unscanned: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def tell(self, terminal: Terminal) -> None:
        """Print it: findings, and which servers are scanned later."""
        for server, rows in self.suspicious.items():
            warn_of_findings(terminal, server, rows)
        for server in self.unscanned:
            if server in self.failed:
                why = self.failed[server]
                terminal.note(say("{server!n} does not start yet: {why}", server=server, why=why))
        if self.unscanned:
            terminal.note(
                say(
                    "Not scanned for attacks yet, because they could not be started now: {names}. Their "
                    "definitions are scanned at their first start.",
                    names=", ".join(self.unscanned),
                )
            )


def start_added(
    terminal: Terminal, place: ServersFile, names: Sequence[str], *, follow: bool = True
) -> AddedServers:
    """Have the hub start these servers, which are in the file by now, all at once, and scan what they list.

    Follow that with a bar. After Ctrl+C, and for a program or without ``follow`` after :data:`FIRST_ANSWER`
    seconds, it goes on in the hub.
    """
    follow = follow and not terminal.json
    try:
        hub = place.hub or terminal.hub()
        if hub.welcome.servers and os.path.realpath(hub.welcome.servers) != os.path.realpath(place.path):
            return AddedServers(unscanned=list(names))
        wait = 0.0 if follow else FIRST_ANSWER
        state = hub.call("start_new_servers", {"names": list(names), "wait": wait})
        if not follow:
            return _started(state["job"], state["found"])
        try:
            return _started(None, result_of(watched(hub, state)))
        except KeyboardInterrupt:
            terminal.note(
                say(
                    "The hub goes on starting and scanning them. Watch it with: tabane jobs follow {job}",
                    job=state["job"],
                )
            )
            raise click.exceptions.Exit(INTERRUPTED) from None
    except TabaneError as error:
        failed = error.text(lang())
        return AddedServers(unscanned=list(names), failed=dict.fromkeys(names, failed))


def _started(job: str | None, found: Mapping[str, Any]) -> AddedServers:
    given = {key: found[key] for key in ("pending", "tools", "suspicious", "failed")}
    return AddedServers(job if given["pending"] else None, unscanned=list(given["failed"]), **given)


NAMED_TOOLS = 20
"""The number of tools that are listed when a server is added."""


class AddCommand(Command):
    """A command whose options end at the first word of the server's own command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        args = claude_words(args, takes_value)
        if mistake := server_mistake(args):
            raise click.UsageError(text(mistake), ctx)
        return super().parse_args(ctx, self._with_mark(args, takes_value))

    def _with_mark(self, args: list[str], takes_value: set[str]) -> list[str]:
        at, names = 0, 0
        while at < len(args) and args[at] != "--":
            if not args[at].startswith("-"):
                if names and not is_url(args[at]):
                    self._refuse_options(args[at], args[at + 1 :])
                    return [*args[:at], "--", *args[at:]]
                names += 1
            at += 2 if args[at] in takes_value else 1
        return args

    def _refuse_options(self, command: str, words: Sequence[str]) -> None:
        """Raise UsageError for an option of ours among the words of a command that no ``--`` begins.

        The server would get it silently.
        """
        own = {name for option in self.params for name in option.opts if name.startswith("--")}
        for word in words:
            if (name := word.partition("=")[0]) in own:
                why = say(
                    "{option} is after the command, so {command} would get it. Write it before the name of "
                    "the server. If it is meant for {command}, write -- before {command}.",
                    option=name,
                    command=command,
                )
                raise click.UsageError(text(why))


class ServerTrialFailed(TabaneError):
    """The server that was tried does not work. ``cause`` is its error."""

    def __init__(self, cause: TabaneError, name: str) -> None:
        super().__init__(
            say(
                "{cause}\nNothing was added. Fix the problem and try again, or add {name!n} anyway with "
                "--force.",
                cause=cause.message,
                name=name,
            )
        )
        self.reason = cause.reason  # type: ignore[misc]


@click.command(
    cls=AddCommand,
    help=say(
        "Test a server (a command, or a URL), show its tools, and add it to the servers "
        "file. A server that does not work is not added. Keys and passwords are kept as secrets: the file "
        "has ${NAME} instead. To use a secret that is already kept, write --env KEY='${NAME}', or just "
        "--env KEY."
    ),
    epilog=examples(
        "tabane servers add time -- uvx mcp-server-time",
        "tabane servers add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
        "tabane servers add github --env GITHUB_TOKEN -- github-mcp-server stdio",
        "tabane servers add docs https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'",
        "tabane servers add --from-registry io.github.github/github-mcp-server",
    ),
)
@click.argument("name", metavar="NAME", required=False)
@click.argument("command", metavar="[URL | [--] COMMAND ARGS…]", nargs=-1, type=click.UNPROCESSED)
@combined((
    option("--url", "at", metavar="URL", help=say("URL of the server, instead of a command.")),
    option("--sse", is_flag=True, help=say("The URL is a server of the old transport (HTTP with SSE).")),
    option("--from-registry", "listed", metavar="NAME", help=say(
        "Add this server of the MCP registry: NAME or NAME@VERSION. To find one: tabane servers find. What "
        "it needs is asked for, or given with --env, --header and --input.")),
    option("--input", "inputs", multiple=True, metavar="NAME=VALUE",
           help=say("A value for another input that the registry declares; repeatable.")),
    option("--using", metavar="KIND",
           help=say("How to run a server of the registry: npm, pypi, oci, nuget, http or sse.")),
    option("--env", multiple=True, metavar="KEY=VALUE",
           help=say("Environment variables for it; repeatable.")),
    option("--header", multiple=True, metavar="'KEY: VALUE'",
           help=say("Headers for the URL, also as KEY=VALUE; repeatable.")),
    plain_option,
    option("--cwd", metavar="FOLDER",
           help=say("Working directory. Default: the folder of the servers file.")),
    option("--description", metavar="TEXT",
           help=say("What the server is for; tool searches use this text.")),
    option("--tag", "tags", multiple=True, metavar="TAG", help=say("Tag for its tools; repeatable.")),
    option("--keyword", "keywords", multiple=True, metavar="TEXT",
           help=say("Another word for it; repeatable.")),
    option("--example", "examples", multiple=True, metavar="TEXT",
           help=say("A request that it is for, in any language; repeatable.")),
    option("--yes", "-y", "agreed", is_flag=True,
           help=say("With --from-registry: do not ask for confirmation.")),
    option("--disabled", is_flag=True, help=say("Add it disabled, without testing it.")),
    option("--no-try", "untried", is_flag=True, help=say("Add it without testing it.")),
    option("--force", is_flag=True, help=say("Add it even if it does not work.")),
))  # fmt: skip
@file_option
@with_json
def add(
    terminal: Terminal,
    /,
    name: str | None,
    file: str | None,
    untried: bool,
    force: bool,
    plain: bool,
    **given: Any,
) -> None:
    listed, registry = given.pop("listed"), {key: given.pop(key) for key in ("inputs", "using", "agreed")}
    given["header"] = [header_pair(header) for header in given["header"]]
    place = ServersFile.found(terminal, file)
    kept: dict[str, str] = {}
    if listed:
        keep = None if plain else _keeping_into(kept, naming_of(place, {}), name or own_name(listed))
        name, wanted = _from_registry(terminal, place, listed, name, registry, given, keep)
    elif name is None:
        raise click.MissingParameter(param_type="argument", param_hint="'NAME'")
    else:
        if registry["inputs"] or registry["using"]:
            raise BadArguments(say("--input and --using apply to --from-registry."))
        wanted = definition(**given)
    # report a file that cannot be changed before asking and before starting the server
    check_addable(place.path, {name: wanted})
    check_passphrase(terminal, place.settings.home)
    wanted = _without_secrets(terminal, place, name, wanted, kept, plain, agreed=registry["agreed"])
    result: dict[str, Any] = {"name": name, "path": str(place.path), "status": "added"}
    if not untried and not given["disabled"]:
        result |= _try(terminal, place, name, wanted, kept, force=force)
        _show_tools(terminal, result)
    with files_changed(terminal), keeping(store_of(place.settings), kept):
        add_server(place.path, name, wanted)
    result["secrets"] = list(kept)
    if "works" in result:
        terminal.show(result, say("Added {name!n} to {path}.", name=name, path=place.path))
    else:
        added = say(
            "Added {name!n} to {path}. Test it with: tabane servers test {name!c}", name=name, path=place.path
        )
        terminal.show(result, added)
    report_kept(terminal, place.settings, kept)
    for problem in place.problems(name):
        terminal.note(problem)


def _without_secrets(
    terminal: Terminal,
    place: ServersFile,
    name: str,
    wanted: dict[str, Any],
    kept: dict[str, str],
    plain: bool,
    *,
    agreed: bool,
) -> dict[str, Any]:
    """Return the definition with variables instead of secrets, which are added to ``kept``."""
    if plain:
        return wanted
    moves = moves_of({name: wanted}, naming_of(place, {name: wanted}))
    if not accepted(terminal, moves, place.settings, agreed=agreed):
        return wanted
    kept |= moves.values
    return moves.definitions[name]


def _keeping_into(kept: dict[str, str], naming: SecretNaming, server: str) -> KeepSecret:
    """Return a function that chooses a name for a secret, and adds it to ``kept``."""

    def keep(wanted: str, value: str) -> str:
        name = naming.name_for(wanted, server, value)
        kept[name] = value
        return name

    return keep


def _from_registry(
    terminal: Terminal,
    place: ServersFile,
    listed: str,
    name: str | None,
    registry: dict[str, Any],
    given: dict[str, Any],
    keep: KeepSecret | None,
) -> tuple[str, dict[str, Any]]:
    """Return name and definition of a server of the registry."""
    if given["command"] or given["at"] or given["sse"]:
        raise BadArguments(say("--from-registry needs neither a command nor a URL."), "--from-registry")
    # A taken name is reported before anybody is asked for values.
    check_addable(place.path, {name or own_name(listed): {}})
    values = GivenValues(given["env"], given["header"], registry["inputs"], registry["using"])
    choice = choose(terminal, place.settings, listed, name, values, keep)
    # Anyone can publish: a person sees what runs before it does.
    if (
        terminal.asks
        and not registry["agreed"]
        and not terminal.agreed(say("Add {name!n}?", name=choice.name))
    ):
        terminal.say(say("Nothing was changed."))
        raise click.exceptions.Exit(0)
    if given["cwd"] and "url" in choice.definition:
        raise BadArguments(say("--env and --cwd apply to a command, not to --url."))
    own: dict[str, Any] = {"description": given["description"]}
    own |= {key: list(given[key]) for key in ("tags", "keywords", "examples")}
    own = {key: value for key, value in own.items() if value}
    own |= {"enabled": False} if given["disabled"] else {}
    own |= {"cwd": _absolute(given["cwd"], os.getcwd())} if given["cwd"] else {}
    return choice.name, choice.definition | own


def own_name(listed: str) -> str:
    """Return the name that a server of the registry gets here: the last part of its own."""
    return listed.partition("@")[0].rpartition("/")[2]


def _try(
    terminal: Terminal,
    place: ServersFile,
    name: str,
    wanted: dict[str, Any],
    secrets: Mapping[str, str],
    *,
    force: bool,
) -> dict[str, Any]:
    try:
        with terminal.working(say("Testing {name!n}", name=name)):
            found = tried(place, name, wanted, secrets)
    except TabaneError as error:
        if not force:
            raise ServerTrialFailed(error, name) from None
        terminal.warn(error)
        return {"works": False}
    return {"works": True, **{key: found.get(key) for key in ("version", "about", "tools", "suspicious")}}


def _show_tools(terminal: Terminal, result: dict[str, Any]) -> None:
    if terminal.json or not result["works"]:
        return
    tools = result["tools"]
    terminal.say(
        say("{about} works and has {count} {count:tool|tools}:", about=result["about"], count=len(tools))
    )
    for signature in tools[:NAMED_TOOLS]:
        terminal.say(f"  {signature}")
    if len(tools) > NAMED_TOOLS:
        terminal.say(say("  … and {count} more", count=len(tools) - NAMED_TOOLS))
    warn_of_findings(terminal, result["name"], result.get("suspicious") or ())


def of_command(command: Sequence[str], env: Sequence[str], cwd: str | None, folder: str) -> dict[str, Any]:
    """Return the definition of a server that is started. A relative ``cwd`` counts from ``folder``.

    Raises BadArguments if a part of ``env`` is not KEY or KEY=VALUE.
    """
    first, *rest = command
    cwd = _absolute(cwd, folder) if cwd else cwd
    return {"command": first, "args": rest, "env": dict(_pairs("--env", env)), "cwd": cwd}


def _absolute(cwd: str, folder: str) -> str:
    return cwd if cwd.startswith(("~", "${")) else os.path.normpath(os.path.join(folder, cwd))


def of_url(url: str, headers: Sequence[str], *, sse: bool) -> dict[str, Any]:
    """Return the definition of a server at a URL. Raises BadArguments if a header is not KEY or KEY=VALUE."""
    return {"type": "sse" if sse else "http", "url": url, "headers": dict(_pairs("--header", headers))}


def header_pair(given: str) -> str:
    """Return a header as ``NAME=VALUE``. It may be given as it is sent: ``NAME: VALUE``."""
    name, colon, value = given.partition(":")
    return f"{name.strip()}={value.strip()}" if colon and "=" not in name else given


def is_url(word: str) -> bool:
    """Return whether a word of the command line is a URL, and not a command."""
    return word.lower().startswith(("http://", "https://"))


def words_of(command: Sequence[str]) -> Sequence[str]:
    """Return the words of a command, which may be given as one quoted argument."""
    if len(command) != 1 or " " not in command[0].strip() or os.path.exists(command[0]):
        return command
    import shlex

    try:
        return shlex.split(command[0])
    except ValueError:
        raise BadArguments(
            say("A quote in the command is not closed: {command}", command=command[0])
        ) from None


def definition(
    command: Sequence[str],
    at: str | None,
    *,
    sse: bool,
    env: Sequence[str],
    header: Sequence[str],
    cwd: str | None,
    description: str | None,
    tags: Sequence[str],
    keywords: Sequence[str],
    examples: Sequence[str],
    disabled: bool,
) -> dict[str, Any]:
    """Return the whole definition, without parts that were not given. Raises BadArguments on conflicts."""
    if len(command) == 1 and not at and is_url(command[0]):
        at = command[0]
        command = ()
    if bool(command) == bool(at):
        raise BadArguments(
            say("Give the command that starts the server (-- COMMAND ARGS…) or its address (--url URL).")
        )
    command = words_of(command)
    if at and (env or cwd):
        raise BadArguments(say("--env and --cwd apply to a command, not to --url."))
    if command and (header or sse):
        raise BadArguments(say("--header and --sse apply to --url."))
    found = of_url(at, header, sse=sse) if at else of_command(command, env, cwd, os.getcwd())
    found |= {"description": description, "tags": list(tags)}
    found |= {"keywords": list(keywords), "examples": list(examples)}
    return {key: value for key, value in found.items() if value} | ({"enabled": False} if disabled else {})


def _pairs(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values. A name without a value stands for the variable of that name."""
    for pair in given:
        key, found, value = pair.partition("=")
        if not key:
            raise BadArguments(
                say("{option}: write {option} KEY=VALUE, or {option} KEY.", option=option), option
            )
        yield key, value if found else f"${{{key}}}"
