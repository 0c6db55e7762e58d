"""Posts as text: in full, one per line, or with all details."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from tabane.cli.output import Terminal, emit, text
from tabane.cli.terminal_text import Line, StyledText, cells, clean, fitted, padded, wrapped
from tabane.messages import Message, say

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
        terminal.table([""] * 6, (_cells_of(entry) for entry in shown))
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
        yield _head(entry)
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


def _cells_of(entry: ListedPost) -> list[object]:
    post = entry.post
    score = "" if entry.score is None else f"{entry.score:.3f}"
    return [entry.rank, score, post["user"], post["timestamp"], post["post_id_str"], post["content"]]


def _head(entry: ListedPost) -> Line:
    score = "" if entry.score is None else StyledText(f"[{entry.score:.3f}] ", "green")
    return StyledText(f"{entry.rank}.", "bold"), " ", score, *_address(entry.post)


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
