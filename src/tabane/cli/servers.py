"""`tabane servers`: servers of the file listed, controlled, caged, overridden and logged in to."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.arguments import read_pairs
from tabane.cli.browser import is_remote, open_in_browser
from tabane.cli.lifecycle import show_server_log
from tabane.cli.operation_command import operation_command, print_facts
from tabane.cli.options import file_option, option, server_names, with_hub, with_json
from tabane.cli.output import Command, Group, ServerState, Shown, Terminal, examples, local_minute
from tabane.cli.passphrase import check_passphrase
from tabane.cli.registry_servers import find
from tabane.cli.servers_add import add
from tabane.cli.servers_changes import accept, changes, definition_remark, diff, reject, scan
from tabane.cli.servers_file import ServersFile, ServersFileContent, files_changed
from tabane.cli.servers_import import import_
from tabane.errors import TabaneError, UpstreamUnavailable
from tabane.messages import Message, filled, say
from tabane.messages.server_states import words_of_state
from tabane.servers.editing import OverrideEdit, change_server, enable_server, remove_server
from tabane.servers.masking import masked
from tabane.servers.server_keys import PRESETS

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

_name = click.argument("name", metavar="NAME", shell_complete=server_names)


@click.command(
    "sandbox",
    cls=Command,
    help=say(
        "Show the sandbox of a server: what it may do, what enforces that, and what stays open. --preset "
        "writes one to the servers file."
    ),
    epilog=examples(
        "tabane servers sandbox notes",
        "tabane servers sandbox notes --preset files",
    ),
)
@_name
@option("--preset", type=click.Choice(PRESETS), help=say("Write this preset to the servers file."))
@option(
    "--accept-links", is_flag=True, help=say("Accept where the links in the paths of its sandbox lead now.")
)
@file_option
@with_hub
def sandbox(
    terminal: Terminal,
    name: str,
    preset: str | None,
    accept_links: bool,
    file: str | None,
) -> None:
    if accept_links:
        _accept_links(terminal, name, file)
    if preset is not None:
        _accept_links(terminal, name, file)
        _write(terminal, name, file, preset)
        done = {"name": name, "sandbox": preset}
        terminal.show(
            done,
            say("{name!n} now runs without a sandbox.", name=name)
            if preset == "none"
            else say("{name!n} now runs in a sandbox ({preset}).", name=name, preset=preset),
        )
    else:
        found = terminal.hub().call("show_server", {"name": name})
        result = {"name": name, "sandbox": found["sandbox"]}
        if not terminal.show_json(result):
            cage = found["sandbox"]
            if cage is None:
                none = say(
                    "{name!n} runs without a sandbox. Add one with: "
                    "tabane servers sandbox {name!c} --preset files",
                    name=name,
                )
                terminal.say(none)
                return
            terminal.pairs((label, value) for label, value in _rows(cage) if value not in (None, "", []))
            for note in [*cage["uncovered"], *([cage["problem"]] if cage["problem"] else [])]:
                terminal.note(note)


def _accept_links(terminal: Terminal, name: str, file: str | None) -> None:
    """Let the hub record where the paths of the sandbox lead now."""
    from tabane.hub.servers.configuration import cages_of  # most commands need no cages

    settings = ServersFile.found(terminal, file).settings
    check_passphrase(terminal, settings.home)
    cages_of(settings, os.environ)().accept_links(name)


def _write(terminal: Terminal, name: str, file: str | None, value: object) -> None:
    def edit(definition: dict[str, Any]) -> Mapping[str, Any]:
        definition.pop("sandboxEnabled", None)
        return {**definition, "sandbox": value}

    place = ServersFile.found(terminal, file)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        change_server(place.path, name, edit, {"sandbox": value})


def _rows(found: dict[str, Any]) -> list[tuple[Message, Any]]:
    network = found["network"]
    if not isinstance(network, list):
        network = say("yes") if network else say("no")
    return [
        (say("image"), found["image"]),
        (say("preset"), found["preset"]),
        (say("enforced by"), ", ".join(found["mechanism"])),
        (say("may change"), found["write"]),
        (say("may read"), found["read"]),
        (say("network"), network),
        (say("memory"), found["memory"]),
        (say("CPU seconds"), found["cpu"]),
        (say("processes"), found["processes"]),
    ]


def sandbox_words(found: dict[str, Any] | None) -> str | Message | None:
    """Return the cage of a server in a few words, None if it has none: its preset and what enforces it."""
    if not found:
        return None
    if found["problem"]:
        return str(found["problem"])
    return ": ".join([found["image"] or found["preset"], ", ".join(found["mechanism"])])


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
@with_json
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
    # an empty text is a value, too
    texts = any(given[key] is not None for key in ("name", "title", "description", "hidden"))
    if not texts and not any((fix, default, describe, restore, *given.values())):
        _show_overrides(terminal, place, server, tool)
        return
    schema = _schema(place, server, tool)
    read_pairs(describe, {})  # refuses what is no pair
    edit = OverrideEdit(
        fixed=read_pairs(fix, schema),
        defaults=read_pairs(default, schema),
        described={name: words for name, _, words in (pair.partition("=") for pair in describe)},
        restored=restore,
        **given,
    )
    written = place.read().definition(server, reveal=True)
    secrets = next(each.secrets for each in place.read().configuration.servers if each.name == server)
    shown = masked(edit.apply(written, tool), secrets)
    check_passphrase(terminal, place.settings.home)
    with files_changed(terminal):
        change_server(place.path, server, lambda definition: edit.apply(definition, tool), shown)
    _show_overrides(terminal, place, server, tool)


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


def _show_overrides(terminal: Terminal, place: ServersFile, server: str, tool: str) -> None:
    content = place.read()
    definition = content.definition(server, reveal=False)
    overrides = definition.get("overrides")
    found = overrides.get(tool) if isinstance(overrides, dict) else None
    result = {"name": server, "tool": tool, "path": str(place.path), "override": found}
    if not terminal.show_json(result):
        if found is None:
            terminal.say(say("The tool {tool} of {server!n} has no override.", tool=tool, server=server))
        else:
            terminal.say(say("The override of the tool {tool} of {server!n}:", tool=tool, server=server))
            terminal.say(json.dumps(found, indent=2, ensure_ascii=False))
    for warning in content.warnings(server):
        terminal.note(warning)


LOOK = 1.0
"""Seconds between two looks at what the user pasted."""


@click.command(
    "login",
    cls=Command,
    help=say(
        "Log in at a server that requires it. Opens the login page in your browser, or prints its URL if "
        "there is none, as over SSH."
    ),
    epilog=examples("tabane servers login linear", "tabane servers login github --device"),
)
@_name
@option("--device", is_flag=True, help=say("Log in with a code that you enter on any device."))
@option("--no-browser", is_flag=True, help=say("Print the URL instead of opening a browser."))
@option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help=say("A permission to ask for besides the usual ones; repeatable."),
)
@with_hub
def login(terminal: Terminal, name: str, device: bool, no_browser: bool, scopes: tuple[str, ...]) -> None:
    hub = terminal.hub()
    given: dict[str, Any] = {"server": name, "scopes": list(scopes), "restart": True}
    begun = hub.call("start_login", given | ({"flow": "device"} if device else {}))
    if "id" not in begun:
        _done(terminal, hub, name, begun)
        return
    _show_login(terminal, begun, no_browser=no_browser)
    _done(terminal, hub, name, _waited(terminal, hub, begun))


def _print_logout(_: Terminal, done: dict[str, Any]) -> Message:
    said = say("Logged out at {name!n}. Its tokens were deleted here.")
    if not done["was_signed_in"]:
        said = say("There was no login at {name!n}.")
    elif done["revoked"]:
        said = say("Logged out at {name!n}. Its tokens were revoked.")
    return filled(said, {"name": done.get("server")})


logout = operation_command(
    None, "logout", "logout_server",
    click.argument("server", metavar="NAME", shell_complete=server_names),
    help=say("Log out at a server: its tokens are revoked, where that is offered, and deleted here."),
    epilog=examples("tabane servers logout linear"),
    text=_print_logout,
)  # fmt: skip


def _show_login(terminal: Terminal, begun: dict[str, Any], *, no_browser: bool) -> None:
    """Tell the user where to log in. With --json, standard output has the result only."""
    if begun["flow"] == "device_code":
        terminal.note(say("Open {url} on any device, and enter the code {code}",
                          url=begun["verification_url"], code=begun["user_code"]))  # fmt: skip
        return
    url = begun["url"]
    if not no_browser and not is_remote() and open_in_browser(url):
        terminal.note(
            say("The login page opens in your browser. If it does not, open this URL:\n{url}", url=url)
        )
        return
    terminal.note(say("Open this URL in a browser:\n{url}", url=url))
    terminal.note(say(
        "If that browser runs on another computer, it cannot load the last page. Then copy the URL of that "
        "page from its address bar, and paste it here."))  # fmt: skip


def _waited(terminal: Terminal, hub: HubClient, begun: dict[str, Any]) -> dict[str, Any]:
    """Return the state after the login, however the user finishes it. Raises UpstreamUnavailable."""
    pasted = _pasted_lines()
    with terminal.working(say("Waiting for the login")):
        while True:
            found = hub.call("get_login", {"server": begun["server"], "wait": LOOK})
            if found["state"] != "waiting" or found.get("id") != begun["id"]:
                return dict(found)
            line = next(pasted, None)
            if line:
                return dict(hub.call("finish_login", {"id": begun["id"], "redirected_url": line}))


def _pasted_lines() -> Iterator[str]:
    """Yield what was pasted by now, one line each time; empty if nothing was. It ends with the input."""
    while not sys.stdin.closed:
        try:
            ready, _, _ = select.select([sys.stdin], [], [], 0)
        except (OSError, ValueError):
            return
        if not ready:
            yield ""
            continue
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


def _done(terminal: Terminal, hub: HubClient, name: str, found: dict[str, Any]) -> None:
    """Report the end of a login, and wait for the tools of the server. Raises UpstreamUnavailable."""
    if found["state"] != "signed_in":
        raise UpstreamUnavailable(
            say(
                "The login at {server!n} failed: {why}.",
                server=name,
                why=found.get("reason") or found["state"],
            )
        )
    tools = None
    with contextlib.suppress(TabaneError), terminal.working(say("Starting {name!n}", name=name)):
        tools = hub.call("start_upstream", {"name": name}).get("tools")
    count = len(tools) if isinstance(tools, list) else tools
    result = found | {"tools": count}
    if not terminal.show_json(result):
        terminal.say(say("Logged in at {name!n}.", name=name))
        if result.get("tools") is not None:
            terminal.say(say("{count} {count:tool is|tools are} available.", count=result["tools"]))
        if result.get("expires") and not result.get("renewable"):
            terminal.say(say("The login ends at {until}.", until=local_minute(result["expires"])))


def login_words(login: Mapping[str, Any] | None) -> Message | None:
    """Return the state of a login with the time of its end; None for a server that is used without one."""
    if not login:
        return None
    expires = login.get("expires")
    if login["state"] == "signed_in" and login.get("renewable"):
        return say("logged in; renewed without you")
    if login["state"] == "signed_in" and expires:
        return say("logged in until {until}", until=local_minute(expires))
    return _STATES.get(login["state"])


_STATES = {
    "needed": say("required"),
    "waiting": say("waits for you"),
    "signed_in": say("logged in"),
    "failed": say("failed"),
}


@click.group("servers", cls=Group, help=say("List, add, change and control MCP servers."))
def servers() -> None: ...


servers.add_command(add)
servers.add_command(find)
servers.add_command(import_)
servers.add_command(login)
servers.add_command(logout)
servers.add_command(override)
servers.add_command(changes)
servers.add_command(diff)
servers.add_command(accept)
servers.add_command(reject)
servers.add_command(sandbox)
servers.add_command(scan)


# -- the file ------------------------------------------------------------------------------------


_REMARK = 4
"""The column of remarks. They are sentences: a terminal gets them below the table."""


@servers.command(
    "list",
    help=say("List the servers in the servers file, with their state if a hub is running."),
    epilog=examples("tabane servers list", "tabane servers list --json"),
)
@file_option
@with_hub
def list_(terminal: Terminal, file: str | None) -> None:
    place = ServersFile.found(terminal, file)
    book = place.read()
    rows = book.rows()
    result = {"path": str(place.path), "hub": place.hub is not None, "results": rows}
    if not terminal.show_json(result):
        headers = [say("name"), say("state"), say("tools"), say("command"), say("remark")]
        shown: list[tuple[object, ...]] = [
            (row["name"], ServerState(row["state"]), row.get("tools"), row["command"], _remark(book, row))
            for row in rows
        ]
        sandboxes = [book.sandbox(row) for row in rows]
        if any(sandboxes):  # last, so that the columns before it stay where they are
            headers.append(say("sandbox"))
            shown = [(*cells, sandbox) for cells, sandbox in zip(shown, sandboxes, strict=True)]
        terminal.table(headers, shown, below=_REMARK)
    for warning in book.all_warnings(rows):
        terminal.note(warning)


@servers.command(
    help=say(
        "Show one server: its entry in the servers file and its state. Secrets are hidden, "
        "and variables are shown by name."
    ),
    epilog=examples("tabane servers show time", "tabane servers show github --reveal"),
)
@_name
@option("--reveal", is_flag=True, help=say("Show the entry as written in the file, including secrets."))
@file_option
@with_hub
def show(terminal: Terminal, name: str, file: str | None, reveal: bool) -> None:
    place = ServersFile.found(terminal, file)
    book = place.read()
    row = book.row(name)
    if place.hub and name in (book.live or {}):
        row |= place.hub.call("show_server", {"name": name})
    result = row | {"path": str(place.path), "definition": book.definition(name, reveal=reveal)}
    if not terminal.show_json(result):
        facts = result | {
            "overridden": list(result.get("overrides") or ()),
            "definitions_text": definition_remark(result),
            "sandbox_text": sandbox_words(result.get("sandbox")),
            "state": ServerState(result["state"]),
            "login_text": login_words(result.get("login")),
        }
        # a server without prompts or resources is usual, and its zeros are not shown
        facts |= {key: None for key in ("prompts", "resources", "templates") if not facts.get(key)}
        print_facts(terminal, _LABELS, facts)
        terminal.say(json.dumps({facts["name"]: facts["definition"]}, indent=2, ensure_ascii=False))
    for warning in [*book.warnings(name), *book.live_warnings([row])]:
        terminal.note(warning)


def _edit(name: str, done: str, help: Message, said: Message, change: Callable[[Path, str], object]) -> None:
    """Add the command that changes the entry of a server in the servers file."""

    @servers.command(name, help=help, epilog=examples(f"tabane servers {name} time"))
    @_name
    @file_option
    @with_json
    def edit(terminal: Terminal, name: str, file: str | None) -> None:
        place = ServersFile.found(terminal, file)
        check_passphrase(terminal, place.settings.home)
        with files_changed(terminal):
            change(place.path, name)
        result = {"name": name, "path": str(place.path), "status": done}
        terminal.show(result, filled(said, result))
        if done == "enabled":
            for problem in place.problems(name):
                terminal.note(problem)


_edit(
    "remove", "removed", say("Remove a server from the servers file."),
    say("Removed {name!n} from {path}."), remove_server,
)  # fmt: skip
_edit(
    "enable", "enabled", say("Enable a server in the servers file."),
    say("{name!n} is now enabled."), partial(enable_server, enabled=True),
)  # fmt: skip
_edit(
    "disable", "disabled",
    say("Disable a server in the servers file. Its entry is kept, but the server is not started."),
    say("{name!n} is now disabled."), partial(enable_server, enabled=False),
)  # fmt: skip


# -- the hub -------------------------------------------------------------------------------------


def _state(_: Terminal, found: dict[str, Any]) -> Message:
    tools, state = found.get("tools"), words_of_state(found["state"]).words
    count = len(tools) if isinstance(tools, list) else tools
    if count is None:
        return say("{name!n}: {state}", name=found["name"], state=state)
    return say("{name!n}: {state}, {count} {count:tool|tools}", name=found["name"], state=state, count=count)


def _print_tools(terminal: Terminal, found: dict[str, Any]) -> None:
    terminal.say(_state(terminal, found))
    for signature in found.get("tools") or ():
        terminal.say(f"  {signature}")


operation_command(
    servers, "start", "start_upstream", _name,
    help=say("Start a server and wait for its tools."), epilog=examples("tabane servers start time"),
    working=say("Starting {name!n}"), text=_state,
)  # fmt: skip
operation_command(
    servers, "stop", "stop_upstream", _name,
    help=say("Stop a server until you start it again."), epilog=examples("tabane servers stop time"),
    start=False, working=say("Stopping {name!n}"), text=_state,
)  # fmt: skip
operation_command(
    servers, "restart", "restart_upstream", _name,
    help=say("Stop a server and start it again."), epilog=examples("tabane servers restart time"),
    working=say("Restarting {name!n}"), text=_state,
)  # fmt: skip
operation_command(
    servers, "test", "test_server", _name,
    help=say("Start a server if it is not running, and list its tools."),
    epilog=examples("tabane servers test time"),
    working=say("Starting {name!n}"), text=_print_tools,
)  # fmt: skip


@servers.command(
    help=say("Show a server's standard error output."),
    epilog=examples("tabane servers logs time", "tabane servers logs time -f --lines 500"),
)
@_name
@option("--follow", "-f", is_flag=True,
              help=say("Follow the log until Ctrl+C."))  # fmt: skip
@option("--lines", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True,
              help=say("Number of lines to show, from the end."))  # fmt: skip
@with_hub
def logs(terminal: Terminal, name: str, lines: int, follow: bool) -> None:
    show_server_log(terminal, name, lines, follow=follow)


_LABELS = {
    "name": say("name"),
    "path": say("file"),
    "state": say("state"),
    "error": say("remark"),
    "tools": say("tools"),
    "prompts": say("prompts"),
    "resources": say("resources"),
    "templates": say("resource templates"),
    "about": say("server"),
    "version": say("protocol"),
    "sandbox_text": say("sandbox"),
    "environment": say("variables"),
    "download_environment": say("variables for downloads only"),
    "withheld_environment": say("withheld variables"),
    "overridden": say("tools with overrides"),
    "runs_at": say("runs at"),
    "pids": say("processes"),
    "starts": say("starts"),
    "deaths": say("deaths"),
    "in_flight": say("calls in flight"),
    "failed_calls": say("failed calls"),
    "last_failure": say("last failure"),
    "login_text": say("login"),
    "definitions_text": say("definitions"),
    "skipped_lines": say("unreadable lines"),
}


# -- inside --------------------------------------------------------------------------------------


def _remark(book: ServersFileContent, row: dict[str, Any]) -> Shown | None:
    found = book.remark(row) or definition_remark(row)
    return found or (say("runs at {address}", address=row["runs_at"]) if row.get("runs_at") else None)
