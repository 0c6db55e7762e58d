"""`tabane servers override`: another name, other texts and decided parameters for one tool of a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from tabane.cli.arguments import read_pairs
from tabane.cli.options import json_option, option
from tabane.cli.output import Command, Terminal, examples
from tabane.cli.passphrase_check import check_passphrase
from tabane.cli.servers_file import ServersFile, file_option, files_changed, server_names
from tabane.errors import TabaneError
from tabane.messages import say
from tabane.servers.editing import change_server
from tabane.servers.masking import masked
from tabane.servers.override_edits import OverrideEdit


@click.command(
    cls=Command,
    help=say(
        "Change how one tool of a server is shown and called: its name, its texts and its parameters. The "
        "override is written into the servers file. TOOL is the server's own name for the tool. An empty "
        "text removes that part. Without options, the override is shown."
    ),
    epilog=examples(
        "tabane servers override github create_issue --name new_issue",
        "tabane servers override github list_issues --fix owner=me --hide page",
        "tabane servers override search query --default limit=5 --describe limit='Number of results.'",
        "tabane servers override github create_issue --reset",
    ),
)
@click.argument("server", metavar="NAME", shell_complete=server_names)
@click.argument("tool", metavar="TOOL")
@option("--name", metavar="NAME", help=say("The name that assistants see after the server's prefix."))
@option("--title", metavar="TEXT", help=say("The title for people."))
@option("--description", metavar="TEXT", help=say("The description for models."))
@option("--hide", metavar="PARAMETER", multiple=True, help=say("Hide a parameter; repeatable."))
@option(
    "--fix",
    metavar="PARAMETER=VALUE",
    multiple=True,
    help=say("Always send this value, and hide the parameter; ${NAME} is a variable; repeatable."),
)
@option(
    "--default",
    metavar="PARAMETER=VALUE",
    multiple=True,
    help=say("Send this value if a call has none; repeatable."),
)
@option(
    "--describe",
    metavar="PARAMETER=TEXT",
    multiple=True,
    help=say("Replace the description of a parameter; repeatable."),
)
@option(
    "--restore",
    metavar="PARAMETER",
    multiple=True,
    help=say("Remove the override of a parameter; repeatable."),
)
@option("--hide-tool/--show-tool", "hidden", default=None, help=say("Hide the tool, or show it again."))
@option("--reset", is_flag=True, help=say("Remove the whole override first."))
@file_option
@json_option
@click.pass_obj
def override(
    terminal: Terminal,
    /,
    server: str,
    tool: str,
    file: str | None,
    fix: Sequence[str],
    default: Sequence[str],
    describe: Sequence[str],
    restore: Sequence[str],
    **given: Any,
) -> None:
    place = ServersFile.found(terminal, file)
    tool = tool.removeprefix(f"{server}__")
    if not any((fix, default, describe, restore, *given.values())) and not _empties(given):
        _show(terminal, place, server, tool)
        return
    schema = _schema(place, server, tool)
    edit = OverrideEdit(
        fixed=read_pairs(fix, schema),
        defaults=read_pairs(default, schema),
        described=_texts(describe),
        restored=restore,
        **given,
    )
    written = place.read().definition(server, reveal=True)
    secrets = next(each.secrets for each in place.read().configuration.servers if each.name == server)
    shown = masked(edit.apply(written, tool), secrets)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        change_server(place.path, server, lambda definition: edit.apply(definition, tool), shown)
    _show(terminal, place, server, tool)


def _empties(given: dict[str, Any]) -> bool:
    """Return whether an option was given whose value counts as nothing, such as an empty text."""
    return any(given[key] is not None for key in ("name", "title", "description", "hidden"))


def _texts(pairs: Sequence[str]) -> dict[str, str]:
    read_pairs(pairs, {})  # refuses what is no pair
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _schema(place: ServersFile, server: str, tool: str) -> dict[str, Any]:
    """Return the schema of a tool from the running hub, to read values by their types; empty if unknown."""
    if place.hub is None:
        return {}
    try:
        found = place.hub.call("get_tool", {"name": f"{server}__{tool}"})
    except TabaneError:
        return {}
    schema = found["tool"].get("inputSchema")
    return schema if isinstance(schema, dict) else {}


def _show(terminal: Terminal, place: ServersFile, server: str, tool: str) -> None:
    content = place.read()
    definition = content.definition(server, reveal=False)
    overrides = definition.get("overrides")
    found = overrides.get(tool) if isinstance(overrides, dict) else None
    result = {"name": server, "tool": tool, "path": str(place.path), "override": found}
    terminal.show(result, lambda: _say(terminal, server, tool, found))
    for warning in content.warnings(server):
        terminal.note(warning)


def _say(terminal: Terminal, server: str, tool: str, found: Any) -> None:
    if found is None:
        terminal.say(say("The tool {tool} of {server!n} has no override.", tool=tool, server=server))
        return
    terminal.say(say("The override of the tool {tool} of {server!n}:", tool=tool, server=server))
    terminal.say(json.dumps(found, indent=2, ensure_ascii=False))
