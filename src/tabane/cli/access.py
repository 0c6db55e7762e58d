"""`tabane keys`, `profiles`, `limits` and `policy`: who may call what, how often, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tabane.access.parameters import CreateKey, ListKeys, RateLimitStats, UpdateKey
from tabane.cli.options import (
    absolute_path,
    completed,
    given,
    hub_options,
    key_names,
    option,
    parameter_option,
    profile_names,
)
from tabane.cli.output import FAILED, Command, Group, TableState, Terminal, examples, text
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient


@click.group("keys", cls=Group, help=say("Create, list, change and revoke API keys."))
def keys() -> None: ...


_key = click.argument("key", metavar="NAME|PREFIX", shell_complete=key_names)

_ALLOW = say(
    "What the key may use: a pattern such as github__*, @posts, @documents, @pages, @tools, @docs, "
    "@admin, or * for everything but administration. Repeatable."
)
_DENY = say("What the key may not use, although it is allowed. Repeatable.")
_EXPIRES = say("When the key expires: 90d, 12h, 2w, 1y, a date such as 2027-01-31, or never.")
_TIER = say("The tier, which sets the rate limits of the key.")


@keys.command(
    help=say("Create an API key and print it. It is shown only once."),
    epilog=examples(
        "tabane keys create ci --allow 'github__*' --read-only --expires 90d",
        "tabane keys create phone --profile work",
        "tabane keys create deploy --allow '*' --deny '*__delete_*' --tier premium --json",
    ),
)
@click.argument("name", metavar="NAME")
@parameter_option(CreateKey, "allow", metavar="PATTERN", help=_ALLOW)
@parameter_option(CreateKey, "deny", metavar="PATTERN", help=_DENY)
@option("--read-only", is_flag=True, help=say("Allow only what is marked read-only."))
@parameter_option(CreateKey, "expires", metavar="WHEN", help=_EXPIRES)
@parameter_option(CreateKey, "tier", metavar="TIER", help=_TIER)
@parameter_option(
    CreateKey, "profile", metavar="PROFILE", shell_complete=profile_names,
    help=say("Narrow the key to a profile of the settings."),
)  # fmt: skip
@hub_options
@click.pass_obj
def create(terminal: Terminal, /, name: str, **values: Any) -> None:
    if not (values["allow"] or values["profile"]):
        raise click.UsageError(text(say("Say what the key may use: --allow PATTERN, or --profile PROFILE")))
    made = terminal.hub().call("keys_create", {"name": name, **given(values)})
    if not terminal.show_json(made):
        _print_created(terminal, made)


@keys.command(
    "list",
    help=say("List the keys, with their permissions and their last use."),
    epilog=examples("tabane keys list", "tabane keys list --revoked --json"),
)
@option("--revoked", is_flag=True, help=say("List revoked keys too."))
@parameter_option(ListKeys, "limit", metavar="COUNT", help=say("Maximum number of keys to list."))
@option(
    "--after", metavar="ID", default="", help=say("Continue after this key, which the previous page printed.")
)
@hub_options
@click.pass_obj
def list_(terminal: Terminal, /, **values: Any) -> None:
    found = terminal.hub().call("keys_list", values)
    if not terminal.show_json(found):
        _print_keys(terminal, found)


@keys.command(
    help=say("Show one key, with everything that it may use."),
    epilog=examples("tabane keys show ci", "tabane keys show tbn_3fa9 --json"),
)
@_key
@hub_options
@click.pass_obj
def show(terminal: Terminal, key: str) -> None:
    found = terminal.hub().call("keys_show", {"key": key})
    if not terminal.show_json(found):
        _print_key(terminal, found)


@keys.command(
    help=say("Revoke a key. It stops working at once, also for open connections."),
    epilog=examples("tabane keys revoke ci", "tabane keys revoke tbn_3fa9c1d2"),
)
@_key
@hub_options
@click.pass_obj
def revoke(terminal: Terminal, key: str) -> None:
    found = terminal.hub().call("keys_revoke", {"key": key})
    said = say("{name} ({prefix}) is revoked.", name=found["name"], prefix=found["prefix"])
    terminal.show(found, said)


@keys.command(
    help=say("Change what a key may use, its tier or its expiry. The change applies at once."),
    epilog=examples(
        "tabane keys update ci --allow 'github__*' --allow 'jira__*'",
        "tabane keys update ci --expires 30d --tier premium",
        "tabane keys update ci --no-deny --read-write --no-profile",
    ),
)
@_key
@parameter_option(
    UpdateKey, "allow", metavar="PATTERN", help=say("The new patterns, in place of the old. Repeatable.")
)
@parameter_option(
    UpdateKey, "deny", metavar="PATTERN", help=say("The new exceptions, in place of the old. Repeatable.")
)
@option("--no-deny", is_flag=True, help=say("Remove all exceptions."))
@option("--read-only/--read-write", default=None, help=say("Whether only what is read-only is allowed."))
@parameter_option(UpdateKey, "expires", metavar="WHEN", help=_EXPIRES)
@parameter_option(UpdateKey, "tier", metavar="TIER", help=_TIER)
@parameter_option(
    UpdateKey, "profile", metavar="PROFILE", shell_complete=profile_names,
    help=say("Narrow the key to another profile."),
)  # fmt: skip
@option("--no-profile", is_flag=True, help=say("Do not narrow the key to a profile."))
@hub_options
@click.pass_obj
def update(terminal: Terminal, /, key: str, no_deny: bool, no_profile: bool, **values: Any) -> None:
    if (no_deny and values["deny"]) or (no_profile and values["profile"]):
        raise click.UsageError(
            text(say("Give either --deny or --no-deny, and either --profile or --no-profile."))
        )
    changes = given(values)
    changes |= {"deny": []} if no_deny else {}
    changes |= {"profile": ""} if no_profile else {}
    if not changes:
        raise click.UsageError(text(say("Say what to change, for example: --expires 30d")))
    found = terminal.hub().call("keys_update", {"key": key, **changes})
    if not terminal.show_json(found):
        _print_key(terminal, found)


# -- printing ------------------------------------------------------------------------------------


def _print_created(terminal: Terminal, made: dict[str, Any]) -> None:
    terminal.note(
        say(
            "Created {name}, which may use {what}. Copy the key now: it is not shown again.",
            name=made["name"],
            what=_uses(made),
        )
    )
    terminal.say(made["secret"])
    terminal.note(
        say("A client sends it in each request: Authorization: Bearer {key}", key=f"{made['prefix']}_…")
    )
    _print_warnings(terminal, made)


def _print_keys(terminal: Terminal, found: dict[str, Any]) -> None:
    rows = found["results"]
    if not rows:
        terminal.note(say("There are no keys. Create one with: tabane keys create NAME --allow '*'"))
    headers = [
        say("name"),
        say("key"),
        say("state"),
        say("may use"),
        say("tier"),
        say("expires"),
        say("last use"),
    ]
    terminal.table(
        headers,
        (
            (
                row["name"],
                row["prefix"],
                TableState(row["state"]),
                _uses(row),
                row["tier"],
                _shown(row["expires"]) or say("never"),
                _shown(row["last_used"]) or say("not used yet"),
            )
            for row in rows
        ),
        whole=(0, 1, 2, 4, 5, 6),
    )
    if found["next"]:
        terminal.note(
            say(
                "{count} of {total} {total:key|keys}. Continue with: --after {next}",
                count=len(rows),
                total=found["total"],
                next=found["next"],
            )
        )


_LABELS = {
    "name": say("name"),
    "prefix": say("key"),
    "state": say("state"),
    "allow": say("may use"),
    "deny": say("but not"),
    "read_only": say("read-only"),
    "profile": say("profile"),
    "tier": say("tier"),
    "created": say("created"),
    "expires": say("expires"),
    "last_used": say("last use"),
    "revoked": say("revoked"),
}


def _print_key(terminal: Terminal, found: dict[str, Any]) -> None:
    shown = found | {
        "state": TableState(found["state"]),
        "expires": _minute(found["expires"]) or say("never"),
        **{name: _minute(found[name]) for name in ("created", "last_used", "revoked")},
    }
    rows = [(label, shown[name]) for name, label in _LABELS.items()]
    terminal.pairs((label, value) for label, value in rows if value not in (None, "", []))
    _print_warnings(terminal, found)


def _print_warnings(terminal: Terminal, found: dict[str, Any]) -> None:
    for warning in found.get("warnings", ()):
        terminal.note(say("Warning: {text}", text=warning))


def _uses(row: dict[str, Any]) -> Message:
    """Return in a line what a key may use."""
    parts = {"allow": ", ".join(row["allow"]), "deny": ", ".join(row["deny"])}
    what = (
        say("{allow}, but not {deny}", **parts) if row["deny"] else Message("{allow}", allow=parts["allow"])
    )
    if row["read_only"]:
        what = say("{what} (read-only)", what=what)
    return say("{what} (profile {profile})", what=what, profile=row["profile"]) if row["profile"] else what


def _shown(time: str | None) -> str | None:
    """Return a time of the hub for a row: on a terminal the day alone, so that a row fits."""
    minute = _minute(time)
    return minute[:10] if minute and sys.stdout.isatty() else minute


def _minute(time: str | None) -> str | None:
    """Return a time of the hub in the local time zone, to the minute."""
    if time is None:
        return None
    from datetime import datetime

    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


@click.command(
    "limits",
    cls=Command,
    help=say(
        "Show the rate limits: what each caller has left, and how many of its calls were refused. The limits "
        "are the tables [tiers] and [limits] of tabane.toml."
    ),
    epilog=examples("tabane limits", "tabane limits --holder key:3fa9c1d2e4b5", "tabane limits --json"),
)
@parameter_option(RateLimitStats, "limit", metavar="COUNT", help=say("Maximum number of callers."))
@option("--holder", metavar="ID", default="", help=say("Only this caller, such as key:ID."))
@hub_options
@click.pass_obj
def limits(terminal: Terminal, holder: str, limit: int) -> None:
    found = terminal.hub(start=False).call("get_rate_limit_stats", {"holder": holder, "limit": limit})
    if not terminal.show_json(found):
        _print_limits(terminal, found, holder)


def _print_limits(terminal: Terminal, found: dict[str, Any], holder: str) -> None:
    rows = found["results"]
    if not rows and not found["shared"]:
        terminal.note(
            say("No calls with limits since the hub started. The local user has no limits by default.")
        )
        return
    headers = [
        say("caller"),
        say("tier"),
        say("calls left"),
        say("calls running"),
        say("calls waiting"),
        say("refused"),
    ]
    terminal.table(
        headers,
        (
            [row["holder"], row["tier"], _tokens(row), *(row["in_flight"], row["waiting"], row["refused"])]
            for row in rows
        ),
    )
    if len(rows) < found["total"] and not holder:
        count = found["total"] - len(rows)
        terminal.note(say("{count} {count:caller is|callers are} not shown. Use --limit.", count=count))
    if found["shared"]:
        headers = [say("shared limit"), say("calls left"), say("calls running"), say("calls waiting")]
        terminal.table(headers, (_shared(row) for row in found["shared"]))


def _tokens(row: dict[str, Any]) -> str:
    return "–" if row["tokens"] is None else f"{row['tokens']}/{row['burst']} (+{row['rate']:g}/s)"


def _shared(row: dict[str, Any]) -> list[str]:
    shown = ("–" if row[key] is None else str(row[key]) for key in ("tokens", "in_flight", "waiting"))
    return [f"{row['kind']} {row['pattern']}", *shown]


def allowed_pairs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an allowed pair for the shell, if a hub runs."""

    def ask(hub: HubClient) -> Iterable[str]:
        return {pair for pairs in hub.call("list_flow_trails")["allowed"].values() for pair in pairs}

    return completed(ctx, ask, incomplete)


