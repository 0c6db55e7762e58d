"""Checks of the embedding model: whether texts are found by their meaning, and why not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tabane.hub.doctor.finding import Finding, note, ok, warning
from tabane.hub.doctor.patient import Patient
from tabane.hub.models import HubModels
from tabane.messages import language, say
from tabane.search.embedding.cached import VectorCache


def model(patient: Patient) -> Iterator[Finding]:
    """Which model there is, as the hub says, or as it is found where none runs. Nothing is fetched."""
    told = patient.live.model if patient.live else _looked_at(patient)
    if told is None:
        return  # a hub of a version without models
    show = say("See more: tabane models show")
    if told["model"] == "none":
        yield note(say("Search is by words alone: the setting model is none"))
    elif told["state"] == "none":
        yield warning(say("Search is by words alone. {reason}", reason=told["reason"]), show)
    elif told["state"] == "absent":
        yield note(
            say("The embedding model {model} is not here yet; it is fetched when needed", model=told["id"]),
            say("Fetch it now: tabane models pull"),
        )
    else:
        yield ok(say("Search by meaning: {model}, from {where}", model=told["id"], where=told["where"]))


class _Unopened:
    """What was embedded is for the hub alone to open."""

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        return


def _looked_at(patient: Patient) -> Mapping[str, Any]:
    async def kept() -> VectorCache:
        return _Unopened()

    async def look() -> Mapping[str, Any]:
        models = HubModels(lambda: patient.settings, patient.environ, kept)
        try:
            return await models.report(language(patient.settings.lang, *_locales(patient.environ)))
        finally:
            await models.close()

    return asyncio.run(look())


def _locales(environ: Mapping[str, str]) -> Iterator[str | None]:
    return (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
