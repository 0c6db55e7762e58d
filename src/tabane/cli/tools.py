"""`tabane tools`: the tools of all servers, searched, described, called and hidden."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from tabane.catalog.operations.table import SearchTools
from tabane.cli.approvals import approved_call
from tabane.cli.arguments import check_pairs, completed_pairs, read_object, read_pairs
from tabane.cli.empty import NO_SERVERS, no_tools, tools_by_server
from tabane.cli.operation_command import Column, operation_command, print_rows
from tabane.cli.options import (
    COMPLETION_LIMIT,
    completed,
    given,
    option,
    parameter_option,
    server_names,
    with_hub,
    words,
)
from tabane.cli.output import FAILED, Group, Terminal, emit, examples, text
from tabane.errors import BadArguments, TabaneError
from tabane.hub.local.client import HubCallDeclined, HubClient
from tabane.messages import Message, say
from tabane.search.snippets import first_sentence
from tabane.text.nearest_names import nearest
from tabane.text.units import bytes_text
from tabane.wire.json import decode


def tool_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a tool for the shell: from the hub, or from the last hub if none runs."""
    terminal = ctx.ensure_object(Terminal)
    try:
        hub = terminal.running_hub()
        names = (
            ([row["name"] for row in hub.call("list_tools", limit=COMPLETION_LIMIT)["results"]])
            if hub
            else _remembered(terminal)
        )
    except TabaneError:
        return []
    finally:
        terminal.close()
    return sorted(name for name in names if name.startswith(incomplete))


def _remembered(terminal: Terminal) -> list[str]:
    from tabane.catalog.tools.listings import remembered_names  # no other use reads files of servers
    from tabane.servers.configuration import written_definitions
    from tabane.settings import load_settings

    settings = load_settings({}, os.environ)
    return remembered_names(settings.home / "catalogue.db", written_definitions(settings.servers))


def argument_pairs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete ``key=`` and its value for the shell, by the schema of the tool, if a hub runs."""

    def ask(hub: HubClient) -> Iterable[str]:
        schema = _schema_of(hub, ctx.params.get("name"), COMPLETION_LIMIT)
        return completed_pairs(schema, ctx.params.get("pairs") or (), incomplete)

    return completed(ctx, ask, incomplete)


def _schema_of(hub: HubClient, name: str | None, limit: float | None = None) -> dict[str, Any]:
    schema = hub.call("get_tool", {"name": name}, limit).get("tool", {}).get("inputSchema")
    return schema if isinstance(schema, dict) else {}


MOST_HIDDEN = 1_000
"""Hidden tools that the command lists."""

_name = click.argument("name", metavar="NAME", shell_complete=tool_names)

_of_server = option(
    "--server", metavar="NAME", shell_complete=server_names, help=say("Only tools of this server.")
)


@click.group("tools", cls=Group, help=say("Search, show and call the tools of all servers."))
def tools() -> None: ...


def _print_search(terminal: Terminal, found: Any) -> str:
    """Return the results. Where only Tabane's own tools were found, say so if there is no server."""
    own = all("__" not in row.get("name", "") for row in found.get("results", ()))
    if own and not tools_by_server(terminal.hub()):
        terminal.note(NO_SERVERS)
    return str(found.get("text", ""))


_of_search = partial(parameter_option, SearchTools)

operation_command(
    tools, "search", "search_tools",
    words("query", "QUERY"),
    _of_search("limit", help=say("Maximum number of results.")),
    _of_server,
    _of_search("match", help=say("How the query is compared; all except the first compare tool names.")),
    _of_search("tags", "--tag", "tags", help=say("Only tools with this tag; repeatable.")),
    _of_search("kind", help=say("What is searched; the others are what servers offer besides tools.")),
    _of_search("category", help=say("Only tools of this category.")),
    help=say("Find tools by what they do, in English or Japanese."),
    epilog=examples(
        "tabane tools search 'create an issue'",
        "tabane tools search 時刻 --limit 3",
        "tabane tools search git_ --match prefix --server git",
        "tabane tools search 'release notes' --kind prompts",
    ),
    text=_print_search,
)  # fmt: skip