_client = option("--client", metavar="NAME", help=say("Only this client, as it names itself."))
_cwd = option("--cwd", metavar="FOLDER", help=say("Only this working folder."))
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
@hub_options
@click.pass_obj
def explain_(terminal: Terminal, names: tuple[str, ...], client: str | None, cwd: str | None) -> None:
    if len(names) > 2:
        raise click.UsageError(say("Give a tool, or a key and a tool.").render())
    if len(names) == 2:
        _explain_key(terminal, names[0], names[1], client, cwd)
    else:
        _explain_flow(terminal, names[0], client, cwd)


def _explain_key(terminal: Terminal, key: str, tool: str, client: str | None, cwd: str | None) -> None:
    from tabane.access.policy_operations import policy_messages

    hub = terminal.hub()
    found = hub.call("explain_policy", {"key": key, "tool": tool})
    holder = f"key:{found['key']['id']}"
    found["flow"] = hub.call("explain_flow", _flow_params(tool, client, cwd) | {"holder": holder})
    _show(terminal, found, [*policy_messages(found), *_flow_messages(found["flow"])])
    if not found["allowed"]:
        raise click.exceptions.Exit(FAILED)


def _explain_flow(terminal: Terminal, tool: str, client: str | None, cwd: str | None) -> None:
    found = terminal.hub().call("explain_flow", _flow_params(tool, client, cwd))
    _show(terminal, found, _flow_messages(found))
    if found["outcome"] in ("ask", "refuse"):
        raise click.exceptions.Exit(FAILED)


