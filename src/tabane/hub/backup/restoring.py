"""Restoring of backups: the archive is verified while it is unpacked, then its files are put in place.

What the restored hub lacks on this machine is reported: secrets, programs, folders and files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tabane.errors import CallerError, StoreFull
from tabane.hub.backup import archive_format as manifests
from tabane.hub.backup.archive_format import (
    HOME,
    SERVERS,
    SETTINGS,
    ArchivedFile,
    BackupManifest,
    BrokenArchive,
    read_archive,
)
from tabane.hub.backup.home_content import (
    AUDIT,
    AUDIT_HEAD,
    AUDIT_KEY,
    REPLACED,
    has_content,
    key_fingerprint,
)
from tabane.hub.backup.restore_journal import JOURNAL, STAGED, FileExchange, Reached, exchange_all
from tabane.messages import Message, say
from tabane.servers.configuration import ServersConfiguration
from tabane.servers.server import Server
from tabane.servers.variables import Variables, names_in, names_needed
from tabane.settings import OPTIONS, Settings, load_settings
from tabane.settings.files import private_folder

_RESERVE = 64 << 20  # bytes of the disk that stay free

Told = Callable[[int, int], object]
"""Called with the bytes that are done, and the bytes in all."""


@dataclass(frozen=True)
class RestoreTarget:
    """The target of a restore. ``servers_file`` is the path that the user gave, if any.

    ``forced``: existing content is replaced, and kept beside.
    """

    home: Path
    settings_file: Path
    environ: Mapping[str, str]
    build: str
    home_format: int
    servers_file: Path | None = None
    forced: bool = False


@dataclass(frozen=True)
class RestoredBackup:
    """The result of a restore. ``kept``: former files, by path; ``audit``: the place of a log without key."""

    manifest: BackupManifest
    settings_file: Path
    servers_file: Path
    kept: Mapping[str, str]
    audit: Path | None


def read_manifest(stream: BinaryIO, name: str) -> BackupManifest:
    """Return the manifest of an archive, without verifying the rest. Raises CallerError and OSError."""
    with _broken(name):
        return _manifest(read_archive(stream), name)


def restore_backup(
    stream: BinaryIO,
    name: str,
    target: RestoreTarget,
    told: Told = lambda done, total: None,
    reached: Reached = lambda step: None,
) -> RestoredBackup:
    """Restore an archive. Call it with the lock of the home held.

    Blocks; raises CallerError, ConfigurationError, StoreFull and OSError, and has then changed nothing;
    HubError if it was cut off while files were exchanged, which the next start of a hub continues.
    """
    folder = target.home / f"{STAGED}{os.urandom(6).hex()}"
    with _broken(name):
        files = read_archive(stream)
        manifest = _manifest(files, name)
        manifests.check_version(manifest, name, target.build, target.home_format)
        _refuse_content(target, target.settings_file, None)
        _check_space(target.home, manifest)
        folder.mkdir(mode=0o700)
        try:
            _unpack(files, manifest, folder, name, told)
            return _Placement(manifest, folder, target).placed(reached)
        except BaseException:
            if not (target.home / JOURNAL).exists():  # it needs the folder
                shutil.rmtree(folder, ignore_errors=True)
            raise


class _Placement:
    """A verified backup in ``folder``, on its way into place."""

    def __init__(self, manifest: BackupManifest, folder: Path, target: RestoreTarget) -> None:
        self._manifest, self._folder, self._target = manifest, folder, target
        self._mark = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._beside: list[Path] = []

    def placed(self, reached: Reached) -> RestoredBackup:
        target, settings = self._target, Path(os.path.realpath(self._target.settings_file))
        servers = Path(os.path.realpath(self._servers_file()))
        if servers == settings:
            raise CallerError(
                say("The settings file and the servers file cannot be the same: {path}", path=servers)
            )
        _refuse_content(target, settings, servers)
        audit = self._audit_apart()
        try:
            exchanges = [*self._of_home(), *self._of_files(settings, servers)]
            _sync(self._folder)
            kept = {each.target: each.kept for each in exchanges if os.path.lexists(each.target)}
            exchange_all(target.home, self._folder, exchanges, reached)
        except BaseException:
            if not (target.home / JOURNAL).exists():
                for path in self._beside:
                    path.unlink(missing_ok=True)
            raise
        return RestoredBackup(self._manifest, settings, servers, kept, audit)

    def _servers_file(self) -> Path:
        """Return the place of the servers file: the user's, or what the restored settings say."""
        target, staged = self._target, self._folder / SETTINGS
        if target.servers_file is not None:
            return target.servers_file
        text = staged.read_text("utf-8-sig") if staged.exists() else ""
        return load_settings({"config": str(target.settings_file)}, target.environ, text=text).servers

    def _audit_apart(self) -> Path | None:
        """Move a log that cannot be continued out of the way: the hub would write it with another key."""
        home, archive = self._target.home, self._folder / HOME
        logs = sorted((archive / AUDIT).glob("*.jsonl"))
        if not logs or (archive / AUDIT_KEY).exists():
            return None
        if self._manifest.audit_key and key_fingerprint(home) == self._manifest.audit_key:
            return None
        apart = f"{AUDIT}-{self._mark}"
        (archive / apart).mkdir(mode=0o700)
        for path in logs:
            path.rename(archive / apart / path.name)
        with contextlib.suppress(FileNotFoundError):
            (archive / AUDIT_HEAD).rename(archive / apart / AUDIT_HEAD)
        return home / apart

    def _of_home(self) -> Iterator[FileExchange]:
        home, archive = self._target.home, self._folder / HOME
        archive.mkdir(mode=0o700, exist_ok=True)
        kept = _kept_folder(home, self._mark)
        new = set(os.listdir(archive))
        for name in sorted(new | {name for name in REPLACED if os.path.lexists(home / name)}):
            staged = str(archive / name) if name in new else ""
            yield FileExchange(str(home / name), str(kept / name), staged)

    def _of_files(self, settings: Path, servers: Path) -> Iterator[FileExchange]:
        for member, path in ((SETTINGS, settings), (SERVERS, servers)):
            staged = self._staged_beside(member, path) if (self._folder / member).exists() else ""
            if staged or os.path.lexists(path):  # the hub of the backup had no such file
                yield FileExchange(str(path), f"{path}.before-restore-{self._mark}", str(staged))

    def _staged_beside(self, member: str, path: Path) -> Path:
        """Copy a file to the disk of its place, so that it gets there in one step."""
        private_folder(path.parent)
        for left in path.parent.glob(f".{path.name}.restore-*"):
            left.unlink()
        staged = path.parent / f".{path.name}.restore-{os.urandom(4).hex()}"
        self._beside.append(staged)
        with open(staged, "xb", opener=_private) as file:
            file.write((self._folder / member).read_bytes())
            file.flush()
            os.fsync(file.fileno())
        return staged


