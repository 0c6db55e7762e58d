"""Which posts are meant, as options of a command, and what the hub is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tabane.cli.output import Terminal, text
from tabane.errors import TabaneError
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

KINDS = ("post", "like", "bookmark")

COMPLETION_LIMIT = 3.0
"""Seconds that somebody who pressed the tabulator waits for the hub."""

_MOST_NAMES = 100  # that are looked up at once
_Function = TypeVar("_Function", bound=Callable[..., Any])


def user_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes the name of a user for the shell; nothing where no hub runs."""
    terminal = ctx.ensure_object(Terminal)
    try:
        names = terminal.hub(start=False).call("get_user_list", limit=COMPLETION_LIMIT)
    except TabaneError:
        return []
    finally:
        terminal.close()
    return sorted(name for name in names if name.casefold().startswith(incomplete.casefold()))


def limits_options(function: _Function) -> _Function:
    """``--user``, ``--from``, ``--tag`` and what else narrows a command to some of the posts."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--user",
        "users",
        multiple=True,
        metavar="NAME",
        shell_complete=user_names,
        help=text(say("Only posts of this user; repeatable.")),
    ),
    click.option(
        "--not-user",
        "not_users",
        multiple=True,
        metavar="NAME",
        shell_complete=user_names,
        help=text(say("No posts of this user; repeatable.")),
    ),
    click.option(
        "--min-posts",
        "least",
        type=click.IntRange(0),
        help=text(say("Only users with so many posts in the archive.")),
    ),
    click.option(
        "--max-posts",
        "most",
        type=click.IntRange(0),
        help=text(say("Only users with at most so many posts in the archive.")),
    ),
    click.option(
        "--from",
        "since",
        metavar="DATE",
        help=text(say("Only posts from then on: YYYY-MM-DD, YYYYMMDD, or with HH:MM:SS.")),
    ),
    click.option(
        "--to",
        "until",
        metavar="DATE",
        help=text(say("Only posts until then; a day without a time counts whole.")),
    ),
    click.option(
        "--tag", "tags", multiple=True, metavar="TAG", help=text(say("Only posts with this tag; repeatable."))
    ),
    click.option(
        "--type",
        "kinds",
        multiple=True,
        type=click.Choice(KINDS),
        help=text(say("Only posts, likes or bookmarks; repeatable.")),
    ),
)


def limits(
    *,
    users: Sequence[str] = (),
    not_users: Sequence[str] = (),
    least: int | None = None,
    most: int | None = None,
    since: str | None = None,
    until: str | None = None,
    tags: Sequence[str] = (),
    kinds: Sequence[str] = (),
) -> dict[str, Any]:
    """The options as parameters of an operation; what was not given is left out."""
    if users and not_users:
        raise click.UsageError(text(say("--user and --not-user exclude each other.")))
    by_user = {"includes": users, "excludes": not_users, "threshold_min": least, "threshold_max": most}
    whole = {
        "user_filter": _given(by_user),
        "date_filter": _given({"from": since, "to": until}),
        "tags": list(tags),
        "log_type": list(kinds),
    }
    return {name: value for name, value in whole.items() if value}


def warn_of_users(terminal: Terminal, hub: HubClient, names: Sequence[str]) -> None:
    """Say of each name that no user has who may be meant."""
    if not names:
        return
    for name, near in hub.call("suggest_users", {"user_list": list(names)[:_MOST_NAMES]}).items():
        terminal.note(no_user(name, near))


def no_user(name: str, near: Sequence[str]) -> Message:
    """That nobody is called so, and who may be meant."""
    if not near:
        return say("There is no user {name}.", name=name)
    return say("There is no user {name}. Did you mean {near}?", name=name, near=", ".join(near))


def _given(members: dict[str, Any]) -> dict[str, Any]:
    """Members that say something, sequences as lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in members.items()
        if value not in (None, (), [])
    }
