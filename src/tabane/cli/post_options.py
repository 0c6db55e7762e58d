"""Options of commands on posts, and posts as text: in full, one per line, or with all details."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import click

from tabane.cli.options import COMPLETION_LIMIT, combined, completed, given, option, parameter_option
from tabane.cli.output import Terminal, emit, text
from tabane.cli.terminal_text import Line, StyledText, cells, clean, fitted, padded, wrapped
from tabane.errors import CallerError
from tabane.messages import Message, say
from tabane.posts.table import PostFilterParameters, SimilarPostParameters

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


limits_options = combined((
    option("--user", "users", multiple=True, metavar="NAME", shell_complete=user_names,
           help=say("Only posts of this user; repeatable.")),
    option("--not-user", "not_users", multiple=True, metavar="NAME", shell_complete=user_names,
           help=say("Exclude posts of this user; repeatable.")),
    option("--min-posts", "least", type=click.IntRange(0),
           help=say("Only users with at least this many posts in the archive.")),
    option("--max-posts", "most", type=click.IntRange(0),
           help=say("Only users with at most this many posts in the archive.")),
    option("--from", "since", metavar="DATE",
           help=say("Only posts since then: YYYY-MM-DD, YYYYMMDD, or with HH:MM:SS.")),
    option("--to", "until", metavar="DATE",
           help=say("Only posts until then; a date without a time is the whole day.")),
    parameter_option(PostFilterParameters, "tags", "--tag", "tags",
                     help=say("Only posts with this tag; repeatable.")),
    parameter_option(PostFilterParameters, "log_type", "--type", "kinds", type=click.Choice(KINDS),
                     help=say("Only posts, likes or bookmarks; repeatable.")),
))  # fmt: skip
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


LIMITS = ("users", "not_users", "least", "most", "since", "until", "tags", "kinds")
"""The parameters of these options."""


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


View = Literal["normal", "list", "detail"]
VIEWS: tuple[View, ...] = get_args(View)

_INDENT = "   "
_LEAST, _SHORTEST = 20, 8  # columns that a body has at least, and a line of it in a list
_WIDEST_USER = 20
_DAY = len("YYYY-MM-DD")
_BY_TYPE: Mapping[int, Message] = {1: say("post"), 2: say("like"), 3: say("bookmark")}


class ListedPost(NamedTuple):
    """A post in a list. ``score`` is None if the list is not ranked by similarity."""

    rank: int
    score: float | None
    post: dict[str, Any]


def entries(rows: Sequence[dict[str, Any]], first: int = 1) -> list[ListedPost]:
    """Return the results of an operation in order. They are ranked posts or plain ones."""
    return [ListedPost(rank, row.get("score"), row.get("post", row)) for rank, row in enumerate(rows, first)]


def show_posts(terminal: Terminal, shown: Sequence[ListedPost], view: View) -> None:
    """Print posts. A pipe gets them without colors, and the view list as columns with tabs."""
    if view == "list" and not sys.stdout.isatty():
        keys = ("user", "timestamp", "post_id_str", "content")
        scores = ("" if entry.score is None else f"{entry.score:.3f}" for entry in shown)
        terminal.table(
            [""] * 6,
            (
                [entry.rank, score, *(entry.post[key] for key in keys)]
                for entry, score in zip(shown, scores, strict=True)
            ),
        )
        return
    columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None
    for line in lines_of(shown, view, columns):
        emit(*line)


def lines_of(shown: Sequence[ListedPost], view: View, columns: int | None) -> Iterator[Line]:
    """Yield the lines of a view, cut or wrapped to ``columns`` unless it is None."""
    if view == "list":
        yield from _listed(shown, columns or 200)
        return
    for entry in shown:
        score = "" if entry.score is None else StyledText(f"[{entry.score:.3f}] ", "green")
        yield StyledText(f"{entry.rank}.", "bold"), " ", score, *_address(entry.post)
        yield from _body_lines(entry.post, columns)
        if view == "detail":
            yield from _known(entry.post, columns)
        yield ("",)


def show_post(terminal: Terminal, post: dict[str, Any]) -> None:
    """Print a post with all its details."""
    columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None
    emit(*_address(post))
    for line in (*_body_lines(post, columns), *_known(post, columns)):
        emit(*line)


def _listed(shown: Sequence[ListedPost], columns: int) -> Iterator[Line]:
    users = [_user(entry.post) for entry in shown]
    ranks = max((len(str(entry.rank)) for entry in shown), default=0)
    wide = min(_WIDEST_USER, max(map(cells, users), default=0))
    for entry, user in zip(shown, users, strict=True):
        score = "" if entry.score is None else f" {entry.score:6.3f}"
        day = padded(clean(entry.post["timestamp"])[:_DAY], _DAY)
        head = f"{entry.rank:>{ranks}}{score} "
        room = max(_SHORTEST, columns - cells(head) - wide - _DAY - 2)
        content = fitted(" ".join(clean(entry.post["content"]).split()), room)
        who = StyledText(padded(user, wide), "cyan")
        yield StyledText(head, "bold"), who, " ", StyledText(day, "dim"), " ", content


def _address(post: dict[str, Any]) -> Line:
    parts = (
        StyledText(_user(post) if post["user"] else "", "cyan bold"),
        StyledText(f"({clean(post['timestamp'])})" if post["timestamp"] else "", "dim"),
        StyledText(clean(post["url"])),
    )
    shown = [part for part in parts if part.text]
    line: list[str | StyledText] = []
    for part in shown:
        line += [" ", part] if line else [part]
    return line


def _user(post: dict[str, Any]) -> str:
    return clean(f"@{post['user']}" if post["user"] else "–")


def _body_lines(post: dict[str, Any], columns: int | None) -> Iterator[Line]:
    return ((line,) for line in _body(clean(post["content"]), columns))


def _body(content: str, columns: int | None, indent: str = _INDENT) -> Iterator[str]:
    for line in content.splitlines():
        if line.strip():
            room = None if columns is None else max(_LEAST, columns - len(indent) - 1)
            for part in [line] if room is None else wrapped(line, room):
                yield indent + part


def _known(post: dict[str, Any], columns: int | None) -> Iterator[Line]:
    """Yield the details of a post, and what a model wrote about it."""
    tags = " ".join(f"#{tag}" for tag in post.get("tags", ()))
    facts = (
        (say("id"), post["post_id_str"]),
        (say("type"), text(_BY_TYPE[post["log_type"]]) if post["log_type"] in _BY_TYPE else ""),
        (say("summary"), post.get("summary", "")),
        (say("reasoning"), post.get("reasoning", "")),
        (say("tags"), tags),
    )
    for name, value in facts:
        if value:
            first, *rest = _body(clean(value), None if columns is None else columns - 12, "") or [""]
            yield _INDENT, StyledText(padded(text(name), 10), "dim"), f"  {first}"
            yield from ((f"{_INDENT}{' ' * 12}{line}",) for line in rest)
