"""Pages that add and edit servers: a form or JSON, a trial, and a confirmation before anything is saved."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

from tabane.errors import CallerError, TabaneError
from tabane.messages import Message, say
from tabane.net.target import is_loopback
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, Redirect, WholePage

LARGEST = 64 << 10
"""Characters of a definition."""

URL_KEYS = ("url", "serverUrl", "httpUrl")
"""A URL, also under other programs' names."""

COMMAND_ONLY = ("command", "args", "env", "inherit", "cwd")
URL_ONLY = (*URL_KEYS, "headers")

STARTING = (*COMMAND_ONLY, "url", "headers", "type", "tls", "ca", "proxy")
"""Our keys that decide what is started, or where data is sent."""

TEXTS = ("command", "cwd", "url", "description", "category", "prefix")
LINES = ("args", "inherit", "allow", "deny", "pin")
PAIRS = {"env": "=", "headers": ": "}
KINDS = ("command", "url")


class NotInForm(ValueError):
    """A text of the form is not what its field takes. ``key`` is the field."""

    def __init__(self, key: str, why: Message) -> None:
        super().__init__(key)
        self.key, self.why = key, why


@dataclass(frozen=True)
class ServerDraft:
    """A server that somebody adds or edits. ``replaces`` is the name of the edited one.

    ``base`` is the definition that the form was filled with: keys that the form does not have stay.
    ``errors`` are texts by field.
    """

    name: str
    definition: Mapping[str, Any]
    base: Mapping[str, Any] = field(default_factory=dict)
    replaces: str | None = None
    version: str | None = None
    view: str = "form"
    fields: Mapping[str, str] = field(default_factory=dict)
    json: str = ""
    errors: Mapping[str, Message] = field(default_factory=dict)


def draft_of(
    name: str, definition: Mapping[str, Any], replaces: str | None = None, version: str | None = None
) -> ServerDraft:
    """Return the draft to begin with. A definition that the form cannot hold is shown as JSON."""
    return ServerDraft(
        name,
        definition,
        definition,
        replaces,
        version,
        "form" if fits_form(definition) else "json",
        fields_of(definition),
        as_text(definition),
    )


def read_draft(form: Mapping[str, str]) -> ServerDraft:
    """Return the draft that was sent. Faults are in its ``errors``; its definition is then the former one."""
    base = _parse_object(form.get("base", "") or "{}")
    name, view = form.get("name", "").strip(), form.get("view", "form")
    replaces, version = form.get("replaces") or None, form.get("version") or None
    text = form.get("json", "")
    errors: dict[str, Message] = {}
    definition: Mapping[str, Any] = base
    try:
        if view == "json":
            name, definition = pasted(name, text)
        else:
            definition = from_fields(form, base)
    except NotInForm as wrong:
        errors[wrong.key] = wrong.why
    if not name:
        errors["name"] = say("A server needs a name.")
    fields = {key: form[key] for key in FIELDS if key in form} if view == "form" else fields_of(definition)
    if view == "form":
        text = as_text(definition)
    return ServerDraft(name, definition, base, replaces, version, view, fields, text, errors)


# -- fields ------------------------------------------------------------------------------------------

FIELDS = ("kind", *TEXTS, *LINES, *PAIRS, "tags", "type", "share", "timeout", "enabled")


