"""Operations on the settings: each with its source, changes of settings and profiles, and of the model.

The file is replaced in one step with mode 0600. Comments, order and everything else in it stay, and the
previous content is saved beside it as ``….bak``. A change is refused if a hub could not start with it.

A new embedding model is downloaded and tried, then set, then texts are embedded again. A mark in the home
lets the next hub go on with this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.access.permissions import EVERY_TOOL, PermissionPatterns
from tabane.access.profiles import ProfileDefinition, is_profile_name
from tabane.access.table import Patterns
from tabane.errors import BadArguments, ConfigurationError, HubError, TabaneError, UnknownName
from tabane.hub.hub import Hub
from tabane.hub.process import MODEL_FILE
from tabane.hub.process.check_up_operations import CheckUpOperations
from tabane.hub.process.settings_file import Edit, change_file, settings_with
from tabane.hub.servers.configuration import FIXED
from tabane.hub.sources.models.operations import UsedModel
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, NoParameters, Operation, Privilege, Progress
from tabane.settings import OPTIONS, SettingOption, Settings
from tabane.settings.addresses import removed_index
from tabane.settings.editing import file_value, with_value, without_value
from tabane.settings.files import read_trusted, write_private
from tabane.settings.option import InvalidSetting, allowed, shown
from tabane.text.nearest_names import nearest

log = logging.getLogger(__name__)

_BY_NAME = {option.name: option for option in OPTIONS}

SettingName = Annotated[str, Meta(min_length=1, max_length=64)]
ProfileName = Annotated[str, Meta(min_length=1, max_length=64)]
TextValue = Annotated[str, Meta(max_length=10_000)]


class ChangeSetting(Struct, frozen=True, forbid_unknown_fields=True):
    """``value`` is what a person writes, such as "64 MiB"; none removes the setting from the file."""

    name: SettingName
    value: bool | int | float | TextValue | Annotated[list[TextValue], Meta(max_length=1000)] | None = None


class SaveProfile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole profile. Without ``allow``, it narrows by ``deny`` and ``read_only`` alone."""

    name: ProfileName
    allow: Patterns = []
    deny: Patterns = []
    read_only: bool = False
    description: Annotated[str, Meta(max_length=500)] = ""


class RemoveProfile(Struct, frozen=True, forbid_unknown_fields=True):
    name: ProfileName


