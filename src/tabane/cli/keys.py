"""`tabane keys` and `limits`: API keys, and what each caller has left of its rate limits."""

from __future__ import annotations

import sys
from typing import Any

import click

from tabane.access.table import CreateKey, ListKeys, RateLimitStats, UpdateKey
from tabane.cli.options import given, hub_options, key_names, option, parameter_option, profile_names
from tabane.cli.output import Command, Group, TableState, Terminal, examples, text
from tabane.messages import Message, say


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
    if terminal.show_json(found):
        return
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
    if terminal.show_json(found):
        return
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
            [
                row["holder"],
                row["tier"],
                "–" if row["tokens"] is None else f"{row['tokens']}/{row['burst']} (+{row['rate']:g}/s)",
                *(row["in_flight"], row["waiting"], row["refused"]),
            ]
            for row in rows
        ),
    )
    if len(rows) < found["total"] and not holder:
        count = found["total"] - len(rows)
        terminal.note(say("{count} {count:caller is|callers are} not shown. Use --limit.", count=count))
    if found["shared"]:
        headers = [say("shared limit"), say("calls left"), say("calls running"), say("calls waiting")]
        counts = ("tokens", "in_flight", "waiting")
        terminal.table(
            headers,
            (
                [
                    f"{row['kind']} {row['pattern']}",
                    *("–" if row[key] is None else row[key] for key in counts),
                ]
                for row in found["shared"]
            ),
        )