def fields_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the fields. What a field cannot hold is left out."""
    url = next((definition[key] for key in URL_KEYS if definition.get(key)), "")
    found = {key: _text_or_empty(definition.get(key)) for key in TEXTS}
    found |= {"url": _text_or_empty(url), "kind": "url" if url else "command"}
    found |= {key: "\n".join(_only_texts(definition.get(key))) for key in LINES}
    pin = definition.get("pin")
    found["pin"] = "\n".join(_only_texts([pin] if isinstance(pin, str) else pin))
    for key, sign in PAIRS.items():
        pairs = definition.get(key)
        pairs = pairs if isinstance(pairs, dict) else {}
        found[key] = "\n".join(f"{name}{sign}{_text_or_empty(value)}" for name, value in pairs.items())
    found["tags"] = ", ".join(_only_texts(definition.get("tags")))
    found["type"] = _text_or_empty(definition.get("type")) if url else ""
    found["share"] = _text_or_empty(definition.get("share"))
    timeout = definition.get("timeout")
    found["timeout"] = f"{timeout:g}" if isinstance(timeout, int | float) else ""
    on = definition.get("enabled") is not False and not definition.get("disabled")
    return found | {"enabled": "true" if on else ""}


def fits_form(definition: Mapping[str, Any]) -> bool:
    """Return whether the form can hold all that it has fields for: what comes back is the same."""
    try:
        return from_fields(fields_of(definition), definition) == dict(definition)
    except NotInForm:
        return False


def from_fields(form: Mapping[str, str], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of the fields; other keys are those of ``base``. Raises NotInForm."""
    made = dict(base)
    at_url = form.get("kind") == "url"
    for key in COMMAND_ONLY if at_url else URL_ONLY:
        made.pop(key, None)
    if at_url:
        url_key = next((key for key in URL_KEYS if key in made), "url")
        _set_or_remove(made, url_key, form.get("url", "").strip())
        _set_or_remove(made, "headers", _read_pairs(form, "headers", None))
        _set_or_remove(made, "type", form.get("type", ""))
    else:
        _put_command(made, form)
    for key in ("description", "category", "prefix"):
        if key != "prefix" or form.get(key) or made.get(key) != "":
            _set_or_remove(made, key, form.get(key, "").strip())
    for key in ("allow", "deny", "pin"):
        lines = _split_lines(form.get(key, ""))
        if key == "pin" and lines == [made.get(key)]:  # "pin": "ui" needs no list
            continue
        if form.get(key) or made.get(key) != []:
            _set_or_remove(made, key, lines)
    _set_or_remove(made, "tags", [tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()])
    _set_or_remove(made, "share", form.get("share", ""))
    _set_or_remove(made, "timeout", _read_seconds(form.get("timeout", "").strip()))
    on = form.get("enabled") == "true"
    was = made.get("enabled") is not False and not made.get("disabled")
    if on != was:
        made.pop("disabled", None)
        made.pop("enabled", None)
        if not on:
            made["enabled"] = False
    return made


def _set_or_remove(made: dict[str, Any], key: str, value: Any) -> None:
    """Set a key, or remove it if the value is empty. An empty list or object that was there stays."""
    if value or (key in made and made[key] == value and value != ""):
        made[key] = value
    else:
        made.pop(key, None)


def _put_command(made: dict[str, Any], form: Mapping[str, str]) -> None:
    command, args = form.get("command", "").strip(), _split_lines(form.get("args", ""))
    if not args and " " in command and command != made.get("command"):
        try:
            command, *args = map(_from_home, shlex.split(command))
        except ValueError:
            raise NotInForm("command", say("A quote in the command is not closed.")) from None
    if made.get("type") in ("stdio", None):
        _set_or_remove(made, "type", made.get("type", ""))
    else:
        made.pop("type", None)
    _set_or_remove(made, "command", command)
    _set_or_remove(made, "args", args)
    _set_or_remove(made, "env", _read_pairs(form, "env", lambda name: f"${{{name}}}"))
    _set_or_remove(made, "inherit", _split_lines(form.get("inherit", "")))
    _set_or_remove(made, "cwd", form.get("cwd", "").strip())


def _from_home(word: str) -> str:
    """Return a word of a command line with the home folder that a shell would put into it."""
    return "${HOME}" + word[1:] if word == "~" or word.startswith("~/") else word


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _read_pairs(form: Mapping[str, str], key: str, alone: Callable[[str], str] | None) -> dict[str, str]:
    """Return names and values of lines. ``alone`` gives the value of a name without one."""
    found: dict[str, str] = {}
    sign = PAIRS[key].strip()
    for number, line in enumerate(form.get(key, "").split("\n"), 1):
        if not line.strip():
            continue
        name, separator, value = line.partition(sign)
        name = name.strip()
        if not separator and alone is not None:
            found[name] = alone(name)
        elif not separator or not name:
            raise NotInForm(
                key,
                say("Line {number}: write {example}.", number=number, example=f"NAME{PAIRS[key]}VALUE"),
            )
        else:
            found[name] = value.strip() if key == "headers" else value
    return found


