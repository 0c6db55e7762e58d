"""Approvals: each call that waits for a person, as a letter that says what it would do, and who wants it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tabane.errors import Forbidden, RateLimited, TabaneError, UnknownName
from tabane.guard.approvals.argument_fields import ESCAPE
from tabane.guard.approvals.letter import TITLES
from tabane.messages import Message, say
from tabane.web.flow_labels import LABELS
from tabane.web.page import (
    FileDownload,
    Fragment,
    Notice,
    PageAnswer,
    PageRequest,
    PageRoute,
    Redirect,
    WholePage,
)
from tabane.web.pages.changes import change_of_tool
from tabane.web.pages.servers import server_url
from tabane.web.pages.tools import printable, visible_text
from tabane.wire import json

MOST_LETTERS = 10
"""Calls that the list shows as letters. Further ones are shown as short rows."""

MOST_BRIEF, LONGEST_BRIEF = 4, 100
"""Fields in a row of an inbox, and characters of each."""

LONGEST_DESCRIPTION = 1_200
LONGEST_NAME = 120


async def approvals(request: PageRequest) -> WholePage:
    """Show the calls that wait, the oldest first, and approvals that are not used yet."""
    rows, state = await asyncio.gather(_list_approvals(request), request.call("passphrase_state"))
    waiting = [row for row in rows if row["state"] == "open"]
    shown = await asyncio.gather(*(_letter(request, row) for row in waiting[:MOST_LETTERS]))
    context = {
        "letters": shown,
        "rows": await _briefs(request, waiting[MOST_LETTERS:]),
        "approved": [_brief(row) for row in rows if row["state"] == "approved"],
        "locked": not state["unlocked"],
        "problem": "",
        "stay": False,
    }
    return WholePage("approvals/list.html", say("Approvals"), context, module="approvals")


async def one_approval(request: PageRequest) -> WholePage:
    """Show one call with all of its arguments."""
    row = await _find_approval(request, request.path("approval"))
    if row is None or row["state"] != "open":
        return WholePage("approvals/gone.html", say("Approval"))
    letter, state = await asyncio.gather(_letter(request, row), request.call("passphrase_state"))
    context = {"one": letter, "locked": not state["unlocked"], "problem": "", "alone": True}
    return WholePage("approvals/one.html", say("Approval"), context, module="approvals")


async def letters(request: PageRequest) -> list[dict[str, Any]]:
    """Return the calls that wait, the oldest first, for ``approvals/brief.html``.

    Include the template with the letter as ``one``, and ``stay`` if its buttons leave the page as it is.
    There are none if nobody may see them.
    """
    if not request.may("list_approvals"):
        return []
    return await _briefs(request, [row for row in await _list_approvals(request) if row["state"] == "open"])


async def count(request: PageRequest) -> Fragment:
    """Return the number of calls that wait, for the navigation."""
    waiting = [row for row in await _list_approvals(request) if row["state"] == "open"]
    return Fragment("approvals/count.html", {"count": len(waiting)})


async def read_arguments(request: PageRequest) -> FileDownload:
    """Return the arguments of a call as a file: as much of them as is kept, without secrets."""
    row = await _find_approval(request, request.path("approval"))
    if row is None:
        raise UnknownName(say("This call does not wait any more."))
    data = printable(str(row["arguments"])).encode()
    return FileDownload(data, "application/json", f"{row['id']}.json")


async def approve(request: PageRequest) -> PageAnswer:
    """Approve a call, once; with the pairs of it also for later calls, if the form says so."""
    given = await request.form()
    row = await _find_approval(request, request.path("approval"))
    if row is not None and given.get("unseen") != "true" and not row["letter"]["whole"]:
        return Notice(say("Not everything of this call was shown. Read it first."), "error", status=422)
    try:
        done = await request.call(
            "approve_call", id=request.path("approval"), remember=given.get("remember") == "true"
        )
    except UnknownName as error:
        return _answer(given, error.message, "error")
    return _answer(given, say("The call of {tool} is approved, once.", tool=done["tool"]))


async def refuse(request: PageRequest) -> PageAnswer:
    """Refuse a call, or take an approval back that was not used."""
    given = await request.form()
    try:
        row = await request.call("refuse_call", id=request.path("approval"))
    except UnknownName as error:
        return _answer(given, error.message, "error")
    return _answer(given, say("The call of {tool} is refused.", tool=row["tool"]))


async def unlock(request: PageRequest) -> PageAnswer:
    """Take the passphrase."""
    given = (await request.form()).get("passphrase", "")
    try:
        await request.call("unlock", passphrase=given)
    except (Forbidden, RateLimited) as error:
        return Fragment("approvals/unlock.html", {"problem": error.text(request.lang)}, 422)
    return Redirect("/approvals", say("The page is unlocked for five minutes."))


def _answer(given: Mapping[str, str], message: Message, kind: Any = "ok") -> PageAnswer:
    """Return the list of calls; or only the message, for a page that shows them among other things."""
    if given.get("stay") == "true":
        return Notice(message, kind, events=("approvals",))
    return Redirect("/approvals", message)


async def _list_approvals(request: PageRequest) -> Sequence[dict[str, Any]]:
    found = await request.call("list_approvals")
    return sorted(found["results"], key=lambda row: float(row["asked"]))


async def _find_approval(request: PageRequest, id: str) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = (await request.call("list_approvals", id=id[:40]))["results"]
    return found[0] if found else None


# -- the letter ------------------------------------------------------------------------------------


async def _briefs(request: PageRequest, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of an inbox: also what a changed definition of the tool says against a call."""
    tools = {(row["server"], row["tool"]): row for row in rows}
    changes = await asyncio.gather(*(change_of_tool(request, row) for row in tools.values()))
    by_tool = dict(zip(tools, changes, strict=True))
    return [_brief(row, by_tool[row["server"], row["tool"]]) for row in rows]


