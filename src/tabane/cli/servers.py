"""`tabane servers`: the servers file, and the servers that the hub runs of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from tabane.cli.configured import Place, file_option, server_names
from tabane.cli.definition import definition
from tabane.cli.output import Command, Group, Terminal, examples, hub_options, json_option, text
from tabane.gateway.servers.editing import add_server, enable_server, remove_server
from tabane.messages import Message, say


class Add(Command):
    """`add`: from the first word of the server's own command on, everything belongs to that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_mark(args))

    def _with_mark(self, args: list[str]) -> list[str]:
        takes_value = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        at, names = 0, 0
        while at < len(args) and args[at] != "--":
            if not args[at].startswith("-"):
                if names:
                    return [*args[:at], "--", *args[at:]]
                names = 1
            at += 2 if args[at] in takes_value else 1
        return args


@click.group("servers", cls=Group, help=text(say("List, add, change and look after MCP servers.")))
def servers() -> None: ...


_name = click.argument("name", metavar="NAME", shell_complete=server_names)


# -- the file ------------------------------------------------------------------------------------


@servers.command(
    "list",
    help=text(say("List the servers of the file, with their state where a hub runs.")),
    epilog=examples("tabane servers list", "tabane servers list --json"),
)
@file_option
@hub_options
@click.pass_obj
def list_(terminal: Terminal, file: str | None) -> None:
    place = Place.found(terminal, file)
    book = place.read()
    rows = book.rows()
    result = {"path": str(place.path), "hub": place.hub is not None, "results": rows}
    terminal.show(result, lambda: _print_rows(terminal, rows))
    for warning in book.configuration.warnings:
        terminal.note(warning)


@servers.command(
    help=text(
        say(
            "Show one server: what stands in the file, secrets hidden, and how it does. Variables are "
            "shown by name."
        )
    ),
    epilog=examples("tabane servers show time", "tabane servers show github --reveal"),
)
@_name
@click.option("--reveal", is_flag=True, help=text(say("Show what stands in the file, secrets too.")))
@file_option
@hub_options
@click.pass_obj
def show(terminal: Terminal, name: str, file: str | None, reveal: bool) -> None:
    place = Place.found(terminal, file)
    book = place.read()
    row = book.row(name)
    if place.hub and name in (book.live or {}):
        row |= place.hub.call("show_server", {"name": name})
    result = row | {"path": str(place.path), "definition": book.definition(name, reveal=reveal)}
    terminal.show(result, lambda: _print_server(terminal, result))
    for warning in book.warnings(name):
        terminal.note(warning)


@servers.command(
    cls=Add,
    help=text(
        say(
            "Add a server to the file: one that is started by a command, or one at a URL. A value of the "
            "environment is best a variable, --env KEY='${KEY}' or just --env KEY, with its value in "
            "secrets.env of Tabane's home."
        )
    ),
    epilog=examples(
        "tabane servers add time -- uvx mcp-server-time",
        "tabane servers add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
        "tabane servers add github --env GITHUB_TOKEN -- github-mcp-server stdio",
        "tabane servers add docs --url https://example.com/mcp --header Authorization='Bearer ${TOKEN}'",
    ),
)
@click.argument("name", metavar="NAME")
@click.argument("command", metavar="[-- COMMAND ARGS…]", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", "at", metavar="URL", help=text(say("Where the server is, in place of a command.")))
@click.option(
    "--sse", is_flag=True, help=text(say("The URL is of a server of the old kind (HTTP with SSE)."))
)
@click.option("--env", multiple=True, metavar="KEY=VALUE", help=text(say("Its environment; repeatable.")))
@click.option(
    "--header", multiple=True, metavar="KEY=VALUE", help=text(say("Headers for --url; repeatable."))
)
@click.option(
    "--cwd", metavar="FOLDER", help=text(say("The folder it runs in; else that of the servers file."))
)
@click.option("--description", metavar="TEXT", help=text(say("What it is for; found by tool searches.")))
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help=text(say("A tag for its tools; repeatable."))
)
@click.option("--disabled", is_flag=True, help=text(say("Add it switched off.")))
@file_option
@json_option
@click.pass_obj
def add(terminal: Terminal, /, name: str, file: str | None, **given: Any) -> None:
    wanted = definition(**given)
    place = Place.found(terminal, file)
    add_server(place.path, name, wanted)
    what = say(
        "Added {name} to {path}. See whether it works with: tabane servers test {name}",
        name=name,
        path=place.path,
    )
    _changed(terminal, place, name, "added", what)


@servers.command(
    help=text(say("Take a server out of the file.")), epilog=examples("tabane servers remove time")
)
@_name
@file_option
@json_option
@click.pass_obj
def remove(terminal: Terminal, name: str, file: str | None) -> None:
    place = Place.found(terminal, file)
    remove_server(place.path, name)
    _changed(terminal, place, name, "removed", say("Removed {name} from {path}.", name=name, path=place.path))


