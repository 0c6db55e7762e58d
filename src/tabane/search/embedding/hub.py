"""Models from the hub: what is missing in the user's cache is fetched, checked, and stays there.

A file is fetched into the cache's ``.incomplete`` and goes on from there after a break, of the line or
of the process; it takes its place only when its checksum is right.
"""

from __future__ import annotations

import asyncio
import os
import re
import urllib.parse
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from tabane.errors import ModelError, ModelMissing
from tabane.messages import say
from tabane.search.embedding.fetching import Fetching, Remote, held
from tabane.search.embedding.folders import paths_of
from tabane.search.embedding.hub_cache import HubPlace, ModelCache, is_model_id

LARGEST = 16 * 1024**3
"""Bytes of a model's files together."""

_LONGEST_LISTING = 32 * 1024 * 1024
_CHECKSUM = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a download: the file that grows, and the bytes of all files that are here, and that there are."""

    path: str
    here: int
    total: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model's files in the cache: ``paths`` in ``folder``, which is the commit's."""

    model: str
    commit: str
    folder: str
    paths: tuple[str, ...]


class _Large(msgspec.Struct):
    sha256: str = ""


class _Sibling(msgspec.Struct):
    rfilename: str
    size: int = 0
    blobId: str = ""
    lfs: _Large | None = None


class _Listing(msgspec.Struct):
    sha: str
    siblings: list[_Sibling]


Choose = Callable[[Sequence[str]], Sequence[str]]
"""From the paths of a model to those that are needed. Raises ModelMissing where one is not there."""

Told = Callable[[Progress], None]


class Hub:
    """Gets models. ``pause`` and ``timeout`` are seconds: after a failure, and for the next bytes.

    ``attempts`` in a row may fail. ``expected`` are paths that either are there, or are known not to be
    in the model, before its cache counts as whole: other programs fetch only what they need themselves.
    """

    def __init__(
        self,
        place: HubPlace,
        *,
        pause: float = 0.5,
        timeout: float = 60.0,
        attempts: int = 5,
        expected: Sequence[str] = (),
    ) -> None:
        self.place = place
        self._expected = tuple(expected)
        self._fetching = Fetching(place, pause, timeout, attempts)

    async def close(self) -> None:
        await self._fetching.close()

    def cached(self, model: str, choose: Choose, revision: str = "main") -> Snapshot | None:
        """The model as the cache has it, None where a file is missing. Blocks for a few file names."""
        cache = ModelCache(self.place.folder, model)
        commit = cache.commit(revision)
        if commit is None or not os.path.isdir(cache.snapshot(commit)):
            return None
        folder = cache.snapshot(commit)
        paths = paths_of(folder)
        unknown = [path for path in self._expected if path not in paths and not cache.lacks(commit, path)]
        if unknown and not self.place.offline:
            return None
        try:
            return Snapshot(model, commit, folder, tuple(choose(paths)))
        except ModelMissing:
            return None

    async def get(
        self, model: str, choose: Choose, revision: str = "main", told: Told | None = None
    ) -> Snapshot:
        """The model, from the cache where it is whole there, else from the hub.

        A branch stays at the commit that it was first fetched at. Raises ModelMissing where it is not
        to be had (no such model, offline), ModelUnavailable where the hub does not answer, ModelError
        where what came is not what was promised, or the disk refuses it.
        """
        if not is_model_id(model) or not is_model_id(revision):
            raise ModelMissing(say("{model} is not the name of a model.", model=f"{model}@{revision}"))
        if snapshot := await asyncio.to_thread(self.cached, model, choose, revision):
            return snapshot
        if self.place.offline:
            raise ModelMissing(
                say(
                    "The model {model} is not in the cache. Fetch it, without HF_HUB_OFFLINE and "
                    "model_offline, with: tabane models pull {model}",
                    model=model,
                )
            )
        try:
            return await self._fetched(model, choose, revision, told)
        except OSError as error:
            raise ModelError(
                say(
                    "The model {model} cannot be kept in {folder}: {reason}.",
                    model=model,
                    folder=self.place.folder,
                    reason=error.strerror or error,
                )
            ) from None

    async def _fetched(self, model: str, choose: Choose, revision: str, told: Told | None) -> Snapshot:
        cache = ModelCache(self.place.folder, model)
        # A commit of which some files are here already is completed, not replaced by a newer one.
        commit, files = await self._listing(model, cache.commit(revision) or revision)
        wanted = [files[path] for path in choose(list(files))]
        total = sum(file.size for file in wanted)
        if total > LARGEST:
            raise ModelError(
                say(
                    "The model {model} has {size} bytes; at most {limit} are fetched.",
                    model=model,
                    size=total,
                    limit=LARGEST,
                )
            )
        before = 0
        for file in wanted:

            def here(size: int, file: Remote = file, before: int = before) -> None:
                if told is not None:
                    told(Progress(file.path, before + size, total))

            await self._file(model, commit, cache, file, here)
            before += file.size
        await asyncio.to_thread(self._note, cache, revision, commit, files)
        return Snapshot(model, commit, cache.snapshot(commit), tuple(file.path for file in wanted))

    def _note(self, cache: ModelCache, revision: str, commit: str, files: Collection[str]) -> None:
        for path in self._expected:
            if path not in files:
                cache.note_lack(commit, path)
        cache.remember(revision, commit)

    async def _file(
        self, model: str, commit: str, cache: ModelCache, file: Remote, here: Callable[[int], None]
    ) -> None:
        blob = cache.blob(file.checksum)
        os.makedirs(os.path.dirname(blob), exist_ok=True)
        async with held(os.path.join(cache.locks, f"{file.checksum}.lock")):
            if not await asyncio.to_thread(os.path.exists, blob):
                path = f"/{model}/resolve/{commit}/{urllib.parse.quote(file.path)}"
                await self._fetching.download(model, path, file, blob, here)
        here(file.size)
        await asyncio.to_thread(cache.link, commit, file.path, file.checksum)

    async def _listing(self, model: str, revision: str) -> tuple[str, dict[str, Remote]]:
        path = f"/api/models/{model}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
        try:
            body = await self._fetching.read(model, path, _LONGEST_LISTING)
            listing = msgspec.json.decode(body, type=_Listing)
            if not re.fullmatch(r"[0-9a-f]{40}", listing.sha):
                raise ValueError(f"commit {listing.sha[:80]!r}")
            files = [_remote(sibling) for sibling in listing.siblings]
        except (msgspec.DecodeError, ValueError) as error:
            raise ModelError(
                say(
                    "The hub's list of the files of {model} does not fit: {reason}.",
                    model=model,
                    reason=error,
                )
            ) from None
        return listing.sha, {file.path: file for file in files}


def _remote(sibling: _Sibling) -> Remote:
    """Raises ValueError where its path leads elsewhere, or it has no checksum."""
    path, checksum = sibling.rfilename, sibling.lfs.sha256 if sibling.lfs else sibling.blobId
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"path {path[:80]!r}")
    if not _CHECKSUM.fullmatch(checksum) or sibling.size < 0:
        raise ValueError(f"checksum of {path[:80]!r}")
    return Remote(path, sibling.size, checksum)
