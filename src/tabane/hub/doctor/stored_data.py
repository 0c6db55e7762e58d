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
from tabane.search.embedding.cached import VectorCache


def roots(installation: Installation) -> Iterator[DoctorFinding]:
    """Whether the folders are there that assistants may put files from."""
    for root in installation.settings.documents_roots:
        path = Path(root).expanduser()
        if not path.is_dir():
            yield warning(
                say("{path}, a folder from which assistants may save files, is not a folder", path=path),
                say("Create the folder, or remove it from the setting documents_roots"),
            )


def watched(installation: Installation) -> Iterator[DoctorFinding]:
    """Whether the documents of watched folders are in step with them, as the hub that watches them says."""
    for row in installation.live.watched if installation.live else ():
        path = row["path"]
        if row["problem"]:
            yield warning(
                say(
                    "The documents of the watched folder {path} are not up to date: {problem}",
                    path=path,
                    problem=row["problem"],
                ),
                say("Or stop watching it: tabane docs watch --remove {path}", path=path),
            )
        else:
            yield ok(say("{path} is watched; its documents are up to date", path=path))


def model(installation: Installation) -> Iterator[DoctorFinding]:
    """Which model there is, as the hub says, or as it is found where none runs. Nothing is fetched."""
    told = installation.live.model if installation.live else _model_without_hub(installation)
    if told is None:
        return  # a hub of a version without models
    show = say("Details: tabane models show")
    if told["model"] == "none":
        yield note(say("Search matches keywords only: the setting model is none"))
    elif told["state"] == "none":
        yield warning(say("Search matches keywords only. {reason}", reason=told["reason"]), show)
    elif told["state"] == "absent":
        yield note(
            say(
                "The embedding model {model} is not downloaded yet. It is downloaded when it is needed",
                model=told["id"],
            ),
            say("Download it now: tabane models pull"),
        )
    else:
        yield ok(say("Semantic search: {model}, from {where}", model=told["id"], where=told["where"]))


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
    again = say("Rebuild it: tabane doctor --fix")
    fix = installation.live.mend_stores if installation.live else partial(_mend, installation)
    if row["state"] == "stale":
        names = ", ".join(row["collections"])
        title = say("Derived data in {path} does not match its records: {names}", path=path, names=names)
        return warning(title, again, fix)
    if row["state"] == "damaged" and row["derived"]:
        return warning(say("{error}. It is rebuilt without loss.", error=row["error"]), again, fix)
    if row["state"] in ("damaged", "unreadable"):
        return fault(say("{error}", error=row["error"]))
    return ok(say("{path} is not damaged", path=path))


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