class SettingsOperations:
    """Lists and changes settings, and changes profiles."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._changing = asyncio.Lock()

    def table(self) -> list[Operation]:
        """Return the operations on settings and profiles."""
        return [
            Operation(
                "list_settings", "Each setting: its value, where that comes from, and what it may be.",
                NoParameters, self.settings, privilege=Privilege.READ,
            ),
            Operation(
                "change_setting", "Change a setting in tabane.toml, or remove it from there.",
                ChangeSetting, self.change,
            ),
            Operation(
                "save_profile", "Create a profile in tabane.toml, or replace it.",
                SaveProfile, self.save,
            ),
            Operation(
                "remove_profile", "Remove a profile from tabane.toml.",
                RemoveProfile, self.remove,
            ),
            Operation(
                "reload_files",
                "Put settings, servers, secrets and trusted projects in force as their files are now.",
                NoParameters, self.take_over,
            ),
        ]  # fmt: skip

    async def settings(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """List the settings. ``pending`` is the value that the next start uses, if that is another one."""
        hub = self._hub
        problem: str | None = None
        try:
            later = await asyncio.to_thread(settings_with, hub.settings, hub.environment, None)
        except TabaneError as error:
            later, problem = hub.settings, error.text(caller.lang)
        rows = [_setting_row(option, hub.settings, later, caller.lang) for option in OPTIONS]
        return {
            "results": rows,
            "file": str(hub.settings.config),
            "problem": problem,
            "restart_needed": any("pending" in row for row in rows),
        }

    async def change(self, caller: Caller, params: ChangeSetting) -> dict[str, Any]:
        """Change one setting. ``applies`` is ``now``, ``restart``, or ``unchanged``."""
        option = self.changeable(params.name)
        if params.value is None:
            path = (option.name,)
            edit, by_hand = _removal_edit(path), say("remove the line {line}", line=option.name)
        else:
            edit, by_hand = _setting_edit(option, params.value)
        changed, problem = await self._edit_file(edit, by_hand, caller.lang)
        hub = self._hub
        later = await asyncio.to_thread(settings_with, hub.settings, hub.environment, None)
        row = _setting_row(option, hub.settings, later, caller.lang)
        applies = "unchanged" if not changed else "restart" if "pending" in row else "now"
        return {"setting": row, "applies": applies, "problem": problem}

    async def save(self, caller: Caller, params: SaveProfile) -> dict[str, Any]:
        """Create or replace a profile. It applies at once, in open sessions too.

        In a group of hubs, it applies at all of them, and the settings file stays as it is.
        """
        if not is_profile_name(params.name):
            raise BadArguments(
                say(
                    "{name} is not the name of a profile: use 1 to 64 letters, digits, - and _.",
                    name=ascii(params.name),
                ),
                "name",
            )
        patterns = PermissionPatterns.checked(
            params.allow or [EVERY_TOOL], params.deny, read_only=params.read_only
        )
        if await self._hub.access.save_profile(
            params.name, ProfileDefinition(params.name, patterns, params.description)
        ):
            return {"status": "saved", "name": params.name, "problem": None}
        given = {
            "description": params.description,
            "allow": params.allow,
            "deny": params.deny,
            "read_only": params.read_only,
        }
        table = {key: value for key, value in given.items() if value or key == "allow"}
        if not params.allow:
            table["allow"] = [EVERY_TOOL]
        edit, by_hand = _profile_edit(params.name, table)
        _, problem = await self._edit_file(edit, by_hand, caller.lang)
        return {"status": "saved", "name": params.name, "problem": problem}

    async def remove(self, caller: Caller, params: RemoveProfile) -> dict[str, Any]:
        """Remove a profile, in a group at all hubs. Who uses it may do nothing from now on."""
        if await self._hub.access.save_profile(params.name, None):
            return {"status": "removed", "name": params.name, "problem": None}
        path = ("profiles", params.name)
        by_hand = say("remove the table [profiles.{name}]", name=params.name)
        changed, problem = await self._edit_file(_removal_edit(path), by_hand, caller.lang)
        if not changed:
            raise UnknownName(
                say("There is no profile {name}. List them with: tabane profiles list", name=params.name)
            )
        return {"status": "removed", "name": params.name, "problem": problem}

    async def take_over(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Put the files in force as they are now. ``problem`` is why they are not."""
        problem = _reload_files(self._hub)
        return {"problem": problem.render(caller.lang) if problem else None}

    def changeable(self, name: str) -> SettingOption:
        """Return the setting. Raises UnknownName, and BadArguments if a change would have no effect."""
        option = _BY_NAME.get(name)
        if option is None:
            near = nearest(name, (each.name for each in OPTIONS if each.in_file))
            raise UnknownName(
                say("There is no setting {name}. Did you mean {near}?", name=name, near=", ".join(near))
                if near
                else say("There is no setting {name}. List them with: tabane settings list", name=name),
                near,
            )
        if not option.in_file:
            raise BadArguments(
                say(
                    "{name} cannot be set in tabane.toml. Use {flag} or {variable}.",
                    name=name,
                    flag=option.flag,
                    variable=option.environment,
                ),
                "name",
            )
        source = self._hub.settings.sources.get(name)
        if source is not None and source.kind == "flag":
            raise BadArguments(
                say(
                    "{name} is set by the flag {where} of the running hub, which comes before tabane.toml. "
                    "Restart the hub without it: tabane stop, then tabane start",
                    name=name,
                    where=source.where,
                ),
                "name",
            )
        if source is not None and source.kind == "environment":
            raise BadArguments(
                say(
                    "{name} is set by the environment variable {where}, which comes before tabane.toml. "
                    "Remove the variable, then run: tabane restart",
                    name=name,
                    where=source.where,
                ),
                "name",
            )
        return option

    async def _edit_file(self, edit: Edit, by_hand: Message, lang: Lang) -> tuple[bool, str | None]:
        """Edit the file and put it in force. Return whether it changed, and why it is not in force."""
        async with self._changing:
            hub = self._hub
            changed = await asyncio.to_thread(change_file, hub.settings, hub.environment, edit, by_hand)
            problem = _reload_files(self._hub) if changed else None
        return changed, problem.render(lang) if problem else None


def _reload_files(hub: Hub) -> Message | None:
    """Read the files again, and return why they are not in force."""
    hub.follower.now()
    return hub.follower.problem


def _setting_edit(option: SettingOption, given: object) -> tuple[Edit, Message]:
    try:
        value = file_value(option, given)
    except InvalidSetting as unfit:
        raise BadArguments(
            say("{name} must be {allowed}.", name=option.name, allowed=unfit.allowed), "value"
        ) from None
    if option.name == "vector_index" and (removed := removed_index(str(value))):
        raise BadArguments(removed, "value")
    by_hand = say("set {name} to {value}", name=option.name, value=str(value))
    return lambda text: with_value(text, (option.name,), value), by_hand


def _profile_edit(name: str, table: Mapping[str, Any]) -> tuple[Edit, Message]:
    by_hand = say("write the table [profiles.{name}]", name=name)
    return lambda text: with_value(text, ("profiles", name), table), by_hand