def _manifest(files: Iterator[ArchivedFile], name: str) -> BackupManifest:
    first = next(files, None)
    if first is None or first.path != manifests.NAME or first.size > manifests.LARGEST:
        raise manifests.damaged(name, say("it has no list of contents"))
    return manifests.decoded(b"".join(first.pieces()), name)


def _unpack(
    files: Iterator[ArchivedFile], manifest: BackupManifest, folder: Path, name: str, told: Told
) -> None:
    """Unpack and verify all members. Raises CallerError, OSError and BrokenArchive."""
    expected = {member.path: member for member in manifest.members}
    done, total = 0, manifest.size
    (folder / "config").mkdir(mode=0o700)
    for file in files:
        member = expected.pop(file.path, None)
        if member is None or member.size != file.size:
            raise manifests.damaged(name, say("{path} is not as its list says", path=file.path[:200]))
        found = hashlib.sha256()
        target = folder / member.path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(target, "xb", opener=_private) as out:
            for piece in file.pieces():
                found.update(piece)
                out.write(piece)
                done += len(piece)
                told(done, total)
            out.flush()
            os.fsync(out.fileno())
        if found.hexdigest() != member.sha256:
            raise manifests.damaged(name, say("{path} is not as its list says", path=member.path))
    if expected:
        raise manifests.damaged(name, say("{path} is not in it", path=next(iter(expected))))


