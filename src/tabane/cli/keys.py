"""`tabane keys` and `limits`: API keys, and what each caller has left of its rate limits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click
from msgspec import Struct, convert, to_builtins

from tabane.access.table import CreateKey, ListKeys, RateLimitStats, UpdateKey
from tabane.cli.audit import holder_name
from tabane.cli.operation_command import Column, operation_command, print_facts, print_rows
from tabane.cli.options import client_names, key_names, option, parameter_option
from tabane.cli.output import Group, TableState, Terminal, emit, examples, local_minute, text
from tabane.errors import TabaneError
from tabane.messages import Message, filled, say


@click.group("keys", cls=Group, help=say("Create, list, change and revoke API keys."))
def keys() -> None: ...


_key = click.argument("key", metavar="NAME|PREFIX", shell_complete=key_names)
_of_new, _of_old = partial(parameter_option, CreateKey), partial(parameter_option, UpdateKey)

_ALLOW = say(
    "What the key may use: a pattern such as github__*, @posts, @documents, @pages, @tools, @docs, "
    "@admin, or * for everything but administration. Repeatable."
)
_EXPIRES = say("When the key expires: 90d, 12h, 2w, 1y, a date such as 2027-01-31, or never.")
_TIER = say("The tier, which sets the rate limits of the key.")
_LABELS = {
    "name": say("name"),
    "person": say("person"),
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


def _new_key(options: dict[str, Any]) -> dict[str, Any]:
    if not (options.get("allow") or options.get("profile")):
        raise click.UsageError(text(say("Say what the key may use: --allow PATTERN, or --profile PROFILE")))
    host = options.pop("print_client", None)
    if host is not None:
        from tabane.cli.client_letter import check_reach  # reads certificates, and its libraries load slowly

        check_reach(click.get_current_context().obj, host)
    return options


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    no_deny, no_profile = options.pop("no_deny"), options.pop("no_profile")
    if (no_deny and options.get("deny")) or (no_profile and options.get("profile")):
        raise click.UsageError(
            text(say("Give either --deny or --no-deny, and either --profile or --no-profile."))
        )
    changes = options | ({"deny": []} if no_deny else {}) | ({"profile": ""} if no_profile else {})
    if len(changes) == 1:
        raise click.UsageError(text(say("Say what to change, for example: --expires 30d")))
    return changes


def _with_client(terminal: Terminal, made: dict[str, Any]) -> dict[str, Any]:
    """Add what to send to the person. A key that was made is printed, also if that fails."""
    host = click.get_current_context().params.get("print_client")
    if host is None:
        return made
    from tabane.cli.client_letter import client_text  # reads certificates, and its libraries load slowly

    try:
        return made | {"client": to_builtins(client_text(terminal, made, host))}
    except TabaneError as error:
        terminal.warn(error)
        return made


class _ClientText(Struct):
    text: str
    notes: list[str]


def _print_new(terminal: Terminal, made: dict[str, Any]) -> None:
    client = convert(made.get("client"), _ClientText | None)
    if client is not None:
        created = say("Created {name}, which may use {what}. Send what follows.")
        terminal.note(filled(created, made, {"what": _uses(made)}))
        emit(client.text, nl=False)
        for note in client.notes:
            terminal.note(note)
        _print_warnings(terminal, made)
        return
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


def _print_key(terminal: Terminal, found: dict[str, Any]) -> None:
    shown = {
        "state": TableState(found["state"]),
        "expires": local_minute(found["expires"]) or say("never"),
        **{name: local_minute(found[name]) for name in ("created", "last_used", "revoked")},
    }
    print_facts(terminal, _LABELS, found | shown)
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
    minute = local_minute(time)
    return minute[:10] if minute and sys.stdout.isatty() else minute


def _next_page(terminal: Terminal, found: dict[str, Any]) -> Message | None:
    if not found["next"]:
        return None
    return say(
        "{count} of {total} {total:key|keys}. Continue with: --after {next}",
        count=len(found["results"]), total=found["total"], next=found["next"],
    )  # fmt: skip


operation_command(
    keys, "create", "keys_create",
    click.argument("name", metavar="NAME"),
    _of_new("allow", help=_ALLOW),
    _of_new("deny", help=say("What the key may not use, although it is allowed. Repeatable.")),
    option("--read-only", is_flag=True, help=say("Allow only what is marked read-only.")),
    _of_new("expires", help=_EXPIRES),
    _of_new("tier", help=_TIER),
    _of_new("profile", help=say("Narrow the key to a profile of the settings.")),
    _of_new("person", "--for", "person", metavar="PERSON", help=say(
        "Name of the person who uses the key. The audit log, usage and limits show it.")),
    option("--print-client", is_flag=False, flag_value="", metavar="[HOST]", shell_complete=client_names,
           help=say("Print what to send to the person: for an assistant such as claude-code or cursor what "
                    "connects it, without HOST a letter with all common ways.")),
    help=say("Create an API key and print it. It is shown only once."),
    epilog=examples(
        "tabane keys create ci --allow 'github__*' --read-only --expires 90d",
        "tabane keys create phone --profile work",
        "tabane keys create alice --for 'Alice' --profile work --print-client",
        "tabane keys create deploy --allow '*' --deny '*__delete_*' --tier premium --json",
    ),
    params=_new_key,
    text=_print_new,
    added=_with_client,
)  # fmt: skip

operation_command(
    keys, "list", "keys_list",
    option("--revoked", is_flag=True, help=say("List revoked keys too.")),
    parameter_option(ListKeys, "limit", help=say("Maximum number of keys to list.")),
    option("--after", metavar="ID", default="",
           help=say("Continue after this key, which the previous page printed.")),
    help=say("List the keys, with their permissions and their last use."),
    epilog=examples("tabane keys list", "tabane keys list --revoked --json"),
    columns=(
        Column(say("name"), "name"),
        Column(say("key"), "prefix"),
        Column(say("state"), lambda row: TableState(row["state"])),
        Column(say("may use"), _uses),
        Column(say("tier"), "tier"),
        Column(say("expires"), lambda row: _shown(row["expires"]) or say("never")),
        Column(say("last use"), lambda row: _shown(row["last_used"]) or say("not used yet")),
        Column(say("person"), "person", seldom=True),
    ),
    whole=(0, 1, 2, 4, 5, 6),
    empty=say("There are no keys. Create one with: tabane keys create NAME --allow '*'"),
    text=_next_page,
)  # fmt: skip

operation_command(
    keys, "show", "keys_show", _key,
    help=say("Show one key, with everything that it may use."),
    epilog=examples("tabane keys show ci", "tabane keys show tbn_3fa9 --json"),
    text=_print_key,
)  # fmt: skip

operation_command(
    keys, "revoke", "keys_revoke", _key,
    help=say("Revoke a key. It stops working at once, also for open connections."),
    epilog=examples("tabane keys revoke ci", "tabane keys revoke tbn_3fa9c1d2"),
    text=say("{name} ({prefix}) is revoked."),
)  # fmt: skip

operation_command(
    keys, "update", "keys_update",
    _key,
    _of_old("allow", help=say("The new patterns, in place of the old. Repeatable.")),
    _of_old("deny", help=say("The new exceptions, in place of the old. Repeatable.")),
    option("--no-deny", is_flag=True, help=say("Remove all exceptions.")),
    option("--read-only/--read-write", default=None, help=say("Whether only what is read-only is allowed.")),
    _of_old("expires", help=_EXPIRES),
    _of_old("tier", help=_TIER),
    _of_old("profile", help=say("Narrow the key to another profile.")),
    option("--no-profile", is_flag=True, help=say("Do not narrow the key to a profile.")),
    _of_old("person", "--for", "person", metavar="PERSON", help=say(
        "The name of another person who uses the key.")),
    help=say("Change what a key may use, its tier or its expiry. The change applies at once."),
    epilog=examples(
        "tabane keys update ci --allow 'github__*' --allow 'jira__*'",
        "tabane keys update ci --expires 30d --tier premium",
        "tabane keys update ci --no-deny --read-write --no-profile",
    ),
    params=_changes,
    text=_print_key,
)  # fmt: skip


_OF_CALLERS = (
    Column(
        say("caller"), lambda row: holder_name(row.get("holder", ""), row.get("label"), row.get("person"))
    ),
    Column(say("tier"), "tier"),
    Column(
        say("calls left"),
        lambda row: "–" if row["tokens"] is None else f"{row['tokens']}/{row['burst']} (+{row['rate']:g}/s)",
    ),
    Column(say("calls running"), "in_flight"),
    Column(say("calls waiting"), "waiting"),
    Column(say("refused"), "refused"),
)


def _number(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda row: "–" if row[key] is None else row[key]


_SHARED = (
    Column(say("shared limit"), lambda row: f"{row['kind']} {row['pattern']}"),
    Column(say("calls left"), _number("tokens")),
    Column(say("calls running"), _number("in_flight")),
    Column(say("calls waiting"), _number("waiting")),
)


def _print_limits(terminal: Terminal, found: dict[str, Any]) -> None:
    rows = found["results"]
    if not rows and not found["shared"]:
        terminal.note(
            say("No calls with limits since the hub started. The local user has no limits by default.")
        )
    print_rows(terminal, _OF_CALLERS, rows)
    if len(rows) < found["total"] and not click.get_current_context().params["holder"]:
        count = found["total"] - len(rows)
        terminal.note(say("{count} {count:caller is|callers are} not shown. Use --limit.", count=count))
    print_rows(terminal, _SHARED, found["shared"])


limits = operation_command(
    None, "limits", "get_rate_limit_stats",
    parameter_option(RateLimitStats, "limit", help=say("Maximum number of callers.")),
    option("--holder", metavar="ID", default="", help=say("Only this caller, such as key:ID.")),
    help=say(
        "Show the rate limits: what each caller has left, and how many of its calls were refused. The limits "
        "are the tables [tiers] and [limits] of tabane.toml."
    ),
    epilog=examples("tabane limits", "tabane limits --holder key:3fa9c1d2e4b5", "tabane limits --json"),
    start=False,
    text=_print_limits,
)  # fmt: skip
