"""Settings with value, source and help, the reader's preferences, and the embedding models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.messages import Lang, Message, say
from tabane.settings import OPTIONS
from tabane.settings.groups import GROUPS, group_of
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, WholePage
from tabane.web.sessions import IDLE

_OPTIONS = {option.name: option for option in OPTIONS}

CHANGED = "changed"
"""The section of all settings that are not as by default."""

_SENTENCE = re.compile(r"(.+?(?:\.(?=\s)|。|$))\s*(.*)", re.DOTALL)


async def setting_list(request: PageRequest) -> WholePage | Fragment:
    """Show the settings of one section, or of all sections those that match a search."""
    found, restartable = await asyncio.gather(request.call("list_settings"), _can_restart(request))
    rows = [_shown_row(row) for row in found["results"]]
    sections = _sections(rows)
    query = request.query.get("q", "").strip()
    section = request.query.get("section", "")
    chosen = next((each for each in sections if each["code"] == section), sections[0])
    if query:
        shown = _search(sections, query)
    elif section == CHANGED:
        shown = [{**each, "rows": [row for row in each["rows"] if row["changed"]]} for each in sections]
    else:
        shown = [chosen]
    context = {
        "sections": sections,
        "shown": [each for each in shown if each["rows"]],
        "current": "" if query else CHANGED if section == CHANGED else chosen["code"],
        "changed_count": sum(row["changed"] for row in rows),
        "total": len(rows),
        "file": found["file"],
        "problem": found["problem"],
        "restart_needed": found["restart_needed"],
        "restartable": restartable,
        "q": query,
        "section": section,
        "done": None,
    }
    if request.partial:
        return Fragment("settings/results.html", context)
    return WholePage("settings/list.html", say("Settings"), context, module="settings")


def _shown_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a setting for the page: its help as a first sentence and the rest, numbers with separators."""
    found = _SENTENCE.match(row["help"])
    lead, rest = found.groups() if found else (row["help"], "")

    is_port = row["name"] == "port"  # a name more than a number

    def shown(value: str) -> str:
        return f"{int(value):,}" if row["kind"] == "whole" and value.isdigit() and not is_port else value

    more = {"lead": lead, "rest": rest, "shown": shown(row["value"]), "default_shown": shown(row["default"])}
    if "pending" in row:
        more["pending_shown"] = shown(row["pending"])
    if is_port:
        more["unit"] = ""
    is_set = row["source"] != "default" and row["value"] != row["default"]
    return {**row, **more, "changed": is_set or "pending" in row}


