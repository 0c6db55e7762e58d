"""Pages that add and edit servers: a form or JSON, a trial, and a confirmation before anything is saved."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

from tabane.errors import CallerError, TabaneError
from tabane.messages import Message, say
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.server_forms import STARTING, ServerDraft, as_text, draft_of, fits_form, read_draft

SHARES: Mapping[str, Message] = {
    "": say("Default"),
    "hub": say("One process for all assistants"),
    "roots": say("One process for each project folder"),
    "client": say("One process for each assistant"),
}

TYPES: Mapping[str, Message] = {
    "": say("Detect"),
    "http": say("Streamable HTTP"),
    "sse": say("HTTP with SSE (old)"),
}

FOUND = 10
"""Servers of the registry that are shown at once."""

RUNNERS = frozenset({"npx", "uvx", "bunx", "pipx", "docker", "podman", "dnx"})
"""Programs that download what they start."""


async def add(request: PageRequest) -> WholePage:
    """Show the form for a new server."""
    return _page(request, say("Add a server"), draft_of("", {}))


async def find(request: PageRequest) -> Fragment:
    """Show servers of the registry, each with a button that fills the form."""
    query = request.query.get("q", "").strip()[:200]
    if not query:
        return Fragment("servers/registry.html", {"found": None, "error": ""})
    try:
        found = await request.call("find_servers", query=query, limit=FOUND)
    except TabaneError as error:
        return Fragment("servers/registry.html", {"found": None, "error": error.text(request.lang)})
    rows = [
        row | {"uses": [_use(row, run) for run in row["runs"] if run["usable"]]} for row in found["results"]
    ]
    context = {"found": rows, "query": query, "more": bool(found["next"]), "notes": found["notes"]}
    return Fragment("servers/registry.html", {**context, "error": ""})


def _use(row: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a way to run a server of the registry: what is shown, and the definition for the form."""
    definition = run["definition"] | ({"description": row["description"]} if row["description"] else {})
    needed = [each["name"] for each in run["needs"] if each["required"] and each["default"] is None]
    return {"runs": run["runs"], "needs": needed, "json": as_text(definition)}


async def edit(request: PageRequest) -> WholePage:
    """Show the definition of a server in the form. Secrets are masked."""
    name = request.path("name")
    found = await request.call("show_definition", name=name)
    return _page(
        request, say("Edit {name!n}", name=name), draft_of(name, found["definition"], name, found["version"])
    )


async def change_view(request: PageRequest) -> Fragment:
    """Show the same definition as a form or as JSON."""
    form = await request.form()
    draft, wanted = read_draft(form), "json" if request.query.get("to") == "json" else "form"
    if not set(draft.errors) <= {"name"}:
        return _form(request, draft)
    if wanted == "form" and not fits_form(draft.definition):
        return _form(
            request,
            replace(draft, errors={"json": say("The form cannot show this definition. Edit it as JSON.")}),
        )
    fresh = draft_of(draft.name, draft.definition, draft.replaces, draft.version)
    return _form(request, replace(fresh, view=wanted))


async def confirm(request: PageRequest) -> PageAnswer:
    """Check the definition, and say what it means before it is saved."""
    draft = read_draft(await request.form())
    draft, found = await _checked(request, draft)
    if draft.errors:
        return _form(request, draft, 422)
    if draft.replaces and await _starts_as_written(request, draft.replaces, found["ours"]):
        return await _save(request, draft, keep_secrets=False)
    context = {"draft": draft, "warnings": found["warnings"], "secrets": found["secrets"]}
    context |= meaning(found["ours"])
    return Fragment("servers/confirm.html", context)


async def save(request: PageRequest) -> PageAnswer:
    """Save the definition that was confirmed."""
    form = await request.form()
    draft, _ = await _checked(request, read_draft(form))
    if draft.errors:
        return _form(request, draft, 422)
    return await _save(request, draft, keep_secrets=form.get("keep_secrets") == "true")


async def try_out(request: PageRequest) -> PageAnswer:
    """Start the server as it is in the form, show its tools or its error, and end it."""
    draft, _ = await _checked(request, read_draft(await request.form()))
    if draft.errors:
        return _form(request, draft, 422)
    try:
        found = await request.call(
            "try_server", name=draft.name, definition=draft.definition, replaces=draft.replaces
        )
    except TabaneError as error:
        return Fragment("servers/trial.html", {"found": None, "error": error.text(request.lang)})
    return Fragment("servers/trial.html", {"found": found, "error": ""})