def _flow_params(tool: str, client: str | None, cwd: str | None) -> dict[str, Any]:
    return given({"tool": tool, **_fitting(client, cwd)})


def _fitting(client: str | None, cwd: str | None) -> dict[str, Any]:
    return given({"client": client, "cwd": None if cwd is None else absolute_path(cwd)})


def _flow_messages(found: dict[str, Any]) -> list[Message]:
    from tabane.hub.people.flows.operations import explanation_messages

    return explanation_messages(found)


def _show(terminal: Terminal, found: dict[str, Any], messages: list[Message]) -> None:
    if not terminal.show_json(found):
        for message in messages:
            terminal.say(message)


@policy.command(
    "labels",
    help=say("List the flow labels of tools, and where each comes from. NAME is a server or a tool."),
    epilog=examples("tabane policy labels", "tabane policy labels github", "tabane policy labels --json"),
)
@click.argument("name", metavar="[NAME]", default="")
@hub_options
@click.pass_obj
def labels(terminal: Terminal, name: str) -> None:
    from tabane.hub.people.flows.operations import label_messages

    found = terminal.hub().call("list_flow_labels", {"name": name})
    if terminal.show_json(found):
        return
    if not found["results"]:
        terminal.say(say("No tool has labels."))
    for row in found["results"]:
        for message in label_messages(row):
            terminal.say(message)