_HIDDEN = (
    Column(say("tool"), "name"),
    Column(say("purpose"), lambda row: first_sentence(row["description"])),
)
_LISTED = (
    Column(say("tool"), "name"),
    Column(
        say("arguments and purpose"),
        lambda row: row["signature"].removeprefix(row["name"]).removeprefix(": "),
    ),
)


@tools.command(
    "list",
    help=say("List all tools, or those of one server."),
    epilog=examples("tabane tools list", "tabane tools list --server git"),
)
@_of_server
@option("--hidden", is_flag=True, help=say("List the tools that the servers file hides."))
@with_hub
def list_(terminal: Terminal, server: str | None, hidden: bool) -> None:
    if hidden:
        found = terminal.hub().call("list_hidden_tools", given({"server": server, "limit": MOST_HIDDEN}))
        if not terminal.show_json(found):
            print_rows(terminal, _HIDDEN, found["results"])
            if not found.get("results"):
                terminal.note(say("No tool is hidden. To hide one: tabane tools hide NAME"))
        return
    found = terminal.hub().call("list_tools", {"server": server} if server else {})
    if not terminal.show_json(found):
        print_rows(terminal, _LISTED, found["results"])
    if not (terminal.json or any(map(found.get, ("results", "waiting", "failed")))):
        terminal.note(no_tools(terminal.hub()))
    if found["waiting"]:
        names = ", ".join(found["waiting"])
        terminal.note(say("Still starting, tools not listed yet: {names}", names=names))
    for why in found["failed"].values():
        terminal.note(why)


def _visibility(name: str, help: Message, example: str, done: Message, **wanted: bool) -> None:
    operation_command(
        tools, name, "set_tool_visibility", _name,
        help=help, epilog=examples(example), params=lambda options: options | wanted, text=done,
    )  # fmt: skip


_visibility(
    "pin",
    say(
        "Always list a tool. Assistants then see its whole definition at once, without a search. This adds "
        "it to the key pin in the servers file."
    ),
    "tabane tools pin time__get_current_time",
    say("{name} is always listed now."),
    pinned=True,
)
_visibility(
    "unpin",
    say("Stop listing a tool in every conversation. Assistants still find it with search."),
    "tabane tools unpin time__get_current_time",
    say("{name} is no longer pinned."),
    pinned=False,
)
_visibility(
    "hide",
    say(
        "Hide a tool. Nobody can find or call it any more. This adds it to the key deny in the servers file."
    ),
    "tabane tools hide git__git_reset",
    say("{name} is hidden now."),
    hidden=True,
)
_visibility(
    "unhide",
    say("Offer a hidden tool again."),
    "tabane tools unhide git__git_reset",
    say("{name} is no longer hidden."),
    hidden=False,
)

operation_command(
    tools, "forget-types", "forget_result_types",
    click.argument("name", metavar="[NAME]", default="", shell_complete=tool_names),
    help=say(
        "Forget what was learned of the results of a tool, or of the tools of a server. Without NAME: of all."
    ),
    epilog=examples("tabane tools forget-types", "tabane tools forget-types git__git_log"),
    text=lambda _, found: (
        say("{count} {count:type|types} forgotten.", count=found["forgotten"])
        if found["forgotten"]
        else say("There was nothing to forget.")
    ),
)  # fmt: skip


@tools.command(
    help=say("Show the parameters of tools."),
    epilog=examples("tabane tools show time__get_current_time", "tabane tools show git__git_log --full"),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=tool_names)
