"""Change of the embedding model: it is downloaded and tried, then set, then texts are embedded again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from tabane.errors import ConfigurationError, HubError
from tabane.hub.process import MODEL_FILE
from tabane.hub.process.settings_operations import ChangeSetting, SettingsOperations
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.sources.models import HubModels
from tabane.hub.sources.models.operations import UsedModel
from tabane.hub.work.jobs import Jobs
from tabane.messages import Message, say
from tabane.operations import Caller, Face, Operation, Privilege, Progress
from tabane.settings import Settings
from tabane.settings.files import read_trusted, write_private

log = logging.getLogger(__name__)


class UseModel(Struct, frozen=True, forbid_unknown_fields=True):
    """``model``: a short name, ``org/name``, a folder, the name at the server of model_url, auto or none."""

    model: Annotated[str, Meta(min_length=1, max_length=300)]


class EmbeddingHub(Protocol):
    """The part of a hub that a change of the model needs."""

    models: HubModels
    embedding: CollectionEmbedder
    jobs: Jobs

    @property
    def settings(self) -> Settings: ...


class ModelUse:
    """The operation. ``resume`` continues what an earlier hub did not finish."""

    def __init__(self, hub: EmbeddingHub, settings: SettingsOperations) -> None:
        self._hub, self._settings = hub, settings

    def table(self) -> list[Operation]:
        return [
            Operation(
                "use_model",
                "Download a model, set it, and embed everything again with it; the earlier vectors serve "
                "until that is done.",
                UseModel,
                self.use,
                frozenset({Face.RPC, Face.CLI}),
                Privilege.ADMIN,
                kind="job",
                title=lambda params: say("Changing the embedding model to {model}", model=params.model),
            )
        ]

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
            job = start(self._hub, model)
        return UsedModel(model, fingerprint, changed["applies"], job=job)


def resume(hub: EmbeddingHub) -> None:
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
        start(hub, model)


def start(hub: EmbeddingHub, model: str) -> str:
    """Embed everything again in a job of the hub, and return its id. Raises HubError."""

    async def work(progress: Progress) -> Any:
        found = await hub.embedding.reembed(progress)
        await asyncio.to_thread(_forget, _mark(hub))
        return found

    title: Message = say("Indexing for semantic search with {model}", model=model)
    return hub.jobs.start("reembed", title, work).key


def _mark(hub: EmbeddingHub) -> Path:
    return hub.settings.home / MODEL_FILE


def _forget(mark: Path) -> None:
    with contextlib.suppress(OSError):
        mark.unlink()
