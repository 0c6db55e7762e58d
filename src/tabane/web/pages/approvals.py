"""Calls that wait until a person approves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabane.errors import Forbidden, RateLimited, UnknownName
from tabane.messages import say
from tabane.text.control_characters import shown_controls
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.tool_results import printable

LONGEST = 8_000
"""Characters of arguments that are shown."""


async def approvals(request: PageRequest) -> WholePage:
    """Show the calls that wait, the oldest first, and approvals that are not used yet."""
    rows = [_shown(row) for row in await _listed(request)]
    state = await request.call("passphrase_state")
    context = {
        "open": [row for row in rows if row["state"] == "open"],
        "approved": [row for row in rows if row["state"] == "approved"],
        "locked": not state["unlocked"],
        "problem": "",
    }
    return WholePage("approvals/list.html", say("Approvals"), context)


async def count(request: PageRequest) -> Fragment:
    """Return the number of calls that wait, for the navigation."""
    waiting = [row for row in await _listed(request) if row["state"] == "open"]
    return Fragment("approvals/count.html", {"count": len(waiting)})


async def approve(request: PageRequest) -> PageAnswer:
    """Approve a call, once; with the pairs of it also for later calls, if the form says so."""
    remember = (await request.form()).get("remember") == "true"
    try:
        row = await request.call("approve_call", id=request.path("approval"), remember=remember)
    except UnknownName as error:
        return Redirect("/approvals", error.message)
    return Redirect("/approvals", say("The call of {tool} is approved, once.", tool=row["tool"]))


async def refuse(request: PageRequest) -> PageAnswer:
    """Refuse a call, or take an approval back that was not used."""
    try:
        row = await request.call("refuse_call", id=request.path("approval"))
    except UnknownName as error:
        return Redirect("/approvals", error.message)
    return Redirect("/approvals", say("The call of {tool} is refused.", tool=row["tool"]))


async def unlock(request: PageRequest) -> PageAnswer:
    """Take the passphrase."""
    given = (await request.form()).get("passphrase", "")
    try:
        await request.call("unlock", passphrase=given)
    except (Forbidden, RateLimited) as error:
        return Fragment("approvals/unlock.html", {"problem": error.text(request.lang)}, 422)
    return Redirect("/approvals", say("The page is unlocked for five minutes."))


async def _listed(request: PageRequest) -> Sequence[dict[str, Any]]:
    found = await request.call("list_approvals")
    return sorted(found["results"], key=lambda row: float(row["asked"]))


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an approval for the template. The assistant wrote its arguments: nothing in them is hidden."""
    arguments = str(row["arguments"])
    shown = shown_controls(printable(arguments[:LONGEST]))
    cut = len(arguments) > LONGEST or row["arguments_size"]
    return {**row, "arguments": shown, "cut": cut, "url": f"/approvals/{row['id']}"}


_ONE = "/approvals/{approval}"

ROUTES = (
    PageRoute("/approvals", approvals),
    PageRoute("/approvals/-/count", count),
    PageRoute("/approvals/-/unlock", unlock, "POST"),
    PageRoute(f"{_ONE}/approve", approve, "POST"),
    PageRoute(f"{_ONE}/refuse", refuse, "POST"),
)
