"""Reports on the models: the list of those that Tabane knows, with their use, speed and quality; and the
status: sources, running processes, and reasons if there is no model.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from tabane.errors import StoreError, TabaneError
from tabane.hub.sources.models.model_opener import HubReranker, ModelOpener
from tabane.hub.sources.models.model_records import ModelSpeed, TimedEmbedder
from tabane.hub.sources.models.model_sources import ModelSources, source_of
from tabane.messages import Lang, Message, say
from tabane.search.embedding.embedder import CachedEmbedder, NoModel, VectorCache
from tabane.search.embedding.model_finder import FoundModel, ModelChoice
from tabane.search.embedding.model_packages import KNOWN_MODELS, KnownModel
from tabane.search.embedding.process import LocalEmbedder
from tabane.settings import Settings


class MissingModel(Struct, frozen=True):
    """A model that made the vectors of a collection and cannot be used. ``problem`` says what to do."""

    collection: str
    model: str
    problem: str


def missing_model(name: str, title: Message, model: str, why: Message | str, lang: Lang) -> MissingModel:
    """Return the row. ``why`` is the id of a model that can be downloaded, or another reason."""
    model = model.partition("#")[0]
    values = {"title": title, "name": name, "model": model}
    if isinstance(why, str):
        problem = say(
            "Vectors of {title} were made with the model {model}, which is not on this machine, so they are "
            "searched by keywords only. Install the model: tabane models pull {model}, or embed them again "
            "with another one: tabane models reembed --collection {name}",
            **values,
        )
    else:
        problem = say(
            "Vectors of {title} were made with the model {model}, so they are searched by keywords only: "
            "{reason} To embed them again with another model, run: tabane models reembed --collection {name}",
            reason=why,
            **values,
        )
    return MissingModel(name, model, problem.render(lang))


def former_model(title: Message, model: str, wanted: str, lang: Lang) -> str:
    """Return what to say of a collection whose vectors are of ``model``, if the settings' is ``wanted``."""
    return say(
        "Vectors of {title} were made with the model {model}, which is still used to search them. To use "
        "{wanted}, run: tabane models reembed",
        title=title,
        model=model.partition("#")[0],
        wanted=wanted,
    ).render(lang)


async def report(
    settings: Settings,
    opening: ModelOpener,
    judge: HubReranker,
    kept: Callable[[], Awaitable[VectorCache]],
    lang: Lang,
) -> dict[str, Any]:
    """Return all that is known about the models, without downloading or starting any.

    ``state`` is ``open`` (this hub has used it), ``here`` (it is opened on first use), ``absent`` (it is
    downloaded then) or ``none``, with the ``reason``.
    """
    row: dict[str, Any] = {"model": settings.model, **await _model(opening, lang)}
    row["open"] = [_process(each.name, _pid(each.thing)) for each in opening.shelf.standing]
    row["reranker"] = settings.reranker
    if judge.open is not None:
        row["reranker_open"] = _process(judge.open.name, judge.open.thing.pid)
    row["cache"] = {"limit": settings.embedding_cache}
    with contextlib.suppress(StoreError):
        if (size := getattr(await kept(), "size", None)) is not None:
            row["cache"]["bytes"] = size
    return row


async def _model(opening: ModelOpener, lang: Lang) -> dict[str, Any]:
    try:
        sources = await opening.sources()
        choice = await sources.wanted()
        chosen = opening.chosen(choice)
        opened_model = opening.shelf.get(chosen) if chosen else None
        model = opened_model.source if opened_model else await sources.look(choice)
    except TabaneError as error:
        return {"state": "none", "reason": error.text(lang)}
    except OSError as error:
        return {"state": "none", "reason": f"{error.filename}: {error.strerror}"}
    if isinstance(model, str):
        return {"state": "absent", "id": model}
    if isinstance(model, NoModel):
        return {"state": "none", "reason": model.reason.render(lang)}
    source, where = source_of(choice, model)
    recipe = model.recipe
    row = {
        "state": "open" if chosen else "here",
        "id": recipe.model,
        "revision": recipe.revision,
        "source": source,
        "where": where,
        "loader": model.spec.loader if model.spec else None,
        "quantisation": recipe.quantisation,
        "pooling": recipe.pooling.value,
        "max_tokens": recipe.max_tokens,
        "query_prefix": recipe.query,
        "document_prefix": recipe.document,
    }
    record = (await opening.records.all()).get(chosen) if chosen else None
    return row | ({"fingerprint": chosen, "dimension": record.dimension} if record else {})


def _pid(embedder: CachedEmbedder) -> int | None:
    """Return the process that runs it; None if none does now, or a server runs it."""

    timed = embedder.embedder
    local = timed.embedder if isinstance(timed, TimedEmbedder) else timed
    return local.pid if isinstance(local, LocalEmbedder) else None


def _process(name: str, pid: int | None) -> dict[str, Any]:
    return {"model": name, "pid": pid, "memory_mb": memory_of(pid) if pid else None}


def memory_of(pid: int) -> float | None:
    """Return the megabytes that a process uses; None if the platform does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
        return round(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    return None


async def model_list(
    settings: Settings, opening: ModelOpener, tools: Iterable[str], lang: Lang
) -> dict[str, Any]:
    """Return a row for each model, without downloading or starting any.

    ``tools`` are the fingerprints of the models by which tools are compared. A model of the settings that is
    not among those that Tabane knows has the last row.
    """
    sources = await opening.sources()
    chosen, source = await _chosen(sources)
    used: dict[str, set[str | None]] = {
        "documents": {chosen},
        "tools": {name.partition("#")[0] for name in tools},
    }
    speeds = {name.partition("#")[0]: speed for name, speed in (await opening.speeds.all()).items()}
    rows = [
        _known(model, lang) | {"here": await _here(sources, model), **_usage(model.id, used, speeds)}
        for model in KNOWN_MODELS
    ]
    if chosen is not None and all(row["id"] != chosen for row in rows):
        unknown = dict.fromkeys(rows[0]) | {
            "id": chosen,
            "name": chosen,
            "origin": source_of(*source)[0] if source else "hub",
            "quality": dict.fromkeys(rows[0]["quality"]),
            "here": source is not None,
        }
        rows.append(unknown | _usage(chosen, used, speeds))
    return {"model": settings.model, "results": rows}


async def _chosen(sources: ModelSources) -> tuple[str | None, tuple[ModelChoice, FoundModel] | None]:
    """Return the id of the model of the settings, and the model if it is here; None if there is none."""
    try:
        choice = await sources.wanted()
        source = await sources.look(choice)
    except (TabaneError, OSError):
        return None, None
    if isinstance(source, NoModel):
        return None, None
    return (source, None) if isinstance(source, str) else (source.recipe.model, (choice, source))


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


def _usage(
    model: str, used: Mapping[str, set[str | None]], speeds: Mapping[str, ModelSpeed]
) -> dict[str, Any]:
    speed = speeds.get(model, ModelSpeed())
    return {
        "used_for": [purpose for purpose, models in used.items() if model in models],
        "query_ms": speed.query_ms or None,
        "texts_per_second": speed.texts_per_second or None,
    }
