"""API keys and profiles: who may use the hub, with what, and until when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tabane.errors import BadArguments, ConfigurationError, TabaneError, UnknownName
from tabane.messages import say
from tabane.web.page import (
    FileDownload,
    Fragment,
    PageAnswer,
    PageRequest,
    PageRoute,
    Redirect,
    WholePage,
)
from tabane.web.table_exports import collect_rows, export_format, table_file

PAGE = 100
"""Keys that are shown at once."""

TIERS = ("default", "authenticated", "premium")
"""Tiers that every hub has for keys; the settings file may have more."""

EXPIRIES = (
    ("30d", say("in 30 days")),
    ("90d", say("in 90 days")),
    ("1y", say("in a year")),
    ("never", say("never")),
)

_KEY_FORM = {
    "name": "",
    "person": "",
    "allow": "",
    "deny": "",
    "read_only": "",
    "profile": "",
    "tier": "authenticated",
    "expires": "never",
}


COLUMNS = (
    *("name", "person", "id", "state", "allow", "deny", "read_only", "profile", "tier"),
    *("created", "last_used", "expires", "revoked"),
)
"""Columns of the keys as a file."""


async def key_list(request: PageRequest) -> WholePage | Fragment | FileDownload:
    """Show the keys, by name, or return them as a file."""
    revoked = request.query.get("revoked") == "1"
    if format := export_format(request):
        rows, cut = await collect_rows(
            request, "keys_list", part=1000, cursor=("after", "next"), revoked=revoked
        )
        return table_file(format, "keys", COLUMNS, rows, cut=cut)
    found = await request.call(
        "keys_list", revoked=revoked, limit=PAGE, after=request.query.get("after") or None
    )
    context = {"keys": found["results"], "total": found["total"], "next": found["next"], "revoked": revoked}
    if request.query.get("after"):
        return Fragment("keys/rows.html", context)
    return WholePage("keys/list.html", say("API keys"), context)


async def new_key(request: PageRequest) -> WholePage:
    """Show an empty form."""
    form = {**_KEY_FORM, "expires": "90d", "profile": request.query.get("profile", "")}
    context = await _key_context(request, form, {})
    return WholePage("keys/new.html", say("New API key"), context, module="forms")


async def create_key(request: PageRequest) -> WholePage:
    """Create a key, and show its secret, which nobody can see again."""
    form = {**_KEY_FORM, **await request.form()}
    try:
        made = await request.call(
            "keys_create",
            name=form["name"],
            allow=patterns(form["allow"]),
            deny=patterns(form["deny"]),
            read_only=bool(form["read_only"]),
            expires=form["expires"] or "never",
            tier=form["tier"],
            profile=form["profile"],
            person=form["person"],
        )
    except BadArguments as error:
        context = await _key_context(request, form, {error.parameter or "": error.text(request.lang)})
        return WholePage("keys/new.html", say("New API key"), context, status=422)
    context = {"key": made, "url": await _hub_url(request)}
    return WholePage("keys/created.html", say("API key created"), context)


async def _hub_url(request: PageRequest) -> str:
    """Return the URL under which assistants reach the hub."""
    url = (await request.call("hub_status")).get("http") if request.may("hub_status") else None
    return url or f"http://{request.header('host')}/mcp"


async def key_page(request: PageRequest) -> WholePage:
    """Show a key, what it may do, and a form to change that."""
    key = await request.call("keys_show", key=request.path("key"))
    form = {
        "name": key["name"],
        "allow": "\n".join(key["allow"]),
        "deny": "\n".join(key["deny"]),
        "read_only": "true" if key["read_only"] else "",
        "profile": key["profile"] or "",
        "tier": key["tier"],
        "expires": "keep",
    }
    context = await _key_context(request, form, {}) | {"key": key}
    return WholePage("keys/key.html", say("API key"), context, module="forms")


async def update_key(request: PageRequest) -> PageAnswer:
    """Change a key, at once."""
    id, form = request.path("key"), {**_KEY_FORM, "expires": "keep", **await request.form()}
    try:
        if not patterns(form["allow"]) and not form["profile"]:
            raise BadArguments(say("Say what the key may use, such as github__* or @posts."), "allow")
        changed = await request.call(
            "keys_update",
            key=id,
            allow=patterns(form["allow"]) or ["*"],
            deny=patterns(form["deny"]),
            read_only=bool(form["read_only"]),
            expires=None if form["expires"] == "keep" else form["expires"],
            tier=form["tier"],
            profile=form["profile"],
        )
    except BadArguments as error:
        key = await request.call("keys_show", key=id)
        wrong = {error.parameter or "": error.text(request.lang)}
        context = await _key_context(request, {**form, "name": key["name"]}, wrong) | {"key": key}
        return Fragment("keys/edit.html", context, status=422)
    return Redirect(f"/keys/{id}", say("{name} was changed. It applies at once.", name=changed["name"]))


async def revoke_key(request: PageRequest) -> Redirect:
    """Revoke a key: nobody can use it any more."""
    key = await request.call("keys_revoke", key=request.path("key"))
    name = key.get("name", request.path("key"))
    return Redirect("/keys", say("{name} was revoked.", name=name))


async def explain(request: PageRequest) -> WholePage | Fragment:
    """Show whether a key may call a tool, and which pattern decides it."""
    key, tool = request.query.get("key", "").strip(), request.query.get("tool", "").strip()
    context: dict[str, Any] = {"key_name": key, "tool": tool, "found": None, "problem": None}
    if key and tool:
        try:
            context["found"] = await request.call("explain_policy", key=key, tool=tool)
        except TabaneError as error:
            context["problem"] = error.text(request.lang)
    if request.partial:
        return Fragment("keys/explanation.html", context)
    context["names"] = [key["name"] for key in await request.rows("keys_list", limit=1000)]
    return WholePage("keys/explain.html", say("Explain a permission"), context)


def patterns(text: str) -> list[str]:
    """Return the patterns of a text: one on each line, or separated by spaces."""
    return text.split()


async def _key_context(
    request: PageRequest, form: Mapping[str, str], errors: Mapping[str, str]
) -> dict[str, Any]:
    """Return the form's context. ``errors`` are sentences by field; that of no field is under ""."""
    lang = request.lang
    names = [profile["name"] for profile in await request.rows("profiles_list")]
    expiries = [(code, label.render(lang)) for code, label in EXPIRIES]
    if form["expires"] == "keep":
        expiries.insert(0, ("keep", say("as it is").render(lang)))
    return {
        "form": form,
        "errors": by_field(errors, ("name", "person", "key", "allow", "deny", "profile", "tier", "expires")),
        "profiles": [("", say("none").render(lang)), *((name, name) for name in names)],
        "tiers": [(tier, tier) for tier in dict.fromkeys((*TIERS, form["tier"]))],
        "expiries": expiries,
    }