@option("--full", is_flag=True, help=say("Show the whole definition, as the server sent it."))
@with_hub
def show(terminal: Terminal, names: Sequence[str], full: bool) -> None:
    wanted = {"names": list(names), "detail": "full" if full else "compact"}
    found = terminal.hub().call("describe_tools", wanted)
    if terminal.show_json(found):
        return
    if full:
        pages = (result.get("error") or indented(result["tool"]) for result in found["results"])
        terminal.say("\n".join(pages))
    else:
        terminal.say(found["text"])


@tools.command(
    help=say(
        "Call a tool. Arguments are key=value and are converted as the tool's schema says; "
        "repeat a key to make a list. Use - to read a JSON object from standard input. The "
        "exit status is 1 if the tool reports an error."
    ),
    epilog=examples(
        "tabane tools call time__get_current_time timezone=Asia/Tokyo",
        'tabane tools call git__git_log --args \'{"repo_path": ".", "max_count": 3}\'',
        'echo \'{"timezone": "UTC"}\' | tabane tools call time__get_current_time -',
    ),
)
@click.argument("name", metavar="NAME", shell_complete=tool_names)
@click.argument("pairs", metavar="[key=value…]", nargs=-1, shell_complete=argument_pairs)
@option("--args", "whole", metavar="JSON", help=say("The arguments as a JSON object; - for standard input."))
@with_hub
def call(terminal: Terminal, name: str, pairs: Sequence[str], whole: str | None) -> None:
    named = [pair for pair in pairs if pair != "-"]
    if len(named) < len(pairs):
        whole = "-"
    check_pairs(named)
    hub = terminal.hub()
    arguments: dict[str, Any] = {}
    if whole == "-":
        arguments = read_object(sys.stdin.buffer.read(), text(say("standard input")))
    elif whole is not None:
        arguments = read_object(whole, "--args")
    if named:
        with _servers_named(hub, name):
            schema = _schema_of(hub, name)
        arguments |= read_pairs(named, schema)
    raw = approved_call(terminal, "call_tool", {"name": name, "arguments": arguments})
    result = decode(raw)
    failed = isinstance(result, dict) and result.get("isError") is True
    if terminal.json:
        terminal.print_json_line(raw)
    else:
        emit(shown(result), err=failed)
    if failed:
        raise click.exceptions.Exit(FAILED)


@contextmanager
def _servers_named(hub: HubClient, name: str) -> Iterator[None]:
    """Name the servers with a similar name, if the tool is one of no server that is known."""
    try:
        yield
    except HubCallDeclined as error:
        server = name.partition("__")[0]
        known = tools_by_server(hub)
        near = () if server == name or server in known else nearest(server, known)
        if not near:
            raise
        tools = ", ".join(f"{each}__…" for each in near)
        raise BadArguments(
            say("No server has the tool {name}. Did you mean {tools}?", name=name, tools=tools), "name"
        ) from error


def shown(result: Any) -> str:
    """Return the content of a tool's result as text. Blocks that are not text become a short note.

    A result without content is shown as its structured content, in JSON.
    """
    given = result if isinstance(result, dict) else {}
    content = given.get("content")
    if isinstance(content, list) and content:
        return "\n".join(_block(block) for block in content)
    return indented(given.get("structuredContent", result))


def indented(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _block(block: Any) -> str:
    if not isinstance(block, dict):
        return json.dumps(block, ensure_ascii=False)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind in ("image", "audio"):
        return _note(kind, block.get("mimeType"), _size(block.get("data")))
    if kind == "resource_link":
        return _note("resource", block.get("name"), block.get("uri"))
    if kind == "resource" and isinstance(block.get("resource"), dict):
        resource = block["resource"]
        if isinstance(resource.get("text"), str):
            return str(resource["text"])
        return _note("resource", resource.get("uri"), resource.get("mimeType"), _size(resource.get("blob")))
    return _note(kind or "block")


def _note(*parts: object) -> str:
    return f"[{' '.join(str(part) for part in parts if part)}]"


def _size(encoded: object) -> str:
    """Return the size of base64 data, with its unit."""
    if not isinstance(encoded, str):
        return ""
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return bytes_text(size)