def _brief(row: Mapping[str, Any], change: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a row of an inbox says of a call. What others wrote is untrusted, and nothing is hidden."""
    own = row["tool"].removeprefix(f"{row['server']}__") if row["server"] else row["tool"]
    fields = row["letter"]["fields"]
    severe = [say("The definition of this tool looks like an attack.")] if change and change["severe"] else []
    is_short = len(fields) <= MOST_BRIEF and all(len(field["value"]) <= LONGEST_BRIEF for field in fields)
    return {
        **row,
        "url": f"/approvals/{quote(row['id'], safe='')}",
        "title": visible_text(row["title"], LONGEST_NAME) if row["title"] != own else "",
        "tool_page": f"/tools/{quote(row['tool'], safe='')}",
        "server_page": server_url(row["server"]) if row["server"] else "",
        "who": visible_text(row["client"] or row["label"] or row["holder"], LONGEST_NAME),
        "badges": [LABELS[label] for label in LABELS if label in row["labels"]],
        "titles": TITLES,
        "brief": [{**field, "value": _beginning(field["value"])} for field in fields[:MOST_BRIEF]],
        "whole": row["letter"]["whole"] and is_short,
        "against": [*severe, *row["letter"]["against"]],
        "change": change,
        "left": max(0, int(row["expires"] - time.time())),
    }


def _beginning(value: str) -> str:
    line = value if len(value) <= LONGEST_BRIEF else f"{value[:LONGEST_BRIEF]}…"
    return " ".join(line.split())


async def _letter(request: PageRequest, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a person has to know of a call."""
    tool, change = await asyncio.gather(_find_tool(request, row["tool"]), change_of_tool(request, row))
    return {
        **_brief(row, change),
        "whole": row["letter"]["whole"],
        "said": visible_text(printable(tool["description"]), LONGEST_DESCRIPTION) if tool else "",
        "known": tool is not None,
        # Each second part is an escape that is marked.
        "fields": [
            {**field, "parts": ESCAPE.split(field["value"]) if field["unseen"] else [field["value"]]}
            for field in row["letter"]["fields"]
        ],
    }


async def _find_tool(request: PageRequest, name: str) -> dict[str, Any] | None:
    if not request.may("get_tool"):
        return None
    try:
        found: dict[str, Any] = json.decode(await request.answer("get_tool", name=name))
    except (TabaneError, json.InvalidJson):
        return None  # gone meanwhile, or an operation of Tabane itself
    return found


_ONE = "/approvals/{approval}"

ROUTES = (
    PageRoute("/approvals", approvals),
    PageRoute("/approvals/-/count", count),
    PageRoute("/approvals/-/unlock", unlock, "POST"),
    PageRoute(_ONE, one_approval),
    PageRoute(f"{_ONE}/arguments", read_arguments),
    PageRoute(f"{_ONE}/approve", approve, "POST"),
    PageRoute(f"{_ONE}/refuse", refuse, "POST"),
)