def _refuse_content(target: RestoreTarget, settings: Path, servers: Path | None) -> None:
    if target.forced:
        return
    files = [path for path in (settings, servers) if path is not None and path.exists()]
    found = has_content(target.home) or (str(files[0]) if files else None)
    if found:
        raise CallerError(
            say(
                "{path} exists already, so nothing was changed. To replace it, add --force: the former files "
                "are kept beside the new ones. To restore into another home, set TABANE_HOME and "
                "TABANE_CONFIG.",
                path=found,
            )
        )


def _check_space(home: Path, manifest: BackupManifest) -> None:
    if shutil.disk_usage(home).free < manifest.size + _RESERVE:
        raise StoreFull(
            say(
                "The disk of {home} has too little space for this backup ({size} MB). Nothing was changed.",
                home=home,
                size=(manifest.size + _RESERVE) >> 20,
            )
        )


def _kept_folder(home: Path, mark: str) -> Path:
    """Return a folder for the former content: beside the home, or in it if the home is a disk of its own."""
    parent = home.parent
    beside = parent.stat().st_dev == home.stat().st_dev and os.access(parent, os.W_OK)
    base = parent / f"{home.name}.before-restore-{mark}" if beside else home / f"before-restore-{mark}"
    found, number = base, 2
    while os.path.lexists(found):
        found, number = base.with_name(f"{base.name}-{number}"), number + 1
    return found


def _sync(folder: Path) -> None:
    """Write the names of the unpacked files to the disk; their contents are on it."""
    for path, _, _ in os.walk(folder):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


@contextlib.contextmanager
def _broken(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenArchive:
        raise manifests.damaged(name, say("it is cut off or was changed")) from None


def missing_secrets(
    definitions: Mapping[str, object], settings: Settings, variables: Variables, earlier: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the variables that nobody sets here, with their users: servers, or ``tabane.toml``.

    ``earlier`` are names of secrets that the hub of the backup had, also without a user.
    """
    users: dict[str, list[str]] = {name: [] for name in earlier}
    for server, definition in definitions.items():
        needed = set(names_needed(definition))
        for name in dict.fromkeys(_required(definition)):
            if name in needed:
                users.setdefault(name, []).append(server)
    for value in (settings.oauth_client_secret, settings.model_key):
        for name in names_in(value):
            users.setdefault(name, []).append("tabane.toml")
    return {name: tuple(by) for name, by in users.items() if variables.get(name) is None}


def server_problems(configuration: ServersConfiguration, environ: Mapping[str, str]) -> Iterator[Message]:
    """Yield what a server needs and this machine does not have, and what to do."""
    for server in configuration.servers:
        if not server.switched_off and server.transport == "stdio" and server.command:
            yield from _of_server(server, str(configuration.path), environ)


def setting_problems(settings: Settings) -> Iterator[Message]:
    """Yield the paths in tabane.toml that do not exist here."""
    for option in OPTIONS:
        value, source = getattr(settings, option.name), settings.sources.get(option.name)
        if source is None or source.kind != "file" or option.name == "servers":
            continue
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.exists():
                yield say(
                    "The setting {name} is {path}, which does not exist here. Change it with: tabane "
                    "settings set {name} PATH",
                    name=option.name,
                    path=path,
                )


def _of_server(server: Server, file: str, environ: Mapping[str, str]) -> Iterator[Message]:
    path = server.env.get("PATH") or environ.get("PATH")
    if shutil.which(server.command, path=path) is None:
        yield say(
            "The server {server!n} runs {command}, which is not on this machine. Install it, or change the "
            "server in {file}",
            server=server.name,
            command=server.command,
            file=file,
        )
    places = [("cwd", server.cwd)] if server.cwd and not server.needs_folder else []
    places += [
        ("args", argument)  # a path, and no option or URL path
        for argument in server.args
        if os.path.isabs(argument) and argument.count("/") > 1 and "\n" not in argument
    ]
    for key, place in places:
        if place and not os.path.exists(place):
            yield say(
                "The server {server!n} uses {path} ({key}), which does not exist here. Create it, or change "
                "the server in {file}",
                server=server.name,
                file=file,
                path=place,
                key=key,
            )


def _required(value: object) -> Iterator[str]:
    """Yield the variables without a default."""
    if isinstance(value, str):
        yield from (name for name in names_in(value) if f"{name}:-" not in value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _required(part)