def by_field(errors: Mapping[str, str], fields: Sequence[str]) -> dict[str, str]:
    """Return the errors of a form by field. Those of other names are under "", which is above the form."""
    found = dict.fromkeys(("", *fields), "")
    for name, text in errors.items():
        field = name.partition("[")[0].partition(".")[0]
        found[field if field in found else ""] = text
    return found


_PROFILE_FORM = {"name": "", "description": "", "allow": "", "deny": "", "read_only": ""}
_FIELDS = tuple(_PROFILE_FORM)


async def profile_list(request: PageRequest) -> WholePage:
    """Show the profiles, and how many keys use each."""
    found = await request.call("profiles_list")
    keys = await request.rows("keys_list", limit=10_000)
    uses = Counter(key["profile"] for key in keys if key["profile"])
    rows = [{**row, "used_by": uses[row["name"]]} for row in found["results"]]
    context = {"profiles": rows, "url": await _hub_url(request)}
    return WholePage("profiles/list.html", say("Profiles"), context)


async def new_profile(request: PageRequest) -> WholePage:
    """Show an empty form."""
    context = _profile_context(_PROFILE_FORM, {}, new=True)
    return WholePage("profiles/form.html", say("New profile"), context, module="forms")


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
    context = _profile_context(form, {}, new=False)
    return WholePage("profiles/form.html", say("Profile"), context, module="forms")


async def preview_profile(request: PageRequest) -> Fragment:
    """Show what the patterns of a form would allow now, while somebody writes them."""
    form = {**_PROFILE_FORM, **await request.form()}
    allow = patterns(form["allow"])
    context = {"draft": None, "problem": None, "profile": form.get("profile", "")}
    if not allow and "tier" in form:
        return Fragment("profiles/preview.html", context)  # a key without patterns is none
    draft = {"allow": allow, "deny": patterns(form["deny"]), "read_only": bool(form["read_only"])}
    try:
        context["draft"] = (await request.call("profiles_list", draft=True, **draft))["draft"]
    except BadArguments as error:
        context["problem"] = error.text(request.lang)
    return Fragment("profiles/preview.html", context)


async def save_profile(request: PageRequest) -> PageAnswer:
    """Create a profile, or replace it."""
    form = {**_PROFILE_FORM, **await request.form()}
    new = form.get("new") == "1"
    try:
        if new:
            name = form["name"]
            found = await request.call("profiles_list")
            if any(row["name"] == name for row in found["results"]):
                raise BadArguments(say("There is already a profile {name}.", name=name), "name")
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
        context = _profile_context(form, {field: error.text(request.lang)}, new=new)
        return Fragment("profiles/edit.html", context, status=422)
    return Redirect("/profiles", say("{name} was saved.", name=saved["name"]))


async def remove_profile(request: PageRequest) -> Redirect:
    """Remove a profile from the settings file."""
    name = request.path("name")
    await request.call("remove_profile", name=name)
    return Redirect("/profiles", say("{name} was removed.", name=name))


def _profile_context(form: Mapping[str, str], errors: Mapping[str, str], *, new: bool) -> dict[str, Any]:
    return {"form": form, "errors": by_field(errors, _FIELDS), "new": new}


ROUTES = (
    PageRoute("/keys", key_list),
    PageRoute("/keys", create_key, "POST"),
    PageRoute("/keys/new", new_key),
    PageRoute("/keys/explain", explain),
    PageRoute("/keys/{key}", key_page),
    PageRoute("/keys/{key}", update_key, "POST"),
    PageRoute("/keys/{key}/revoke", revoke_key, "POST"),
    PageRoute("/profiles", profile_list),
    PageRoute("/profiles", save_profile, "POST"),
    PageRoute("/profiles/new", new_profile),
    PageRoute("/profiles/preview", preview_profile, "POST"),
    PageRoute("/profiles/{name}", profile_page),
    PageRoute("/profiles/{name}/remove", remove_profile, "POST"),
)
