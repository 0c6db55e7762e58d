"""Pages of the list of all tools."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.wire.cursors import CursorCodec, ForeignCursor

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool


class ToolPlace(NamedTuple):
    """The last tool of a page: its server and its public name. Pages are in order of both."""

    server: str
    alias: str


class ToolPage(NamedTuple):
    """The tools of a page, and the cursor of the next one; None after the last."""

    tools: Sequence[Tool]
    next: str | None


_CODEC = CursorCodec("tools", ToolPlace)


def tool_page_of(tools: Sequence[Tool], limit: int | None, cursor: str | None) -> ToolPage:
    """Return a page of ``tools``, in order of server and name; all of them, as they are, without a limit.

    Raises BadArguments if the cursor is not one of ours.
    """
    if limit is None:
        return ToolPage(tools, None)
    ordered = sorted(tools, key=attrgetter("server", "alias"))
    if cursor is not None:
        after = _decoded(cursor)
        ordered = ordered[bisect_right(ordered, after, key=_place) :]
    page = ordered[:limit]
    return ToolPage(page, _CODEC.encode(_place(page[-1])) if len(ordered) > limit else None)


def _place(tool: Tool) -> ToolPlace:
    return ToolPlace(tool.server, tool.alias)


def _decoded(cursor: str) -> ToolPlace:
    try:
        return _CODEC.decode(cursor)
    except ForeignCursor:
        raise BadArguments(
            say("The cursor is not valid. List again from the start, without a cursor."), "cursor"
        ) from None
