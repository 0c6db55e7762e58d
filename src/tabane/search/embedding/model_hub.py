"""Models from the hub: what is missing in the user's cache is downloaded, checked, and stays there.

Files are transferred by a process of its own, which can be ended at any moment. A file goes into the cache's
``.incomplete`` and is continued from there after a break of the line or of the process. It takes its place
only if its checksum is right.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tabane.errors import ModelError, ModelMissing, ModelUnavailable, WorkerError
from tabane.extras import extra_command
from tabane.messages import Message, say
from tabane.search.embedding.model_files import HubPlace, ModelCache, is_model_id, paths_of
from tabane.search.embedding.process_requests import (
    DownloadFailure,
    DownloadRequest,
    DownloadResult,
    DownloadSettings,
    FileRequest,
    HubFile,
    ListRequest,
    ModelListing,
)
from tabane.workers.resident import RequestRefused, ResidentWorker
from tabane.workers.worker import Program, module

LARGEST = 16 * 1024**3
"""Bytes of a model's files together."""

_PROGRAM = module("tabane.search.embedding.worker.downloading")
_SILENCE = 86_400.0  # seconds; another program may hold the lock of a large file for hours
_LONGEST_PAUSE = 60.0

_RESULTS: msgspec.msgpack.Decoder[DownloadResult] = msgspec.msgpack.Decoder(DownloadResult)


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """Progress of a download: the file that grows, and the bytes of all files that are here, and in all."""

    path: str
    here: int
    total: int


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """A model's files in the cache: ``paths`` in ``folder``, which is the commit's."""

    model: str
    commit: str
    folder: str
    paths: tuple[str, ...]


Choose = Callable[[Sequence[str]], Sequence[str]]
"""From the paths of a model to those that are needed. Raises ModelMissing where one is not there."""

Told = Callable[[DownloadProgress], None]


