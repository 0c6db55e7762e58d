"""List of the models that Tabane knows: which are here, which are used, how fast and how good they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tabane.errors import TabaneError
from tabane.hub.sources.models.model_opener import ModelOpener
from tabane.hub.sources.models.model_sources import ModelSources, source_of
from tabane.hub.sources.models.model_speeds import ModelSpeed
from tabane.messages import Lang
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_finder import FoundModel, ModelChoice
from tabane.search.embedding.model_table import KNOWN_MODELS, KnownModel
from tabane.settings import Settings


async def model_list(
    settings: Settings, opening: ModelOpener, tools: Iterable[str], lang: Lang
) -> dict[str, Any]:
    """Return a row for each model, without downloading or starting any.

    ``tools`` are the fingerprints of the models by which tools are compared. A model of the settings that is
    not among those that Tabane knows has the last row.
    """
    sources = await opening.sources()
    chosen, found = await _chosen(sources)
    used: dict[str, set[str | None]] = {
        "documents": {chosen},
        "tools": {name.partition("#")[0] for name in tools},
    }
    speeds = {name.partition("#")[0]: speed for name, speed in (await opening.speeds.all()).items()}
    rows = [
        _known(model, lang)
        | {"here": await _here(sources, model), **_use(model.id, used), **_speed(model.id, speeds)}
        for model in KNOWN_MODELS
    ]
    if chosen is not None and all(row["id"] != chosen for row in rows):
        rows.append(_own(chosen, found) | _use(chosen, used) | _speed(chosen, speeds))
    return {"model": settings.model, "results": rows}


async def _chosen(sources: ModelSources) -> tuple[str | None, tuple[ModelChoice, FoundModel] | None]:
    """Return the id of the model of the settings, and the model if it is here; None if there is none."""
    try:
        wanted = await sources.wanted()
        found = await sources.look(wanted)
    except (TabaneError, OSError):
        return None, None
    if isinstance(found, NoModel):
        return None, None
    return (found, None) if isinstance(found, str) else (found.recipe.model, (wanted, found))


async def _here(sources: ModelSources, model: KnownModel) -> bool:
    try:
        async with sources.finder(offline=True) as finder:
            return isinstance(await finder.find(ModelChoice(model.id)), FoundModel)
    except (TabaneError, OSError):
        return False


def _known(model: KnownModel, lang: Lang) -> dict[str, Any]:
    return {
        "id": model.id,
        "name": model.name,
        "languages": model.languages.render(lang),
        "megabytes": model.megabytes,
        "dimension": model.dimension,
        "license": model.license,
        "origin": model.origin,
        "good_for": model.good_for.render(lang),
        "quality": {
            "jaquad_ndcg": model.quality.jaquad,
            "paraphrases": model.quality.paraphrases,
            "tools": model.quality.tools,
        },
    }


def _own(model: str, found: tuple[ModelChoice, FoundModel] | None) -> dict[str, Any]:
    """Return the row of a model that the user has chosen, of which Tabane knows nothing."""
    return {
        "id": model,
        "name": model,
        "languages": None,
        "megabytes": None,
        "dimension": None,
        "license": None,
        "origin": source_of(*found)[0] if found else "hub",
        "good_for": None,
        "quality": {"jaquad_ndcg": None, "paraphrases": None, "tools": None},
        "here": found is not None,
    }


def _use(model: str, used: Mapping[str, set[str | None]]) -> dict[str, Any]:
    return {"used_for": [what for what, models in used.items() if model in models]}


def _speed(model: str, speeds: Mapping[str, ModelSpeed]) -> dict[str, Any]:
    speed = speeds.get(model, ModelSpeed())
    return {"query_ms": speed.query_ms or None, "texts_per_second": speed.texts_per_second or None}
