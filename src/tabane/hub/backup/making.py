"""Making of backups: databases are copied at one moment each, files after them, then all is packed.

The hub may run and write meanwhile. Copies of databases lie in the home until the archive is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tabane.engine.embedded.snapshot import Source, VectorSource, copy, frozen
from tabane.errors import CallerError, ConfigurationError, StoreFull
from tabane.hub.backup import archive_format as manifests
from tabane.hub.backup.archive_format import (
    HOME,
    PIECE,
    SERVERS,
    SETTINGS,
    ArchiveWriter,
    BackupManifest,
    BackupMember,
    checksum,
)
from tabane.hub.backup.home_content import (
    SECRET_FILES,
    SECRETS,
    TOKEN,
    key_fingerprint,
    other_databases,
    plain_files,
    store_databases,
    unknown_entries,
)
from tabane.hub.backup.secret_references import (
    TextWithoutSecrets,
    servers_without_secrets,
    settings_without_secrets,
)
from tabane.messages import say
from tabane.servers.commented_json import JsonSyntaxError
from tabane.servers.configuration import open_document
from tabane.servers.redaction import Redactor
from tabane.servers.secret_store import SecretStore
from tabane.servers.variables import decoded_secrets, parse_secrets, with_secret
from tabane.settings.files import LIMIT, read_private, read_trusted
from tabane.upstreams.logins.login_book import LOGINS_FILE, file_of_backup

_STAGING = ".backup-"  # beginning of the name of a folder with copies, in the home
_RESERVE = 64 << 20  # bytes of the disk that are left to the hub
_SMALL = 1 << 20  # bytes of a file whose text is searched for secrets

Told = Callable[[int, int], object]
"""Called with the bytes that are done, and the bytes in all as far as they are known."""


@dataclass(frozen=True)
class BackupSource:
    """The contents of a backup. ``keyring``: secrets are in the system's keyring too."""

    home: Path
    settings_file: Path
    servers_file: Path
    keyring: bool
    build: str
    home_format: int
    with_secrets: bool = False


@dataclass(frozen=True)
class _Part:
    """A file for the archive: bytes, or the path of a copy."""

    member: BackupMember
    content: bytes | Path

    def opened(self) -> AbstractContextManager[BinaryIO]:
        if isinstance(self.content, bytes):
            return contextlib.nullcontext(io.BytesIO(self.content))
        return open(self.content, "rb")


def make_backup(
    source: BackupSource, out: Callable[[], AbstractContextManager[BinaryIO]], told: Told
) -> BackupManifest:
    """Write an archive to the stream that ``out`` opens when everything is copied. Return its manifest.

    Blocks; raises CallerError, ConfigurationError, StoreError and OSError.
    """
    _check_home(source.home)
    progress = _Progress(told)
    with _staging(source.home) as folder:
        manifest, parts = _Collection(source, folder, progress).collected()
        progress.expect(sum(part.member.size for part in parts))
        made = time.time()
        with out() as stream, ArchiveWriter(stream, made) as archive:
            listed = manifests.encoded(manifest)
            archive.add(manifests.NAME, io.BytesIO(listed), len(listed))
            for part in parts:
                with part.opened() as opened:
                    archive.add(part.member.path, opened, part.member.size, progress.add)
    return manifest


class _Progress:
    def __init__(self, told: Told) -> None:
        self._told, self._done, self._total = told, 0, 0

    def expect(self, count: int) -> None:
        self._total += count
        self._told(self._done, self._total)

    def add(self, count: int) -> None:
        self._done += count
        self._told(self._done, max(self._total, self._done))


