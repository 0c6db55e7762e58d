"""Settings with value, source and help, the reader's preferences, and the embedding models."""

from __future__ import annotations

import asyncio
from typing import Any

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.messages import say
from tabane.settings.groups import GROUPS, group_of
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, WholePage


async def setting_list(request: PageRequest) -> WholePage:
    """Show all settings in groups."""
    found = await request.call("list_settings")
    groups: dict[str, list[dict[str, Any]]] = {group.code: [] for group in GROUPS}
    for row in found["results"]:
        groups[group_of(row["name"]).code].append(row)
    context = {
        "sections": [(each.code, each.title, groups[each.code]) for each in GROUPS if groups[each.code]],
        "file": found["file"],
        "problem": found["problem"],
        "restart_needed": found["restart_needed"],
        "restartable": await _can_restart(request),
        "q": request.query.get("q", ""),
    }
    return WholePage("settings/list.html", say("Settings"), context, module="settings")


async def setting_row(request: PageRequest) -> Fragment:
    """Show one setting as it is."""
    return Fragment("settings/row.html", {"row": await _find_setting(request), "done": None})


async def setting_form(request: PageRequest) -> Fragment:
    """Show the form of one setting."""
    row = await _find_setting(request)
    context = {"row": row, "value": row.get("pending", row["value"]), "error": ""}
    return Fragment("settings/form.html", context)


async def change_setting(request: PageRequest) -> PageAnswer:
    """Change a setting in the settings file, or remove it from there."""
    name, form = request.path("name"), await request.form()
    value: Any = form.get("value", "")
    row = await _find_setting(request)
    if row["kind"] == "list":
        value = [line.strip() for line in value.split("\n") if line.strip()]
    if row["kind"] == "path" and not value:
        value = None
    if "reset" in form:
        value = None
    try:
        done = await request.call("change_setting", name=name, value=value)
    except (BadArguments, ConfigurationError) as error:
        context = {"row": row, "value": form.get("value", ""), "error": error.text(request.lang)}
        return Fragment("settings/form.html", context, status=422)
    return Fragment("settings/row.html", {"row": done["setting"], "done": done}, events=("settings",))


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
    return row


async def _can_restart(request: PageRequest) -> bool:
    """Return whether the hub can restart itself, and the caller may ask for that."""
    if not (request.may("restart_hub") and request.may("hub_status")):
        return False
    return bool((await request.call("hub_status")).get("restartable"))


async def preferences(request: PageRequest) -> WholePage:
    """Show the preferences."""
    context = {"who": request.access.label or request.access.holder}
    return WholePage("layout/preferences.html", say("Preferences"), context, module="preferences")


WORK = frozenset({"use_model", "reembed", "pull_model", "embed"})
"""Operations whose jobs change what search by meaning can find."""


async def model_list(request: PageRequest) -> WholePage:
    """Show all models, the one in use, and the jobs that work on them."""
    found, status, jobs = await asyncio.gather(
        request.call("list_models"), request.call("model_status"), request.rows("list_jobs", hub="this")
    )
    running = [job for job in jobs if job["status"] == "running" and job["operation"] in WORK]
    context = {"models": found["results"], "setting": found["model"], "status": status, "jobs": running}
    return WholePage("models/list.html", say("Models"), context)


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
