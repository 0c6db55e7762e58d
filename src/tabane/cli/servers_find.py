"""`tabane servers find`: servers of the MCP registry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.options import json_option, keep, option
from tabane.cli.output import Command, Terminal, examples, lang
from tabane.cli.registry_servers import ask_registry, needs_of
from tabane.messages import Message, say
from tabane.settings import load_settings

if TYPE_CHECKING:
    from tabane.servers.registry.entries import RegistryServer
    from tabane.servers.registry.finding import FoundServers, Registry


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
@option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    expose_value=False,
    callback=keep("config"),
    help=say("The settings file."),
)
@json_option
@click.pass_obj
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
    terminal.show(result, lambda: _print(terminal, found, exact, query))


def _print(terminal: Terminal, found: FoundServers, exact: RegistryServer | None, query: str) -> None:
    if exact:
        _print_whole(terminal, exact)
        return
    headers = [say("name"), say("version"), say("runs"), say("needs"), say("description")]
    terminal.table(headers, [_row(server) for server in found.servers])
    if not found.servers:
        terminal.note(say("The registry has no server for “{query}”.", query=query))
        return
    if found.next:
        terminal.note(say("There are more. Next page: --cursor {cursor}", cursor=_quoted(found.next)))
    terminal.note(
        say(
            "Details of one: tabane servers find NAME. Add one: tabane servers add --from-registry NAME",
        )
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


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