def _read_seconds(text: str) -> float | int | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise NotInForm("timeout", say("Write a number of seconds.")) from None
    return int(value) if value.is_integer() else value


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _only_texts(value: object) -> list[str]:
    return [part for part in value if isinstance(part, str)] if isinstance(value, list) else []


# -- JSON --------------------------------------------------------------------------------------------


def as_text(definition: Mapping[str, Any]) -> str:
    """Return a definition as JSON for people."""
    return json.dumps(definition, indent=2, ensure_ascii=False)


def pasted(name: str, text: str) -> tuple[str, dict[str, Any]]:
    """Return name and definition of JSON: a definition, or one server as other programs write it.

    Raises NotInForm.
    """
    if len(text) > LARGEST:
        raise NotInForm("json", say("This is too long for the definition of one server."))
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotInForm(
            "json",
            say("This is not JSON: line {line}, column {column}.", line=error.lineno, column=error.colno),
        ) from None
    except RecursionError:
        raise NotInForm("json", say("This is nested too deeply.")) from None
    if not isinstance(found, dict):
        raise NotInForm("json", say("Write one object in braces, with command or url."))
    for table in ("mcpServers", "servers"):
        if isinstance(found.get(table), dict):
            return _only_server(name, found[table])
    inside = [value for value in found.values() if isinstance(value, dict)]
    if len(found) == 1 and inside and any(key in inside[0] for key in ("command", "cmd", *URL_KEYS)):
        return _only_server(name, found)
    return name, found


def _only_server(name: str, servers: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if len(servers) != 1:
        raise NotInForm("json", say("Paste one server at a time. This has {count}.", count=len(servers)))
    (own, definition), *_ = servers.items()
    if not isinstance(definition, dict):
        raise NotInForm("json", say("The server {name!n} is not an object.", name=own))
    return name or own, definition


def _parse_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text[:LARGEST])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
    return _editor_page(request, say("Add a server"), draft_of("", {}))


async def find(request: PageRequest) -> Fragment:
    """Show servers of the registry, each with a button that fills the form."""
    query = request.query.get("q", "").strip()[:200]
    if not query:
        return Fragment("servers/registry.html", {"found": None, "error": ""})
    try:
        found = await request.call("find_servers", query=query, limit=FOUND)
    except TabaneError as error:
        return Fragment("servers/registry.html", {"found": None, "error": error.text(request.lang)})
    rows = []
    for row in found["results"]:
        about = {"description": row["description"]} if row["description"] else {}
        uses = [
            {
                "runs": run["runs"],
                "needs": [
                    each["name"] for each in run["needs"] if each["required"] and each["default"] is None
                ],
                "json": as_text(run["definition"] | about),  # of the form that the button fills
            }
            for run in row["runs"]
            if run["usable"]
        ]
        rows.append(row | {"uses": uses})
    context = {"found": rows, "query": query, "more": bool(found["next"]), "notes": found["notes"]}
    return Fragment("servers/registry.html", {**context, "error": ""})


async def edit(request: PageRequest) -> WholePage:
    """Show the definition of a server in the form. Secrets are masked."""
    name = request.path("name")
    found = await request.call("show_definition", name=name)
    draft = draft_of(name, found["definition"], name, found["version"])
    return _editor_page(request, say("Edit {name!n}", name=name), draft)


async def change_view(request: PageRequest) -> Fragment:
    """Show the same definition as a form or as JSON."""
    form = await request.form()
    draft, wanted = read_draft(form), "json" if request.query.get("to") == "json" else "form"
    if not set(draft.errors) <= {"name"}:
        return _editor_form(request, draft)
    if wanted == "form" and not fits_form(draft.definition):
        problem = say("The form cannot show this definition. Edit it as JSON.")
        return _editor_form(request, replace(draft, errors={"json": problem}))
    fresh = draft_of(draft.name, draft.definition, draft.replaces, draft.version)
    return _editor_form(request, replace(fresh, view=wanted))