def _removal_edit(path: tuple[str, ...]) -> Edit:
    def remove(text: str) -> str:
        try:
            return without_value(text, path)
        except KeyError:
            return text  # it is not there

    return remove


def _setting_row(option: SettingOption, settings: Settings, later: Settings, lang: Lang) -> dict[str, Any]:
    """Return a setting for a form. ``value`` and ``default`` are as a person writes them."""
    source = settings.sources.get(option.name) or later.sources.get(option.name)
    kind = source.kind if source else "default"
    value, next_value = getattr(settings, option.name), getattr(later, option.name)
    row = {
        "name": option.name,
        "value": _shown_value(option, value),
        "default": option.default.render(lang)
        if isinstance(option.default, Message)
        else _shown_value(option, option.default),
        "kind": option.kind,
        "choices": list(option.choices),
        "allowed": allowed(option).render(lang),
        "unit": option.unit.render(lang) if option.unit else None,
        "source": kind,
        "where": source.where if source else "",
        "help": option.help.render(lang),
        "flag": option.flag,
        "variable": option.environment,
        "changeable": option.in_file and kind in ("file", "default"),
        "restart": option.name in FIXED,
    }
    if option.kind in ("whole", "number", "bytes"):
        row |= {"lowest": shown(option, option.lowest), "highest": shown(option, option.highest)}
    if value != next_value:
        row["pending"] = _shown_value(option, next_value)
    return row


def _shown_value(option: SettingOption, value: object) -> str:
    if option.kind == "bytes" and isinstance(value, int):
        return shown(option, value)
    return "" if value is None else shown(option, value)


class UseModel(Struct, frozen=True, forbid_unknown_fields=True):
    """``model``: a short name, ``org/name``, a folder, the name at the server of model_url, auto or none."""

    model: Annotated[str, Meta(min_length=1, max_length=300)]


class ModelUse:
    """The operation. :func:`resume_reembedding` continues what an earlier hub did not finish."""

    def __init__(self, hub: Hub, settings: SettingsOperations) -> None:
        self._hub, self._settings = hub, settings

    def table(self) -> list[Operation]:
        """Return the operation that changes the embedding model."""
        return [
            Operation(
                "use_model",
                "Download a model, set it, and embed everything again with it; the earlier vectors serve "
                "until that is done.",
                UseModel, self.use, kind="job",
                title=lambda params: say("Changing the embedding model to {model}", model=params.model),
            )
        ]  # fmt: skip

    async def use(self, caller: Caller, params: UseModel, progress: Progress) -> UsedModel:
        """Change the model. ``job`` is the job that embeds texts again, None if there is no model.

        Nothing is changed before the model has been loaded. Raises UnknownName, BadArguments, ModelError and
        its kinds, and ConfigurationError.
        """
        self._settings.changeable("model")
        model, fingerprint = await self._hub.models.prepare(params.model, progress)
        changed = await self._settings.change(caller, ChangeSetting("model", model))
        if changed["problem"]:
            return UsedModel(model, fingerprint, changed["applies"], changed["problem"])
        if changed["applies"] == "now":
            # What was being embedded with the earlier model would be embedded again.
            await self._hub.jobs.cancel_all("embed")
        job = None
        if fingerprint is not None:
            await asyncio.to_thread(write_private, _mark(self._hub), model.encode())
            job = start_reembedding(self._hub, model)
        return UsedModel(model, fingerprint, changed["applies"], job=job)


def resume_reembedding(hub: Hub) -> None:
    """Continue to embed texts again, if an earlier hub did not finish, and the model is still the same."""
    mark = _mark(hub)
    try:
        model = read_trusted(mark).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except (OSError, ConfigurationError) as error:
        log.warning("%s cannot be read: %s", mark, error)
        return
    if model != hub.settings.model:
        _forget(mark)
        return
    with contextlib.suppress(HubError):
        start_reembedding(hub, model)


def start_reembedding(hub: Hub, model: str) -> str:
    """Embed everything again in a job of the hub, and return its id. Raises HubError."""

    async def work(progress: Progress) -> Any:
        found = await hub.embedding.reembed(progress)
        await asyncio.to_thread(_forget, _mark(hub))
        return found

    title: Message = say("Indexing for semantic search with {model}", model=model)
    return hub.jobs.start("reembed", title, work).key


def _mark(hub: Hub) -> Path:
    return hub.settings.home / MODEL_FILE


def _forget(mark: Path) -> None:
    with contextlib.suppress(OSError):
        mark.unlink()


def process_operations(hub: Hub) -> Iterator[Operation]:
    """Yield the operations of a hub that runs as a process: on its settings, its model and its health."""
    settings = SettingsOperations(hub)
    yield from settings.table()
    yield from ModelUse(hub, settings).table()
    yield from CheckUpOperations(hub).table()