@servers.command(
    help=text(say("Switch a server on in the file.")), epilog=examples("tabane servers enable time")
)
@_name
@file_option
@json_option
@click.pass_obj
def enable(terminal: Terminal, name: str, file: str | None) -> None:
    place = Place.found(terminal, file)
    enable_server(place.path, name, True)
    _changed(terminal, place, name, "enabled", say("{name} is switched on.", name=name))


@servers.command(
    help=text(say("Switch a server off in the file: it is kept, but not started.")),
    epilog=examples("tabane servers disable time"),
)
@_name
@file_option
@json_option
@click.pass_obj
def disable(terminal: Terminal, name: str, file: str | None) -> None:
    place = Place.found(terminal, file)
    enable_server(place.path, name, False)
    _changed(terminal, place, name, "disabled", say("{name} is switched off.", name=name))


# -- the hub -------------------------------------------------------------------------------------


@servers.command(
    help=text(say("Start a server and wait for its tools.")), epilog=examples("tabane servers start time")
)
@_name
@hub_options
@click.pass_obj
def start(terminal: Terminal, name: str) -> None:
    _operate(terminal, "start_upstream", name)


@servers.command(
    help=text(say("Stop a server; it stays stopped until it is started again.")),
    epilog=examples("tabane servers stop time"),
)
@_name
@hub_options
@click.pass_obj
def stop(terminal: Terminal, name: str) -> None:
    _operate(terminal, "stop_upstream", name, start=False)


@servers.command(
    help=text(say("Stop a server and start it again.")), epilog=examples("tabane servers restart time")
)
@_name
@hub_options
@click.pass_obj
def restart(terminal: Terminal, name: str) -> None:
    _operate(terminal, "restart_upstream", name)


@servers.command(
    help=text(say("Start a server where it does not run, and list its tools.")),
    epilog=examples("tabane servers test time"),
)
@_name
@hub_options
@click.pass_obj
def test(terminal: Terminal, name: str) -> None:
    found = terminal.hub().call("test_server", {"name": name})
    terminal.show(found, lambda: _print_test(terminal, found))


@servers.command(
    help=text(say("Show what a server wrote to its error output.")),
    epilog=examples("tabane servers logs time", "tabane servers logs time --lines 500"),
)
@_name
@click.option("--lines", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True,
              help=text(say("How many lines, the last ones.")))  # fmt: skip
@hub_options
@click.pass_obj
def logs(terminal: Terminal, name: str, lines: int) -> None:
    found = terminal.hub().call("server_logs", {"name": name, "lines": lines})
    terminal.show(found, lambda: terminal.say("\n".join(found["lines"])))
    if not found["lines"]:
        terminal.note(say("{name} has written nothing.", name=name))


_LABELS = {
    "name": say("name"),
    "path": say("file"),
    "state": say("state"),
    "error": say("remark"),
    "tools": say("tools"),
    "about": say("server"),
    "version": say("protocol"),
    "pids": say("processes"),
    "starts": say("starts"),
    "deaths": say("deaths"),
    "in_flight": say("calls in flight"),
    "skipped_lines": say("unreadable lines"),
}


# -- inside --------------------------------------------------------------------------------------


def _operate(terminal: Terminal, operation: str, name: str, *, start: bool = True) -> None:
    found = terminal.hub(start=start).call(operation, {"name": name})
    terminal.show(found, lambda: terminal.say(_state(found)))


def _changed(terminal: Terminal, place: Place, name: str, done: str, what: Message) -> None:
    terminal.show({"name": name, "path": str(place.path), "status": done}, lambda: terminal.say(what))
    if done in ("added", "enabled"):
        for problem in place.problems(name):
            terminal.note(problem)


def _print_rows(terminal: Terminal, rows: Sequence[dict[str, Any]]) -> None:
    headers = [say("name"), say("state"), say("tools"), say("command"), say("remark")]
    keys = ("name", "state", "tools", "command", "error")
    terminal.table(headers, [[row.get(key) for key in keys] for row in rows])


def _print_server(terminal: Terminal, found: dict[str, Any]) -> None:
    shown = [(label, found.get(key)) for key, label in _LABELS.items()]
    terminal.pairs((label, value) for label, value in shown if value not in (None, "", [], {}))
    terminal.say(json.dumps({found["name"]: found["definition"]}, indent=2, ensure_ascii=False))


def _print_test(terminal: Terminal, found: dict[str, Any]) -> None:
    terminal.say(_state(found))
    for signature in found.get("tools") or ():
        terminal.say(f"  {signature}")


def _state(found: dict[str, Any]) -> Message:
    tools = found.get("tools")
    count = len(tools) if isinstance(tools, list) else tools
    if count is None:
        return say("{name}: {state}", name=found["name"], state=found["state"])
    return say("{name}: {state}, {count} tools", name=found["name"], state=found["state"], count=count)
