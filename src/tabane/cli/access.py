"""`tabane policy` and `profiles`: who may call what, and why."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tabane.access.policy_operations import policy_messages
from tabane.cli.operation_command import Column, operation_command
from tabane.cli.options import absolute, completed, given, key_names, option, with_hub
from tabane.cli.output import FAILED, Group, Terminal, examples
from tabane.messages import Message, say
from tabane.messages.quoting import command_word

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient


def allowed_pairs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an allowed pair for the shell, if a hub runs."""

    def ask(hub: HubClient) -> Iterable[str]:
        return {pair for pairs in hub.call("list_flow_trails")["allowed"].values() for pair in pairs}

    return completed(ctx, ask, incomplete)


_client = option("--client", metavar="NAME", help=say("Only this client, as it names itself."))
_cwd = option("--cwd", metavar="FOLDER", help=say("Only this working folder."), callback=absolute)
_holder = option("--holder", metavar="HOLDER", help=say("Whose calls: local (default) or key:ID."))


@click.group("policy", cls=Group, help=say("Explain what keys may do, and what the flow policy asks about."))
def policy() -> None:
    pass


@policy.command(
    "explain",
    help=say(
        "Explain whether a key may call a tool, and which pattern decides it. Without KEY: explain whether "
        "the flow policy would ask about the call, after what the client has read. The exit status is 1 if "
        "the tool may not be called, or if a person would be asked."
    ),
    epilog=examples(
        "tabane policy explain laptop github__create_issue",
        "tabane policy explain laptop search_documents --json",
        "tabane policy explain mail__send_email --client claude-code",
    ),
)
@click.argument("names", metavar="[KEY] TOOL", nargs=-1, required=True, shell_complete=key_names)
@_client
@_cwd
@with_hub
def explain_(terminal: Terminal, names: tuple[str, ...], client: str | None, cwd: str | None) -> None:
    if len(names) > 2:
        raise click.UsageError(say("Give a tool, or a key and a tool.").render())
    if len(names) == 2:
        key, tool = names
        hub = terminal.hub()
        found = hub.call("explain_policy", {"key": key, "tool": tool})
        holder = f"key:{found['key']['id']}"
        wanted = given({"tool": tool, "client": client, "cwd": cwd, "holder": holder})
        found["flow"] = hub.call("explain_flow", wanted)
        _show(terminal, found, [*policy_messages(found), *_flow_messages(found["flow"])])
        if not found["allowed"]:
            raise click.exceptions.Exit(FAILED)
    else:
        wanted = given({"tool": names[0], "client": client, "cwd": cwd})
        found = terminal.hub().call("explain_flow", wanted)
        _show(terminal, found, _flow_messages(found))
        if found["outcome"] in ("ask", "refuse"):
            raise click.exceptions.Exit(FAILED)


def _flow_messages(found: dict[str, Any]) -> list[Message]:
    from tabane.hub.people.flows.operations import explanation_messages

    return explanation_messages(found)


def _show(terminal: Terminal, found: dict[str, Any], messages: list[Message]) -> None:
    if not terminal.show_json(found):
        for message in messages:
            terminal.say(message)


def _print_labels(terminal: Terminal, found: dict[str, Any]) -> None:
    from tabane.hub.people.flows.operations import label_messages

    if not found["results"]:
        terminal.say(say("No tool has labels."))
    for message in (each for row in found["results"] for each in label_messages(row)):
        terminal.say(message)


def _print_trails(terminal: Terminal, found: dict[str, Any]) -> None:
    if not found["results"]:
        terminal.say(say("No client has read anything with a label in the last 30 minutes."))
    for row in found["results"]:
        read = "; ".join(f"{label}: {', '.join(row[label].values())}" for label in row["labels"]) or "-"
        terminal.say(
            say(
                "{holder}, {client}, {cwd}, since {since}: {read}",
                holder=row["holder"] or "*",
                client=row["client"] or "-",
                cwd=row["cwd"] or "-",
                since=datetime.fromisoformat(row["since"]).astimezone().strftime("%H:%M"),
                read=read,
            )
        )
    for holder, pairs in found["allowed"].items():
        terminal.say(say("Allowed for {holder}:", holder=holder))
        for pair in pairs:
            terminal.say(Message("  {pair}", pair=command_word(pair)))


operation_command(
    policy, "labels", "list_flow_labels",
    click.argument("name", metavar="[NAME]", default=""),
    help=say("List the flow labels of tools, and where each comes from. NAME is a server or a tool."),
    epilog=examples("tabane policy labels", "tabane policy labels github", "tabane policy labels --json"),
    text=_print_labels,
)  # fmt: skip

operation_command(
    policy, "trails", "list_flow_trails", _client, _cwd,
    help=say("List what clients have read in the last 30 minutes, and what is allowed."),
    epilog=examples("tabane policy trails", "tabane policy trails --client claude-code --json"),
    start=False,
    text=_print_trails,
)  # fmt: skip

operation_command(
    policy, "forget", "forget_flow_trails", _client, _cwd, _holder,
    help=say(
        "Forget what clients have read, so that the flow policy no longer asks because of it. Without "
        "options: everything."
    ),
    epilog=examples("tabane policy forget", "tabane policy forget --client claude-code"),
    start=False,
    text=lambda _, found: (
        say("{count} {count:client|clients} forgotten.", count=found["forgotten"])
        if found["forgotten"]
        else say("There was nothing to forget.")
    ),
)  # fmt: skip

operation_command(
    policy, "allow", "allow_flow", click.argument("pair", metavar="PAIR"), _holder,
    help=say(
        "Let calls begin that the flow policy would ask about, from now on. PAIR names a tool and what it "
        "may reach, such as mail__send_email>bob@example.com. The tool may be *, and what it reaches may be "
        "* or *@example.com. Quote it in a shell."
    ),
    epilog=examples(
        "tabane policy allow 'mail__send_email>bob@example.com'",
        "tabane policy allow '*>*@example.com' --holder key:a1b2",
    ),
    text=say("{pair} is allowed."),
)  # fmt: skip

operation_command(
    policy, "disallow", "disallow_flow",
    click.argument("pair", metavar="PAIR", shell_complete=allowed_pairs),
    _holder,
    help=say("Ask again about what was allowed."),
    epilog=examples("tabane policy disallow 'mail__send_email>bob@example.com'"),
    text=lambda _, found: (
        say("{pair} is no longer allowed.") if found["changed"] else say("{pair} was not allowed.")
    ),
    failed=lambda found: not found["changed"],
)  # fmt: skip


@click.group("profiles", cls=Group, help=say("List the profiles: named sets of servers and tools."))
def profiles() -> None: ...


operation_command(
    profiles, "list", "profiles_list",
    help=say("List the profiles of the settings file, and how many tools each one shows."),
    epilog=examples("tabane profiles list", "tabane profiles list --json"),
    columns=(
        Column(say("name"), "name"),
        Column(say("tools"), "tools"),
        Column(say("allowed"), lambda row: row.get("allow")),
        Column(say("but not"), lambda row: row.get("deny")),
        Column(say("read-only"), lambda row: say("yes") if row.get("read_only") else ""),
        Column(say("description"), "description"),
    ),
    empty=say("There are no profiles. Add a table such as [profiles.work] to tabane.toml."),
)  # fmt: skip
