"""Models from the hub of models or from a package index: downloaded or installed, checked, and kept.

Files are transferred by a process of its own, which can be ended at any moment. A file goes into the
cache's ``.incomplete`` and is continued from there after a break of the line or of the process. It takes
its place only if its checksum is right.

Installation of a model's package into a folder of its own, by the installer that the user has. uv or pip
is run, so that the user's index, proxy and certificates are used. It gets one release with all of its
hashes, and no dependencies; nothing is built. It works in a temporary folder, which takes its place in
one step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tabane.errors import ModelError, ModelMissing, ModelUnavailable, WorkerError
from tabane.extras import extra_command
from tabane.messages import Message, say
from tabane.search.embedding.model_files import HubPlace, ModelCache, importable, is_model_id, paths_of
from tabane.search.embedding.model_packages import (
    FOLDER,
    ModelPackage,
    PackedModel,
    find_packed_model,
    place_of,
)
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


def models_extra_missing() -> ModelMissing:
    """Return the error where the packages that download and run models are not installed."""
    return ModelMissing(say("To run embedding models, run: {command}", command=extra_command("models")))


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
        own = {
            "HF_HUB_OFFLINE": "0",  # whether to download is decided here
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._resident = ResidentWorker(
            Program(_PROGRAM, {**os.environ, **place.environ, **own}),
            msgspec.msgpack.encode(settings),
            silence=_SILENCE,
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
            raise _unwritable(model, self.place.folder, error.strerror or str(error)) from None
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
            try:
                result = _RESULTS.decode(await self._resident.ask(body, report=told))
            except RequestRefused as error:
                if error.package:
                    raise models_extra_missing() from None
                raise self._silent(error.reason) from None
            except WorkerError as error:
                raise self._silent(error.message) from None
            if not isinstance(result, DownloadFailure):
                return result
            if result.kind != "again":
                raise self._error(model, request, result)
            barren += 1
            if barren >= self._attempts:
                raise self._silent(result.reason)
            await asyncio.sleep(min(max(result.pause, self._pause * 2 ** (barren - 1)), _LONGEST_PAUSE))

    def _silent(self, reason: str | Message) -> ModelUnavailable:
        return ModelUnavailable(
            say("{endpoint} does not respond: {reason}.", endpoint=self.place.endpoint, reason=reason)
        )

    def _error(self, model: str, request: DownloadRequest, failure: DownloadFailure) -> ModelError:
        path = request.file.path if isinstance(request, FileRequest) else ""
        if failure.kind == "disk":
            return _unwritable(model, self.place.folder, failure.reason)
        if failure.kind == "listing":
            reason = failure.reason
            return ModelError(
                say("The list of files of {model} is not valid: {reason}.", model=model, reason=reason)
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


SECONDS = 1800.0
"""Seconds that an installation may take."""

_MAKING = "making-"
_LOOK = 0.25  # seconds between two looks at what has arrived
_STDERR = 64 * 1024  # bytes of what an installer says that are kept
_REASON = 500  # characters of a reason

Command = Sequence[str]
FindCommands = Callable[[Mapping[str, str]], Sequence[Command]]
"""From an environment to the commands that install packages, without their arguments, the best first."""


def installers(environ: Mapping[str, str]) -> list[Command]:
    """Return the command of uv and that of this Python's pip, as far as they are here."""
    commands: list[Command] = []
    places = (environ.get("PATH", os.defpath), os.path.dirname(sys.executable))
    uv = next(filter(None, (shutil.which("uv", path=place) for place in places)), None)
    if uv:
        commands.append((uv, "pip", "install", "--quiet", "--python", sys.executable))
    if importable("pip"):
        commands.append((sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-user"))
    return commands


class PackageInstaller:
    """Installs packages below ``kept``, one at a time. If one installer fails, the next is tried."""

    def __init__(
        self,
        kept: str,
        environ: Mapping[str, str],
        *,
        seconds: float = SECONDS,
        find_commands: FindCommands = installers,
    ) -> None:
        self._kept, self._environ, self._seconds = kept, environ, seconds
        self._find_commands = find_commands
        self._turn = asyncio.Lock()

    async def get(
        self, package: ModelPackage, told: Told | None = None, *, offline: bool = False
    ) -> PackedModel:
        """Return the model of a package, which is installed if it is not here, unless ``offline``.

        ``told`` gets the bytes that have arrived, where the installer shows them. If canceled, the installer
        ends and nothing is left. Raises ModelMissing if it cannot be installed here, ModelUnavailable if the
        installer fails or takes too long, ModelError if the folder cannot be written.
        """
        async with self._turn:
            model = await asyncio.to_thread(find_packed_model, package, self._kept)
            return model or await self._installed(package, told, offline)

    async def _installed(self, package: ModelPackage, told: Told | None, offline: bool) -> PackedModel:
        if offline:
            raise ModelMissing(
                say(
                    "The model {model} is not on this machine, and model_offline or HF_HUB_OFFLINE is set. "
                    "Turn it off, then run: tabane models pull {model}",
                    model=package.model,
                )
            )
        commands = await asyncio.to_thread(self._find_commands, self._environ)
        if not commands:
            raise ModelMissing(
                say(
                    "The model {model} is a Python package, and neither uv nor pip was found. Install uv, "
                    "then run: tabane models pull {model}",
                    model=package.model,
                )
            )
        try:
            for command in commands[:-1]:
                with contextlib.suppress(ModelUnavailable):
                    return await self._install(command, package, told)
            return await self._install(commands[-1], package, told)
        except OSError as error:
            raise _unwritable(package.model, self._kept, error.strerror or str(error)) from None

    async def _install(self, command: Command, package: ModelPackage, told: Told | None) -> PackedModel:
        """Install into a temporary folder beside the installed packages, which takes its place if whole."""
        parent = os.path.join(self._kept, FOLDER)
        await asyncio.to_thread(_empty, parent)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=_MAKING, dir=parent)
        try:
            await self._run(command, package, folder, told)
            return await asyncio.to_thread(self._keep, package, folder)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    async def _run(self, command: Command, package: ModelPackage, folder: str, told: Told | None) -> None:
        wanted = Path(folder, "requirements.txt")
        await asyncio.to_thread(wanted.write_text, package.requirement)
        child = await asyncio.create_subprocess_exec(
            *command,
            *("--target", os.path.join(folder, "installed")),
            *("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(wanted)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**self._environ, "TMPDIR": folder, "PIP_REQUIRE_VIRTUALENV": "0"},
            cwd=folder,  # a project's own settings of uv do not apply
            start_new_session=True,
        )
        looking = asyncio.create_task(_look(folder, package, told)) if told else None
        try:
            async with asyncio.timeout(self._seconds):
                said = b""  # the end of what the child writes to stderr until it closes it
                while child.stderr is not None and (part := await child.stderr.read(_STDERR)):
                    said = (said + part)[-_STDERR:]
                status = await child.wait()
        except TimeoutError:
            raise _failed(
                package,
                say(
                    "the installer took more than {seconds:g} {seconds:second|seconds}", seconds=self._seconds
                ),
            ) from None
        finally:
            if looking is not None:
                looking.cancel()
            await asyncio.shield(_ended(child))
        if status:
            reason = reason_in(said.decode("utf-8", "replace"))
            raise _failed(package, reason or say("the installer ended with {status}", status=status))

    def _keep(self, package: ModelPackage, folder: str) -> PackedModel:
        """Move the package to its place, and return its model."""
        place = place_of(package, self._kept)
        shutil.rmtree(place, ignore_errors=True)  # it was not whole, or would not have been installed again
        os.rename(os.path.join(folder, "installed"), place)
        model = find_packed_model(package, self._kept)
        if model is None:
            shutil.rmtree(place, ignore_errors=True)
            raise _failed(package, say("the package has no {path}", path=package.weights))
        return model


_ERROR = re.compile(r"(?i)error: *(.*)")
_CAUSE = re.compile(r"(?i)cause(?:d by)?: *(.*)")
_BRANCH = "╰─▶"  # before the conclusion of some versions of uv, which may have several lines


def reason_in(said: str) -> str:
    """Return why an installer failed, from what it wrote to stderr; "" if it says nothing.

    That is its last error with the last cause of it, else its last line. Passwords in URLs are removed.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    concluding = max((place for place, line in enumerate(lines) if _BRANCH in line), default=None)
    if concluding is not None:
        rest = lines[concluding:]
        hint = next((place for place, line in enumerate(rest) if line.startswith("hint:")), len(rest))
        reason = " ".join(rest[:hint]).replace(_BRANCH, "")
    else:
        errors, causes = (
            [found[1] for line in lines if (found := each.match(line))] for each in (_ERROR, _CAUSE)
        )
        reason = ": ".join(part[-1].rstrip(".") for part in (errors, causes) if part) or (lines or [""])[-1]
    return re.sub(r"://[^/@\s]+@", "://***@", reason).strip().rstrip(".")[:_REASON]


def _unwritable(model: str, folder: str, reason: str) -> ModelError:
    text = say(
        "The model {model} cannot be stored in {folder}: {reason}.", model=model, folder=folder, reason=reason
    )
    return ModelError(text)


def _failed(package: ModelPackage, reason: str | Message) -> ModelUnavailable:
    return ModelUnavailable(
        say("The package {package} was not installed: {reason}.", package=package.folder, reason=reason)
    )


async def _ended(child: asyncio.subprocess.Process) -> None:
    """End the child, and all that it has started."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    await child.wait()


async def _look(folder: str, package: ModelPackage, told: Told) -> None:
    while True:
        size = await asyncio.to_thread(_size, folder)
        told(DownloadProgress(package.folder, min(size, package.size), package.size))
        await asyncio.sleep(_LOOK)


def _size(folder: str) -> int:
    """Return the bytes of the files below a folder, which may be vanishing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _empty(parent: str) -> None:
    """Make the folder, and remove what an installation left that was killed."""
    os.makedirs(parent, mode=0o700, exist_ok=True)
    for name in os.listdir(parent):
        if name.startswith(_MAKING):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