class _Collection:
    """The parts of one backup while they are collected."""

    def __init__(self, source: BackupSource, folder: Path, progress: _Progress) -> None:
        self._source, self._folder, self._progress = source, folder, progress
        self._parts: list[_Part] = []

    def collected(self) -> tuple[BackupManifest, list[_Part]]:
        source = self._source
        secrets = _Secrets(source)
        settings, servers = self._settings(), self._servers(secrets.names)
        values = () if source.with_secrets else (*secrets.values, *settings.values, *servers.values)
        records, others = store_databases(self._source.home), other_databases(self._source.home)
        self._reserve([*records, *others], plain_files(self._source.home))
        for path in records:
            with frozen(str(path)) as (sources, vectors):
                for each in sources:
                    self._copy_database(each)
                for file in vectors:
                    self._copy_vectors(file)
        for path in others:
            with frozen(str(path)) as (sources, _):
                self._copy_database(sources[0])
        self._files(Redactor(values))
        if source.with_secrets:
            for name, data in secrets.files():
                self._add(f"{HOME}{name}", data)
        manifest = BackupManifest(
            format=manifests.FORMAT,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            tabane=source.build,
            home_format=source.home_format,
            system=f"{platform.system()} {platform.machine()}",
            home=str(source.home),
            settings_file=str(source.settings_file),
            servers_file=str(source.servers_file),
            with_secrets=source.with_secrets,
            members=tuple(part.member for part in self._parts),
            secrets=secrets.names,
            replaced=servers.names,
            audit_key=key_fingerprint(source.home),
            settings_removed=settings.removed,
            left_out=unknown_entries(source.home),
        )
        return manifest, self._parts

    # -- settings and servers --------------------------------------------------------------------

    def _settings(self) -> TextWithoutSecrets:
        path = self._source.settings_file
        data = _trusted(path)
        if data is None:
            return TextWithoutSecrets("")
        if self._source.with_secrets:
            self._add(SETTINGS, data)
            return TextWithoutSecrets("")
        found = settings_without_secrets(data.decode("utf-8-sig"))
        self._add(SETTINGS, found.text.encode())
        return found

    def _servers(self, kept: Sequence[str]) -> TextWithoutSecrets:
        path = self._source.servers_file
        data = _trusted(path)
        if data is None:
            return TextWithoutSecrets("")
        if self._source.with_secrets:
            self._add(SERVERS, data)
            return TextWithoutSecrets("")
        open_document(path)  # raises with line and column: secrets cannot be found in a broken file
        try:
            found = servers_without_secrets(data.decode("utf-8-sig"), kept)
        except JsonSyntaxError as error:
            raise ConfigurationError(error.expected) from None
        self._add(SERVERS, found.text.encode())
        return found

    # -- the home --------------------------------------------------------------------------------

    def _copy_database(self, source: Source) -> None:
        path = Path(source[0])
        target = self._folder / f"{len(self._parts)}.db"
        schema = copy(source, target, self._progress.add)
        self._add_file(self._place(path), target, schema)

    def _copy_vectors(self, source: VectorSource) -> None:
        target = self._folder / f"{len(self._parts)}.vec"
        with open(target, "xb") as out:
            for piece in manifests.pieces(source.file, source.size):
                out.write(piece)
                self._progress.add(len(piece))
        self._add_file(self._place(Path(source.path)), target)

    def _files(self, redactor: Redactor) -> None:
        for path in plain_files(self._source.home):
            try:
                size = path.stat().st_size
                target = self._folder / f"{len(self._parts)}.file"
                with open(path, "rb") as file:
                    if size <= _SMALL:
                        self._add(self._place(path), _redacted(file.read(size), redactor))
                        continue
                    with open(target, "xb") as out:
                        while piece := file.read(min(PIECE, size - out.tell())):
                            out.write(piece)
                            self._progress.add(len(piece))
            except FileNotFoundError:
                continue  # an old file of the audit log, whose time was over
            self._add_file(self._place(path), target)

    def _place(self, path: Path) -> str:
        return HOME + path.relative_to(self._source.home).as_posix()

    def _add(self, path: str, data: bytes) -> None:
        member = BackupMember(path, len(data), hashlib.sha256(data).hexdigest())
        self._parts.append(_Part(member, data))

    def _add_file(self, path: str, copied: Path, schema: int | None = None) -> None:
        size = copied.stat().st_size
        with open(copied, "rb") as file:
            self._parts.append(_Part(BackupMember(path, size, checksum(file, size), schema), copied))

    def _reserve(self, databases: Iterable[Path], files: Iterable[Path]) -> None:
        """Raise StoreFull if the copies do not fit on the disk beside what the hub may write."""
        needed = 0
        for path in databases:
            with frozen(str(path)) as (sources, vectors):
                needed += sum(os.path.getsize(name) for name, _ in sources)
                needed += sum(file.size for file in vectors)
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                needed += path.stat().st_size
        self._progress.expect(needed)
        if shutil.disk_usage(self._folder).free < needed + _RESERVE:
            raise StoreFull(
                say(
                    "The disk of {home} has too little space for the copies that a backup needs ({size} MB). "
                    "Free some space, and try again.",
                    home=self._source.home,
                    size=(needed + _RESERVE) >> 20,
                )
            )


class _Secrets:
    """The secrets of a home. Those of a keyring are read only if they are wanted."""

    def __init__(self, source: BackupSource) -> None:
        self._home, self._keyring = source.home, source.keyring
        self._text = _optional_text(source.home / SECRETS)
        self._kept = parse_secrets(self._text, str(source.home / SECRETS))
        store = SecretStore(source.home, keyring=source.keyring)
        self.names = tuple(store.places())
        if source.with_secrets:
            for name in self.names:
                value = store.get(name)
                if name not in self._kept and value is not None:
                    self._text = with_secret(self._text, name, value, str(source.home / SECRETS))

    @property
    def values(self) -> tuple[str, ...]:
        token = _optional_text(self._home / TOKEN).strip()
        return (*(value for value in self._kept.values()), *([token] if token else ()))

    def files(self) -> Iterator[tuple[str, bytes]]:
        if self._text:
            yield SECRETS, self._text.encode()
        logins = file_of_backup(self._home, keyring=self._keyring)
        if logins is not None:
            yield LOGINS_FILE, logins
        for name in (name for name in SECRET_FILES if name != LOGINS_FILE):
            with contextlib.suppress(FileNotFoundError):
                yield name, read_private(self._home / name)


def _redacted(data: bytes, redactor: Redactor) -> bytes:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    shown = redactor.text(text)
    return data if shown == text else shown.encode()


def _trusted(path: Path) -> bytes | None:
    try:
        return read_trusted(path)
    except FileNotFoundError:
        return None


def _optional_text(path: Path) -> str:
    try:
        return decoded_secrets(str(path), read_private(path, LIMIT))
    except FileNotFoundError:
        return ""


def _check_home(home: Path) -> None:
    try:
        owner = home.stat().st_uid
    except FileNotFoundError:
        raise CallerError(
            say("There is no home of a hub at {home}, so there is nothing to back up.", home=home)
        ) from None
    if owner != os.geteuid():
        raise CallerError(
            say(
                "{home} belongs to another user. Run this command as that user (uid {uid}).",
                home=home,
                uid=owner,
            )
        )


@contextlib.contextmanager
def _staging(home: Path) -> Iterator[Path]:
    """Yield a folder in the home. What killed backups left there is deleted."""
    for left in home.glob(f"{_STAGING}*"):
        with contextlib.suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = home / f"{_STAGING}{os.urandom(6).hex()}"
    folder.mkdir(mode=0o700)
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder. Raises BlockingIOError if another process has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
