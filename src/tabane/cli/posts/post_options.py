"""Filters, modes and weights of posts, as options of commands and as parameters of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.completion import COMPLETION_LIMIT, completed
from tabane.cli.options import combined, given, option, parameter_option
from tabane.cli.output import Terminal, text
from tabane.errors import CallerError
from tabane.messages import Message, say
from tabane.posts.parameters import PostFilterParameters, SimilarPostParameters

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

KINDS = ("post", "like", "bookmark")

_MOST_NAMES = 100  # names that are looked up at once


def user_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a user for the shell, if a hub runs. Case does not matter."""
    start = incomplete.casefold()

    def ask(hub: HubClient) -> list[str]:
        names = hub.call("get_user_list", limit=COMPLETION_LIMIT)
        return sorted(name for name in names if name.casefold().startswith(start))

    return completed(ctx, ask, "")


limits_options = combined(
    (
        option(
            "--user",
            "users",
            multiple=True,
            metavar="NAME",
            shell_complete=user_names,
            help=say("Only posts of this user; repeatable."),
        ),
        option(
            "--not-user",
            "not_users",
            multiple=True,
            metavar="NAME",
            shell_complete=user_names,
            help=say("Exclude posts of this user; repeatable."),
        ),
        option(
            "--min-posts",
            "least",
            type=click.IntRange(0),
            help=say("Only users with at least this many posts in the archive."),
        ),
        option(
            "--max-posts",
            "most",
            type=click.IntRange(0),
            help=say("Only users with at most this many posts in the archive."),
        ),
        option(
            "--from",
            "since",
            metavar="DATE",
            help=say("Only posts since then: YYYY-MM-DD, YYYYMMDD, or with HH:MM:SS."),
        ),
        option(
            "--to",
            "until",
            metavar="DATE",
            help=say("Only posts until then; a date without a time is the whole day."),
        ),
        parameter_option(
            PostFilterParameters,
            "tags",
            "--tag",
            "tags",
            metavar="TAG",
            help=say("Only posts with this tag; repeatable."),
        ),
        parameter_option(
            PostFilterParameters,
            "log_type",
            "--type",
            "kinds",
            type=click.Choice(KINDS),
            help=say("Only posts, likes or bookmarks; repeatable."),
        ),
    )
)
"""Adds ``--user``, ``--from``, ``--tag`` and the other options that select posts."""

mode_options = combined(
    (
        parameter_option(
            SimilarPostParameters, "mode",
            help=say(
                "What is compared: one text of a post, all three texts, or keywords and meaning (hybrid)."
            ),
        ),
        option(
            "--weights", metavar="C/R/S",
            help=say(

                        "Weights of content, reasoning and summary, such as equal or 0.7/0.2/0.1, for "
                        "modes average and weighted. Without --mode, average is used."
                ),
        ),
    )
)  # fmt: skip


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
    """Return the options as parameters of an operation, without those that were not given."""
    if users and not_users:
        raise click.UsageError(text(say("--user and --not-user cannot be used together.")))
    by_user = {"includes": users, "excludes": not_users, "threshold_min": least, "threshold_max": most}
    whole = {
        "user_filter": given(by_user),
        "date_filter": given({"from": since, "to": until}),
        "tags": list(tags),
        "log_type": list(kinds),
    }
    return {name: value for name, value in whole.items() if value}


def warn_of_users(terminal: Terminal, hub: HubClient, names: Sequence[str]) -> None:
    """Print a note for each name that is no user, with similar names."""
    if not names:
        return
    for name, near in hub.call("suggest_users", {"user_list": list(names)[:_MOST_NAMES]}).items():
        terminal.note(no_user(name, near))


def no_user(name: str, near: Sequence[str]) -> Message:
    """Return that there is no such user, with similar names."""
    if not near:
        return say("There is no user {name}.", name=name)
    return say("There is no user {name}. Did you mean {near}?", name=name, near=", ".join(near))


Weights = tuple[float, float, float]

PRESETS: Mapping[str, Weights] = MappingProxyType(
    {
        "equal": (1.0, 1.0, 1.0),
        ".7/.2/.1": (0.7, 0.2, 0.1),
        ".2/.7/.1": (0.2, 0.7, 0.1),
        ".1/.2/.7": (0.1, 0.2, 0.7),
        ".5/.5/0": (0.5, 0.5, 0.0),
        ".5/0/.5": (0.5, 0.0, 0.5),
        "0/.5/.5": (0.0, 0.5, 0.5),
    }
)
"""The presets of the original, by name."""

WEIGHING = ("average", "weighted")
"""Modes that use weights."""


def weights_of(text: str) -> Weights:
    """Parse a preset's name, or three numbers separated by ``/``, commas or spaces. Raises CallerError."""
    text = text.strip()
    if text in PRESETS:
        return PRESETS[text]
    try:
        content, reasoning, summary = (
            float(part) for part in text.replace("/", " ").replace(",", " ").split()
        )
    except ValueError:
        raise CallerError(
            say(
                "{text} are not weights. Use {presets}, or three numbers for content, reasoning "
                "and summary, such as 0.5/0.3/0.2.",
                text=text,
                presets=", ".join(PRESETS),
            )
        ) from None
    return content, reasoning, summary


def weights_name(weights: Weights) -> str:
    """Return the name of the preset with these weights, or the numbers."""
    presets = (name for name, preset in PRESETS.items() if preset == weights)
    return next(presets, "/".join(f"{weight:g}" for weight in weights))