def _sections(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups with their settings, in the order of the documents."""
    groups: dict[str, list[dict[str, Any]]] = {group.code: [] for group in GROUPS}
    for row in rows:
        groups[group_of(row["name"]).code].append(row)
    return [
        {
            "code": group.code,
            "title": group.title,
            "rows": groups[group.code],
            "changed": sum(row["changed"] for row in groups[group.code]),
        }
        for group in GROUPS
        if groups[group.code]
    ]


def _search(sections: Sequence[Mapping[str, Any]], query: str) -> list[dict[str, Any]]:
    """Return the sections with the settings that have all words of a query, in either language."""
    words = query.lower().split()

    def text(section: Mapping[str, Any], row: Mapping[str, Any]) -> str:
        help, name = _OPTIONS[row["name"]].help, row["name"]
        languages = (said.render(lang) for said in (help, section["title"]) for lang in get_args(Lang))
        return " ".join((name, name.replace("_", " "), row["value"], *languages)).lower()

    return [
        {**each, "rows": [row for row in each["rows"] if all(word in text(each, row) for word in words)]}
        for each in sections
    ]


async def setting_row(request: PageRequest) -> Fragment:
    """Show one setting as it is."""
    return Fragment("settings/row.html", {"row": await _find_setting(request), "done": None, "q": ""})


async def setting_form(request: PageRequest) -> Fragment:
    """Show the form of one setting."""
    row = await _find_setting(request)
    context = {"row": row, "value": row.get("pending", row["value"]), "error": ""}
    return Fragment("settings/form.html", context)


async def change_setting(request: PageRequest) -> PageAnswer:
    """Change a setting in the settings file, or remove it from there."""
    name, form = request.path("name"), await request.forms()
    given = form.get("value", [""])
    row = await _find_setting(request)
    value: Any = given[-1]
    if row["kind"] == "list":
        # A list of choices is a checkbox for each, any other has one on each line.
        value = [line.strip() for text in given for line in text.split("\n") if line.strip()]
    if row["kind"] == "path" and not value:
        value = None
    if "reset" in form:
        value = None
    try:
        done = await request.call("change_setting", name=name, value=value)
    except (BadArguments, ConfigurationError) as error:
        context = {"row": row, "value": ", ".join(given), "error": error.text(request.lang)}
        return Fragment("settings/form.html", context, status=422)
    context = {"row": _shown_row(done["setting"]), "done": done, "q": ""}
    return Fragment("settings/row.html", context, events=("settings",))


async def status(request: PageRequest) -> Fragment:
    """Show whether a restart is needed."""
    found = await request.call("list_settings")
    context = {"restart_needed": found["restart_needed"], "restartable": await _can_restart(request)}
    return Fragment("settings/restart.html", context | {"problem": found["problem"]})


async def _find_setting(request: PageRequest) -> dict[str, Any]:
    name = request.path("name")
    found = await request.call("list_settings")
    row: dict[str, Any] | None = next((each for each in found["results"] if each["name"] == name), None)
    if row is None:
        raise UnknownName(say("There is no setting {name}.", name=name))
    return _shown_row(row)


async def _can_restart(request: PageRequest) -> bool:
    """Return whether the hub can restart itself, and the caller may ask for that."""
    if not (request.may("restart_hub") and request.may("hub_status")):
        return False
    return bool((await request.call("hub_status")).get("restartable"))


async def preferences(request: PageRequest) -> WholePage:
    """Show who is signed in, and the preferences that the browser keeps."""
    access = request.access
    context = {
        "who": access.label or access.holder,
        "key": access.holder.removeprefix("key:") if access.holder.startswith("key:") else "",
        "everything": access.everything,
        "session": request.session,
        "idle_days": round(IDLE / 86_400),
    }
    return WholePage("layout/preferences.html", say("Preferences"), context, module="preferences")


WORK = frozenset({"use_model", "reembed", "pull_model", "embed"})
"""Operations whose jobs change what search by meaning can find."""

STATES: Mapping[str, tuple[Message, str]] = {
    "open": (say("running"), "ok"),
    "here": (say("ready: it is loaded with the first search"), "ok"),
    "absent": (say("downloaded with the first search"), "warn"),
    "none": (say("keywords only"), "warn"),
}
"""The states of the model in use, and the color of each."""


async def model_list(request: PageRequest) -> WholePage:
    """Show the model in use, all others, and the jobs that work on them."""
    found, status, jobs = await asyncio.gather(
        request.call("list_models"), request.call("model_status"), request.rows("list_jobs", hub="this")
    )
    running = [job for job in jobs if job["status"] == "running" and job["operation"] in WORK]
    current = _current_model(found["results"], status)
    context = {
        "models": found["results"],
        "setting": found["model"],
        "status": status,
        "jobs": running,
        "current": current,
    }
    return WholePage("models/list.html", say("Models"), context)


def _current_model(rows: Sequence[dict[str, Any]], status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the model by which texts are searched, with its state and memory; None if there is none."""
    row = next((each for each in rows if "documents" in (each["used_for"] or ())), None)
    if row is None or status["state"] == "none":
        return None
    words, kind = STATES[status["state"]]
    memory = [each["memory_mb"] for each in status["open"] if each["memory_mb"]]
    note = (
        say("{count} open {count:model|models}", count=len(memory))
        if memory
        else say("none until the first search")
    )
    cache = status.get("cache", {})
    return {
        **row,
        "title": row["name"],
        "state_words": words,
        "state_kind": kind,
        "memory": f"{sum(memory):,.0f} MB" if memory else "",
        "memory_note": note,
        "cache": cache.get("bytes"),
        "cache_limit": cache.get("limit"),
    }


async def use(request: PageRequest) -> Fragment:
    """Change to a model. The answer shows how far the download is."""
    form = await request.form()
    job = await request.call("use_model", model=form.get("model", "").strip())
    return Fragment("models/change.html", _change_context(job), events=("jobs",))


async def change(request: PageRequest) -> Fragment:
    """Show a change, or how far it is."""
    job = await request.call("follow_job", job=request.path("job"), wait=0)
    ended = () if job["status"] == "running" else ("models",)
    return Fragment("models/change.html", _change_context(job), events=ended)


def _change_context(job: dict[str, Any]) -> dict[str, Any]:
    result = job.get("result") if job["status"] == "done" else None
    return {"job": job, "result": result, "error": (job.get("error") or {}).get("message", "")}


ROUTES = (
    PageRoute("/settings", setting_list),
    PageRoute("/settings/restart", status),
    PageRoute("/settings/{name}", setting_row),
    PageRoute("/settings/{name}/form", setting_form),
    PageRoute("/settings/{name}", change_setting, "POST"),
    PageRoute("/models", model_list),
    PageRoute("/models/use", use, "POST"),
    PageRoute("/models/use/{job}", change),
    PageRoute("/preferences", preferences),
)