@policy.command(
    "trails",
    help=say("List what clients have read in the last 30 minutes, and the pairs that are allowed."),
    epilog=examples("tabane policy trails", "tabane policy trails --client claude-code --json"),
)
@_client
@_cwd
@hub_options
@click.pass_obj
def trails(terminal: Terminal, client: str | None, cwd: str | None) -> None:
    found = terminal.hub(start=False).call("list_flow_trails", _fitting(client, cwd))
    if terminal.show_json(found):
        return
    if not found["results"]:
        terminal.say(say("No client has read anything with a label in the last 30 minutes."))
    for row in found["results"]:
        terminal.say(_trail_message(row))
    for holder, pairs in found["allowed"].items():
        terminal.say(say("Allowed for {holder}: {pairs}", holder=holder, pairs=", ".join(pairs)))


def _trail_message(row: dict[str, Any]) -> Message:
    from datetime import datetime

    read = "; ".join(f"{label}: {', '.join(row[label].values())}" for label in row["labels"]) or "-"
    return say(
        "{holder}, {client}, {cwd}, since {since}: {read}",
        holder=row["holder"] or "*",
        client=row["client"] or "-",
        cwd=row["cwd"] or "-",
        since=datetime.fromisoformat(row["since"]).astimezone().strftime("%H:%M"),
        read=read,
    )