class ModelHub:
    """Downloads models. ``pause`` and ``timeout`` are seconds: after a failure, and for the next bytes.

    ``attempts`` in a row may fail. ``expected`` are paths that must either be present, or be known not to be
    in the model, before the cache counts as complete: other programs download only what they need themselves.
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
        self._pause, self._attempts = pause, attempts
        settings = DownloadSettings(place.endpoint, place.folder, place.token, timeout)
        self._resident = ResidentWorker(
            Program(_PROGRAM, _environment(place.environ)), msgspec.msgpack.encode(settings), silence=_SILENCE
        )

    async def close(self) -> None:
        """End the process. What it is downloading is continued the next time."""
        await self._resident.close()

    def cached(self, model: str, choose: Choose, revision: str = "main") -> ModelSnapshot | None:
        """Return the model from the cache, None if a file is missing. Blocks for a few file names."""
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
            return ModelSnapshot(model, commit, folder, tuple(choose(paths)))
        except ModelMissing:
            return None

    async def get(
        self, model: str, choose: Choose, revision: str = "main", told: Told | None = None
    ) -> ModelSnapshot:
        """Return the model, from the cache if it is complete there, else from the hub.

        A branch stays at the commit that was first downloaded. Raises ModelMissing if the model is not
        available (no such model, offline), ModelUnavailable if the hub does not answer, ModelError if the
        files are not what the hub promised, or cannot be written.
        """
        if not is_model_id(model) or not is_model_id(revision):
            raise ModelMissing(say("{model} is not the name of a model.", model=f"{model}@{revision}"))
        if snapshot := await asyncio.to_thread(self.cached, model, choose, revision):
            return snapshot
        if self.place.offline:
            raise ModelMissing(
                say(
                    "The model {model} is not in the cache. Turn off HF_HUB_OFFLINE and model_offline, "
                    "then download it with: tabane models pull {model}",
                    model=model,
                )
            )
        return await self._fetched(model, choose, revision, told)

    async def _fetched(self, model: str, choose: Choose, revision: str, told: Told | None) -> ModelSnapshot:
        cache = ModelCache(self.place.folder, model)
        # A commit of which some files are here already is completed, not replaced by a newer one.
        listing = await self._ask(model, ListRequest(model, cache.commit(revision) or revision))
        assert isinstance(listing, ModelListing)
        commit, files = listing.commit, {file.path: file for file in listing.files}
        wanted = [files[path] for path in choose(list(files))]
        total = sum(file.size for file in wanted)
        if total > LARGEST:
            raise ModelError(
                say(
                    "The model {model} has {size} {size:byte|bytes}, more than the limit of {limit}.",
                    model=model,
                    size=total,
                    limit=LARGEST,
                )
            )
        before = 0
        for file in wanted:

            def here(size: int, file: HubFile = file, before: int = before) -> None:
                if told is not None:
                    told(DownloadProgress(file.path, before + size, total))

            await self._ask(model, FileRequest(model, commit, file), here)
            here(file.size)
            before += file.size
        try:
            await asyncio.to_thread(self._note, cache, revision, commit, files)
        except OSError as error:
            raise self._unwritable(model, error.strerror or str(error)) from None
        return ModelSnapshot(model, commit, cache.snapshot(commit), tuple(file.path for file in wanted))

    def _note(self, cache: ModelCache, revision: str, commit: str, files: Collection[str]) -> None:
        for path in self._expected:
            if path not in files:
                cache.note_lack(commit, path)
        cache.remember(revision, commit)

    async def _ask(
        self, model: str, request: DownloadRequest, here: Callable[[int], None] | None = None
    ) -> DownloadResult:
        """Ask the process until the hub answers; attempts count from where a file last got further."""
        barren, furthest, body = 0, 0, msgspec.msgpack.encode(request)

        def told(progress: bytes) -> None:
            nonlocal barren, furthest
            size = int.from_bytes(progress, "big")
            if size > furthest:  # a server that breaks off at the same place each time gets no further
                barren, furthest = 0, size
            if here is not None:
                here(size)

        while True:
            result = await self._result(body, told)
            if not isinstance(result, DownloadFailure):
                return result
            if result.kind != "again":
                raise self._error(model, request, result)
            barren += 1
            if barren >= self._attempts:
                raise self._silent(result.reason)
            await asyncio.sleep(min(max(result.pause, self._pause * 2 ** (barren - 1)), _LONGEST_PAUSE))

    async def _result(self, body: bytes, told: Callable[[bytes], None]) -> DownloadResult:
        try:
            return _RESULTS.decode(await self._resident.ask(body, told=told))
        except RequestRefused as error:
            if error.package:
                raise ModelMissing(
                    say("To run embedding models, run: {command}", command=extra_command("models"))
                ) from None
            raise self._silent(error.reason) from None
        except WorkerError as error:
            raise self._silent(error.message) from None

    def _silent(self, reason: str | Message) -> ModelUnavailable:
        return ModelUnavailable(
            say("{endpoint} does not respond: {reason}.", endpoint=self.place.endpoint, reason=reason)
        )

    def _unwritable(self, model: str, reason: str) -> ModelError:
        return ModelError(
            say(
                "The model {model} cannot be stored in {folder}: {reason}.",
                model=model,
                folder=self.place.folder,
                reason=reason,
            )
        )

    def _error(self, model: str, request: DownloadRequest, failure: DownloadFailure) -> ModelError:
        path = request.file.path if isinstance(request, FileRequest) else ""
        if failure.kind == "disk":
            return self._unwritable(model, failure.reason)
        if failure.kind == "listing":
            return ModelError(
                say(
                    "The list of files of {model} is not valid: {reason}.",
                    model=model,
                    reason=failure.reason,
                )
            )
        if failure.kind == "checksum":
            return ModelError(
                say("{path} of {model} has a wrong checksum. Try again.", path=path, model=model)
            )
        if failure.kind == "long":
            return ModelError(say("{path} of {model} is longer than announced.", path=path, model=model))
        endpoint, status = self.place.endpoint, failure.status
        if status in (401, 403):
            return ModelMissing(
                say(
                    "{endpoint} requires a login for {model} (HTTP {status}). Set HF_TOKEN.",
                    endpoint=endpoint,
                    model=model,
                    status=status,
                )
            )
        return ModelMissing(
            say("{endpoint} has no {model} (HTTP {status}).", endpoint=endpoint, model=model, status=status)
        )


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process: this one's, and the proxies and certificates of the hub's."""
    own = {
        "HF_HUB_OFFLINE": "0",  # whether to download is decided here
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**os.environ, **given, **own}
