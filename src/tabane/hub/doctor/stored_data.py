"""Checks of what is stored: folders of documents, the embedding model, and the stores."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tabane.hub import collections
from tabane.hub.doctor.installation import DoctorFinding, Installation, fault, note, ok, warning
from tabane.hub.models import HubModels
from tabane.hub.stores import Stores
from tabane.messages import language, say
from tabane.search.embedding.embedder import VectorCache


def roots(installation: Installation) -> Iterator[DoctorFinding]:
    """Whether the folders are there that assistants may put files from."""
    for root in installation.settings.documents_roots:
        path = Path(root).expanduser()
        if not path.is_dir():
            yield warning(
                say("{path}, from which assistants may put files, is no folder", path=path),
                say("Make it, or take it out of the setting documents_roots"),
            )


def watched(installation: Installation) -> Iterator[DoctorFinding]:
    """Whether the documents of watched folders are in step with them, as the hub that watches them says."""
    for row in installation.live.watched if installation.live else ():
        path = row["path"]
        if row["problem"]:
            yield warning(
                say("The watched folder {path} is not in step: {problem}", path=path, problem=row["problem"]),
                say("Or watch it no longer: tabane docs watch --remove {path}", path=path),
            )
        else:
            yield ok(say("{path} is watched; its documents are in step", path=path))


def model(installation: Installation) -> Iterator[DoctorFinding]:
    """Which model there is, as the hub says, or as it is found where none runs. Nothing is fetched."""
    told = installation.live.model if installation.live else _model_without_hub(installation)
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


class _UnopenedVectors:
    """What was embedded is for the hub alone to open."""

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        return


def _model_without_hub(installation: Installation) -> Mapping[str, Any]:
    async def kept() -> VectorCache:
        return _UnopenedVectors()

    async def look() -> Mapping[str, Any]:
        models = HubModels(lambda: installation.settings, installation.environ, kept)
        try:
            return await models.report(language(installation.settings.lang, *_locales(installation.environ)))
        finally:
            await models.close()

    return asyncio.run(look())


def _locales(environ: Mapping[str, str]) -> Iterator[str | None]:
    return (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))


def stores(installation: Installation) -> Iterator[DoctorFinding]:
    """How each store is, as the hub that has it open says, or as it is found where none runs."""
    rows = installation.live.stores if installation.live else _check_stores(installation, mend=False)
    for row in rows:
        yield _store_finding(installation, row)


def _store_finding(installation: Installation, row: dict[str, Any]) -> DoctorFinding:
    path = row["path"]
    again = say("Make it anew: tabane doctor --fix")
    fix = installation.live.mend_stores if installation.live else partial(_mend, installation)
    if row["state"] == "stale":
        names = ", ".join(row["collections"])
        title = say(
            "What is derived in {path} does not agree with its records: {names}", path=path, names=names
        )
        return warning(title, again, fix)
    if row["state"] == "damaged" and row["derived"]:
        return warning(say("{error}. All that was in it is made again.", error=row["error"]), again, fix)
    if row["state"] in ("damaged", "unreadable"):
        return fault(say("{error}", error=row["error"]))
    return ok(say("{path} is whole", path=path))


def _check_stores(installation: Installation, *, mend: bool) -> list[dict[str, Any]]:
    async def look() -> list[dict[str, Any]]:
        found = Stores(installation.settings.home, collections.SHAPES)
        try:
            return await found.check(mend=mend)
        finally:
            await found.close()

    before = os.umask(0o077)
    try:
        return asyncio.run(look())
    finally:
        os.umask(before)


def _mend(installation: Installation) -> None:
    _check_stores(installation, mend=True)
