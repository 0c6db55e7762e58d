"""Profiles: named sets of servers and tools, in the settings file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.messages import say
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.keys import by_field, patterns

_FORM = {"name": "", "description": "", "allow": "", "deny": "", "read_only": ""}
_FIELDS = tuple(_FORM)


async def profile_list(request: PageRequest) -> WholePage:
    """Show the profiles, and how many keys use each."""
    found = await request.call("profiles_list")
    uses: Counter[str] = Counter()
    if request.may("keys_list"):
        keys = await request.call("keys_list", limit=10_000)
        uses.update(key["profile"] for key in keys["results"] if key["profile"])
    rows = [{**row, "used_by": uses[row["name"]]} for row in found["results"]]
    return WholePage("profiles/list.html", say("Profiles"), {"profiles": rows, "url": await _url(request)})


async def new_profile(request: PageRequest) -> WholePage:
    """Show an empty form."""
    return WholePage("profiles/form.html", say("New profile"), _context(_FORM, {}, new=True), module="forms")


async def profile_page(request: PageRequest) -> WholePage:
    """Show the form of a profile."""
    name = request.path("name")
    found = await request.call("profiles_list")
    row = next((each for each in found["results"] if each["name"] == name), None)
    if row is None or "allow" not in row:
        raise UnknownName(say("There is no profile {name}.", name=name))
    form = {
        "name": name,
        "description": row["description"] or "",
        "allow": "\n".join(row["allow"]),
        "deny": "\n".join(row["deny"]),
        "read_only": "true" if row["read_only"] else "",
    }
    return WholePage("profiles/form.html", say("Profile"), _context(form, {}, new=False), module="forms")


async def save_profile(request: PageRequest) -> PageAnswer:
    """Create a profile, or replace it."""
    form = {**_FORM, **await request.form()}
    new = form.get("new") == "1"
    try:
        if new:
            await _check_free(request, form["name"])
        saved = await request.call(
            "save_profile",
            name=form["name"],
            description=form["description"].strip(),
            allow=patterns(form["allow"]),
            deny=patterns(form["deny"]),
            read_only=bool(form["read_only"]),
        )
    except (BadArguments, ConfigurationError) as error:
        field = (error.parameter or "") if isinstance(error, BadArguments) else ""
        context = _context(form, {field: error.text(request.lang)}, new=new)
        return Fragment("profiles/edit.html", context, status=422)
    return Redirect("/profiles", say("{name} was saved.", name=saved["name"]))


async def remove_profile(request: PageRequest) -> Redirect:
    """Remove a profile from the settings file."""
    name = request.path("name")
    await request.call("remove_profile", name=name)
    return Redirect("/profiles", say("{name} was removed.", name=name))


async def _check_free(request: PageRequest, name: str) -> None:
    found = await request.call("profiles_list")
    if any(row["name"] == name for row in found["results"]):
        raise BadArguments(say("There is already a profile {name}.", name=name), "name")


def _context(form: Mapping[str, str], errors: Mapping[str, str], *, new: bool) -> dict[str, Any]:
    return {"form": form, "errors": by_field(errors, _FIELDS), "new": new}


async def _url(request: PageRequest) -> str:
    """Return the address under which assistants reach the hub."""
    url = (await request.call("hub_status")).get("http") if request.may("hub_status") else None
    return url or f"http://{request.header('host')}/mcp"


ROUTES = (
    PageRoute("/profiles", profile_list),
    PageRoute("/profiles", save_profile, "POST"),
    PageRoute("/profiles/new", new_profile),
    PageRoute("/profiles/{name}", profile_page),
    PageRoute("/profiles/{name}/remove", remove_profile, "POST"),
)