async def _save(request: PageRequest, draft: ServerDraft, *, keep_secrets: bool) -> PageAnswer:
    given: dict[str, Any] = {"definition": draft.definition, "keep_secrets": keep_secrets}
    try:
        if draft.replaces:
            found = await request.call("change_server", name=draft.replaces, version=draft.version, **given)
        else:
            found = await request.call("add_server", name=draft.name, **given)
    except CallerError as error:
        return _form(request, replace(draft, errors={"": error.message}), 422)
    url = f"/servers/{quote(found['name'], safe='/')}"
    if trouble := found["problem"] or found["remark"]:
        return Redirect(url, say("It was saved, but it is not running: {why}", why=trouble))
    if draft.replaces:
        done = say("{name!n} was changed.", name=found["name"])
    else:
        done = say("Added {name!n} to {path}.", name=found["name"], path=found["path"])
    if found["secrets"]:
        done = say("{done} Kept as secrets: {names}.", done=done, names=", ".join(found["secrets"]))
    return Redirect(url, done)


async def _checked(request: PageRequest, draft: ServerDraft) -> tuple[ServerDraft, dict[str, Any]]:
    """Return the draft with the errors that the hub finds, each at its field, and all that it found."""
    if draft.errors:
        return draft, {}
    found = await request.call(
        "check_definition", name=draft.name, definition=draft.definition, replaces=draft.replaces
    )
    errors: dict[str, Message] = {}
    for problem in found["problems"]:
        if problem["blocks"]:
            errors.setdefault(_field(draft, problem["key"]), Message(problem["text"]))
    return replace(draft, errors=errors), found


async def _starts_as_written(request: PageRequest, name: str, definition: Mapping[str, Any]) -> bool:
    """Return whether a definition starts the program, or calls the URL, that the one in the file does."""
    found = await request.call("show_definition", name=name)
    return all(found["ours"].get(key) == definition.get(key) for key in STARTING)


def _field(draft: ServerDraft, key: str) -> str:
    """Return the field at which a problem is shown."""
    if draft.view == "json":
        return "name" if key == "name" else "json"
    url = draft.fields.get("kind") == "url"
    shown = {"name", "description", "tags", "share", "timeout", "allow", "deny", "pin", "type"}
    shown |= {"url", "headers"} if url else {"command", "args", "env", "cwd"}
    return key if key in shown else ""


def meaning(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a definition (with our keys) does on this computer and on the network."""
    url = definition.get("url")
    if url and definition.get("type") != "stdio":
        parts = urlsplit(str(url))
        return {"host": parts.hostname or str(url), "address": str(url), "open": parts.scheme == "http"}
    command = [str(definition.get("command", "")), *map(str, definition.get("args") or ())]
    return {
        "command": shlex.join(command).replace("'***'", "***"),
        "program": command[0],
        "downloads": command[0].rpartition("/")[2] in RUNNERS,
        "folder": definition.get("cwd"),
        "variables": sorted(definition.get("env") or ()),
        "host": None,
    }


def _context(request: PageRequest, draft: ServerDraft) -> dict[str, Any]:
    return {
        "draft": draft,
        "base": as_text(draft.base),
        "shares": _options(SHARES, request),
        "types": _options(TYPES, request),
    }


def _options(labels: Mapping[str, Message], request: PageRequest) -> list[tuple[str, str]]:
    return [(value, label.render(request.lang)) for value, label in labels.items()]


def _page(request: PageRequest, title: Message, draft: ServerDraft) -> WholePage:
    return WholePage(
        "servers/edit.html", title, {**_context(request, draft), "heading": title}, module="servers"
    )


def _form(request: PageRequest, draft: ServerDraft, status: int = 200) -> Fragment:
    return Fragment("servers/form.html", _context(request, draft), status, retarget="#server-editor")


ROUTES = (
    PageRoute("/servers/-/add", add),
    PageRoute("/servers/-/find", find),
    PageRoute("/servers/-/view", change_view, "POST"),
    PageRoute("/servers/-/confirm", confirm, "POST"),
    PageRoute("/servers/-/save", save, "POST"),
    PageRoute("/servers/-/try", try_out, "POST"),
    PageRoute("/servers/{name:path}/-/edit", edit),
)