@policy.command(
    "forget",
    help=say(
        "Forget what clients have read, so that the flow policy no longer asks because of it. Without "
        "options: everything."
    ),
    epilog=examples("tabane policy forget", "tabane policy forget --client claude-code"),
)
@_client
@_cwd
@_holder
@hub_options
@click.pass_obj
def forget(terminal: Terminal, client: str | None, cwd: str | None, holder: str | None) -> None:
    wanted = given({**_fitting(client, cwd), "holder": holder})
    found = terminal.hub(start=False).call("forget_flow_trails", wanted)
    count = found["forgotten"]
    terminal.show(
        found,
        say("{count} {count:client|clients} forgotten.", count=count)
        if count
        else say("There was nothing to forget."),
    )


@policy.command(
    "allow",
    help=say(
        "Let calls begin that the flow policy would ask about, from now on. PAIR names what was read and "
        "what is called after it, such as web>mail; quote it in a shell."
    ),
    epilog=examples(
        "tabane policy allow 'pages>mail'",
        "tabane policy allow 'pages>mail' --holder key:a1b2",
    ),
)
@click.argument("pair", metavar="PAIR")
@_holder
@hub_options
@click.pass_obj
def allow(terminal: Terminal, pair: str, holder: str | None) -> None:
    found = terminal.hub().call("allow_flow", given({"pair": pair, "holder": holder}))
    terminal.show(found, say("{pair} is allowed.", pair=pair))


@policy.command(
    "disallow",
    help=say("Ask again about a pair that was allowed."),
    epilog=examples("tabane policy disallow 'pages>mail'"),
)
@click.argument("pair", metavar="PAIR", shell_complete=allowed_pairs)
@_holder
@hub_options
@click.pass_obj
def disallow(terminal: Terminal, pair: str, holder: str | None) -> None:
    found = terminal.hub().call("disallow_flow", given({"pair": pair, "holder": holder}))
    if not found["changed"]:
        terminal.show(found, say("{pair} was not allowed.", pair=pair))
        raise click.exceptions.Exit(FAILED)
    terminal.show(found, say("{pair} is no longer allowed.", pair=pair))


@click.group("profiles", cls=Group, help=say("List the profiles: named sets of servers and tools."))
def profiles() -> None: ...


@profiles.command(
    "list",
    help=say("List the profiles of the settings file, and how many tools each one shows."),
    epilog=examples("tabane profiles list", "tabane profiles list --json"),
)
@hub_options
@click.pass_obj
def list_profiles(terminal: Terminal) -> None:
    found = terminal.hub().call("profiles_list")
    if not terminal.show_json(found):
        _print_profiles(terminal, found["results"])


def _print_profiles(terminal: Terminal, rows: list[dict[str, Any]]) -> None:
    if not rows:
        terminal.note(say("There are no profiles. Add a table such as [profiles.work] to tabane.toml."))
    headers = [
        say("name"),
        say("tools"),
        say("allowed"),
        say("but not"),
        say("read-only"),
        say("description"),
    ]
    terminal.table(
        headers,
        (
            (
                row["name"],
                row["tools"],
                row.get("allow"),
                row.get("deny"),
                say("yes") if row.get("read_only") else "",
                row["description"],
            )
            for row in rows
        ),
    )