async def confirm(request: PageRequest) -> PageAnswer:
    """Check the definition, and say what it means before it is saved."""
    draft = read_draft(await request.form())
    draft, found = await _check_draft(request, draft)
    if draft.errors:
        return _editor_form(request, draft, 422)
    if draft.replaces:
        stored = (await request.call("show_definition", name=draft.replaces))["ours"]
        if all(stored.get(key) == found["ours"].get(key) for key in STARTING):
            # The same program is started, or the same URL called, so there is nothing to confirm.
            return await _save(request, draft, keep_secrets=False)
    context = {"draft": draft, "warnings": found["warnings"], "secrets": found["secrets"]}
    context |= meaning(found["ours"])
    return Fragment("servers/confirm.html", context)


async def save(request: PageRequest) -> PageAnswer:
    """Save the definition that was confirmed."""
    form = await request.form()
    draft, _ = await _check_draft(request, read_draft(form))
    if draft.errors:
        return _editor_form(request, draft, 422)
    return await _save(request, draft, keep_secrets=form.get("keep_secrets") == "true")


async def try_out(request: PageRequest) -> PageAnswer:
    """Start the server as it is in the form, show its tools or its error, and end it."""
    draft, _ = await _check_draft(request, read_draft(await request.form()))
    if draft.errors:
        return _editor_form(request, draft, 422)
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
        return _editor_form(request, replace(draft, errors={"": error.message}), 422)
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


async def _check_draft(request: PageRequest, draft: ServerDraft) -> tuple[ServerDraft, dict[str, Any]]:
    """Return the draft with the errors that the hub finds, each at its field, and all that it found."""
    if draft.errors:
        return draft, {}
    found = await request.call(
        "check_definition", name=draft.name, definition=draft.definition, replaces=draft.replaces
    )
    errors: dict[str, Message] = {}
    for problem in found["problems"]:
        if problem["blocks"]:
            errors.setdefault(_problem_field(draft, problem["key"]), Message(problem["text"]))
    return replace(draft, errors=errors), found


def _problem_field(draft: ServerDraft, key: str) -> str:
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
        return {
            "host": parts.hostname or str(url),
            "address": str(url),
            "open": parts.scheme == "http" and not is_loopback(parts.hostname or ""),
        }
    command = [str(definition.get("command", "")), *map(str, definition.get("args") or ())]
    return {
        "command": shlex.join(command).replace("'***'", "***"),
        "program": command[0],
        "downloads": command[0].rpartition("/")[2] in RUNNERS,
        "folder": definition.get("cwd"),
        "variables": sorted(definition.get("env") or ()),
        "host": None,
    }


def _editor_context(request: PageRequest, draft: ServerDraft) -> dict[str, Any]:
    return {
        "draft": draft,
        "base": as_text(draft.base),
        "shares": _options(SHARES, request),
        "types": _options(TYPES, request),
    }


def _options(labels: Mapping[str, Message], request: PageRequest) -> list[tuple[str, str]]:
    return [(value, label.render(request.lang)) for value, label in labels.items()]


def _editor_page(request: PageRequest, title: Message, draft: ServerDraft) -> WholePage:
    context = {**_editor_context(request, draft), "heading": title}
    return WholePage("servers/edit.html", title, context, module="servers")


def _editor_form(request: PageRequest, draft: ServerDraft, status: int = 200) -> Fragment:
    return Fragment("servers/form.html", _editor_context(request, draft), status, retarget="#server-editor")


ROUTES = (
    PageRoute("/servers/-/add", add),
    PageRoute("/servers/-/find", find),
    PageRoute("/servers/-/view", change_view, "POST"),
    PageRoute("/servers/-/confirm", confirm, "POST"),
    PageRoute("/servers/-/save", save, "POST"),
    PageRoute("/servers/-/try", try_out, "POST"),
    PageRoute("/servers/{name:path}/-/edit", edit),
)
