"""Inbox of the home page: what waits for a person, each as one sentence with the button that settles it.

Calls to approve, questions and changed definitions are rows of their own pages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.messages import Message, say
from tabane.web.page import PageRequest
from tabane.web.pages.servers import server_url

MOST_ITEMS = 12
"""Things that are listed. The pages behind have all."""

EXPIRING = 7 * 86_400
"""Seconds before a key expires that it is named."""

SIGN_IN = ("needed", "failed")
"""States of a login in which a person has to begin it."""


class Button(NamedTuple):
    """A button of an item. ``post`` is done in place, ``dialog`` is asked first, ``page`` is gone to."""

    label: Message
    page: str = ""
    post: str = ""
    dialog: str = ""
    target: str = ""


class Item(NamedTuple):
    """Something that waits for a person.

    ``text`` is one sentence, ``detail`` is more about it and may be untrusted. The first of ``buttons`` is
    the bright one. ``page`` is where the whole of it is.
    """

    key: str
    text: Message
    buttons: tuple[Button, ...]
    kind: str = "warn"
    detail: str = ""
    page: str = ""


def inbox_items(
    request: PageRequest,
    status: Mapping[str, Any],
    servers: Sequence[Mapping[str, Any]],
    keys: Sequence[Mapping[str, Any]],
) -> list[Item]:
    """Return what waits: problems of the hub, servers, projects and keys, the worst first."""
    items = [
        *_hub_problems(status),
        *(item for row in servers for item in _server_items(request, row)),
        *_projects(request, status.get("projects_offered", ())),
        *_expiring_keys(request, keys),
    ]
    items.sort(key=lambda item: ("bad", "warn", "").index(item.kind))
    return items


# -- the hub ---------------------------------------------------------------------------------------

HEALTH = Button(say("Open health"), "/health")


def _hub_problems(status: Mapping[str, Any]) -> Iterator[Item]:
    if status.get("problem"):
        text = say("The settings or the servers file have an error. The earlier ones are in force.")
        button = Button(say("Open settings"), "/settings")
        yield Item("hub-files", text, (button,), "bad", status["problem"])
    engine = status.get("engine", {})
    if engine.get("state", "ok") != "ok":
        yield Item("hub-engine", say("The database cannot be reached."), (HEALTH,), "bad", engine["error"])
    failed = [each for each in engine.get("replicas", ()) if each["state"] == "failed"]
    if failed:
        text = say("The local copy of the database fails. Searches go to the database.")
        yield Item("hub-replica", text, (HEALTH,), "warn", failed[0]["error"])
    if status.get("disk_problem"):
        yield Item("hub-disk", say("The disk is full."), (HEALTH,), "bad", status["disk_problem"])
    if status.get("audit_problem"):
        text = say("Calls are not recorded in the audit log.")
        button = Button(say("Open the audit log"), "/audit")
        yield Item("hub-audit", text, (button,), "bad", status["audit_problem"])
    if status.get("keys_problem"):
        button = Button(say("Open API keys"), "/keys")
        yield Item("hub-keys", say("API keys cannot be read."), (button,), "bad", status["keys_problem"])
    if status.get("model_problem"):
        text = say("There is no embedding model. Search finds keywords only.")
        button = Button(say("Choose a model"), "/models")
        yield Item("hub-model", text, (button,), "warn")


# -- servers ---------------------------------------------------------------------------------------


def _server_items(request: PageRequest, row: Mapping[str, Any]) -> Iterator[Item]:
    name, url = str(row["name"]), server_url(row["name"])
    if row["state"] == "disabled" and row["switched_off"]:
        return
    key = f"server-{name}"
    log = Button(say("See the log"), f"{url}?view=log")
    if (row.get("login") or {}).get("state") in SIGN_IN:
        text = say("{server!n} requires a login.", server=name)
        login = Button(say("Log in"), post=f"{url}/-/login/start", target="#server-login-state")
        if not request.may("start_login"):
            login = Button(say("Open the server"), url)
        yield Item(key, text, (login,), "warn", page=url)
    elif not row["healthy"]:
        text = say("{server!n} does not run.", server=name)
        start = Button(say("Start"), post=f"{url}/-/start")
        buttons = (start, log) if request.may("start_upstream") else (log,)
        yield Item(key, text, buttons, "bad", _reason(row), url)


def _reason(row: Mapping[str, Any]) -> str:
    """Return why a server does not run, and what helps; the advice to look into the log is a button."""
    cause = row.get("cause")
    if not cause:
        return row.get("reason") or row["error"] or ""
    return cause["line"] if cause["kind"] in ("error", "unknown") else f"{cause['line']} {cause['fix'] or ''}"


# -- projects and keys -------------------------------------------------------------------------------


def _projects(request: PageRequest, offers: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    for offer in offers:
        if not offer["servers"]:
            continue
        text = say(
            "A project defines {count} MCP {count:server|servers} that you have not trusted.",
            count=offer["servers"],
        )
        if offer.get("changed"):
            text = say("The servers of a project have changed since you trusted them.")
        query = urlencode({"folder": offer["folder"]})
        look = Button(say("Look at them…"), dialog=f"/home/project?{query}")
        buttons = (look,) if request.may("show_project") else ()
        yield Item(f"project-{offer['folder']}", text, buttons, "warn", offer["folder"])


def _expiring_keys(request: PageRequest, rows: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    for key in rows:
        left = _time_left(key.get("expires"))
        if key.get("state", "active") == "active" and 0 < left < EXPIRING:
            days = max(1, round(left / 86_400))
            text = say("The key {name!n} expires in {days} {days:day|days}.", name=key["name"], days=days)
            page = f"/keys/{key['id']}"
            renew = Button(say("Renew"), post=f"/home/renew?{urlencode({'key': key['id']})}")
            if not request.may("keys_update"):
                renew = Button(say("Open API keys"), page)
            yield Item(f"key-{key['id']}", text, (renew,), "warn", page=page)


def _time_left(expires: object) -> float:
    """Return the seconds until a key expires; 0 if it never does."""
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return 0
    return expires - time.time() if isinstance(expires, int | float) else 0
