"""The archive of `tabane backup` and `restore`: written, listed, and put back."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tabane.build import this_build
from tabane.cli.drawing import Bar
from tabane.cli.hub_process import end_hub
from tabane.cli.output import Terminal, lang, text
from tabane.cli.passphrase import check_passphrase
from tabane.cli.servers_file import ServersFile
from tabane.errors import CallerError, HubError, TabaneError
from tabane.hub.backup.making import BackupSource, make_backup
from tabane.hub.backup.restore_journal import JOURNAL, complete_restore, sync_folder
from tabane.hub.backup.restoring import (
    RestoreTarget,
    missing_secrets,
    read_manifest,
    restore_backup,
    server_problems,
    setting_problems,
)
from tabane.hub.local import lock
from tabane.hub.process.home_version import FORMAT, refuse_downgrade
from tabane.messages import Message, say
from tabane.servers.configuration import read_configuration, written_definitions
from tabane.servers.variables import keyring_lookup, load_variables
from tabane.settings import load_settings
from tabane.settings.files import config_folder, private_folder
from tabane.text.units import bytes_text

if TYPE_CHECKING:
    from tabane.hub.backup.archive_format import BackupManifest
    from tabane.hub.backup.restoring import RestoredBackup
    from tabane.hub.local.endpoint import Endpoint
    from tabane.hub.local.lock import HomeLock

STREAM = "-"
"""The name of standard input or output."""

_MEGABYTE = 1_000_000


def make_archive(
    terminal: Terminal, archive: str, file: str | None, *, with_secrets: bool, forced: bool
) -> None:
    """Write a backup to a file, or to standard output for ``-``. Raises CallerError and HubError."""
    if archive == STREAM:
        if sys.stdout.isatty():
            raise CallerError(
                say(
                    "A backup is binary data, so it is not written to a terminal. Give a file, or pipe the "
                    "output to a program."
                )
            )
    else:
        path = Path(archive)  # a file that cannot be written is refused before any work is done
        if path.is_dir() or not path.parent.is_dir():
            raise CallerError(say("{path} is not the path of a file in an existing folder.", path=path))
        if os.path.lexists(path) and not forced:
            raise _exists(path)
    _complete_restore(terminal)
    place = ServersFile.found(terminal, file)
    # the settings file is that of the running hub if it was started with one
    holder = lock.read_holder(terminal.endpoint().lock) if place.hub else None
    flags = holder.flags if holder else ()
    given = next((flag.partition("=")[2] for flag in flags if flag.startswith("--config=")), None)
    source = BackupSource(
        home=place.settings.home,
        settings_file=Path(given) if given and not terminal.config else place.settings.config,
        servers_file=place.path,
        keyring=place.settings.keyring,
        build=this_build().name,
        home_format=FORMAT,
        with_secrets=with_secrets,
    )
    out = _standard_output if archive == STREAM else _file_output(Path(archive), forced=forced)
    with byte_progress(say("Making a backup"), archive) as told:
        try:
            manifest = make_backup(source, out, told)
        except OSError as error:
            raise not_usable(error, archive) from None
    if place.settings.engine:
        terminal.note(
            say(
                "Posts, documents and pages are not in this backup: they are in the database that "
                "the setting engine names. Back it up with pg_dump at the same time."
            )
        )
    _tell_backed_up(terminal, archive, manifest)


def _tell_backed_up(terminal: Terminal, archive: str, manifest: BackupManifest) -> None:
    if manifest.left_out:
        names = ", ".join(manifest.left_out)
        terminal.note(say("Files in the home that are not Tabane's are left out: {names}", names=names))
    for name in manifest.settings_removed:
        terminal.note(
            say(
                "The setting {name} contains a secret and is left out. Set it again after a restore.",
                name=name,
            )
        )
    if manifest.with_secrets:
        terminal.note(
            say(
                "Warning: the backup contains keys and passwords in plain text. Keep it where only you can "
                "read it."
            )
        )
    elif names := ", ".join(manifest.secrets):
        terminal.note(
            say("Secrets are not in the backup: {names}. To include them, add --with-secrets.", names=names)
        )
    if names := ", ".join(manifest.replaced):
        terminal.note(
            say(
                "Keys in the servers file are not in the backup. It has variables in their place: {names}",
                names=names,
            )
        )
    if archive == STREAM:
        return  # standard output is the backup
    size = os.stat(archive).st_size
    result = {"path": os.path.abspath(archive), "bytes": size, "status": "written", **described(manifest)}
    message = say("The backup is in {path} ({size}).", path=archive, size=bytes_text(size))
    terminal.show(result, message)


def list_archive(terminal: Terminal, archive: str) -> None:
    """Print what a backup contains. Raises HubError."""
    with opened(archive) as stream:
        manifest = read_manifest(stream, archive)
    files = [
        {"path": member.path, "bytes": member.size, "sha256": member.sha256, "schema": member.schema}
        for member in manifest.members
    ]
    if not terminal.show_json({"path": os.path.abspath(archive), **described(manifest), "files": files}):
        terminal.pairs(
            (
                (say("made"), manifest.created),
                (say("Tabane"), manifest.tabane),
                (say("machine"), manifest.system),
                (say("home"), manifest.home),
                (say("settings file"), manifest.settings_file),
                (say("servers file"), manifest.servers_file),
                (say("with secrets"), manifest.with_secrets),
                (say("names of secrets"), (*manifest.secrets, *manifest.replaced)),
            )
        )
        terminal.say("")
        terminal.table(
            [say("file"), say("size")],
            [(member.path, bytes_text(member.size)) for member in manifest.members],
        )


def described(manifest: BackupManifest) -> dict[str, Any]:
    """Return what a manifest says about the whole, for ``--json``."""
    return {
        "created": manifest.created,
        "version": manifest.tabane,
        "machine": manifest.system,
        "home": manifest.home,
        "settings_file": manifest.settings_file,
        "servers_file": manifest.servers_file,
        "with_secrets": manifest.with_secrets,
        "secrets": list(manifest.secrets),
        "replaced": list(manifest.replaced),
        "settings_removed": list(manifest.settings_removed),
        "left_out": list(manifest.left_out),
        "unpacked_bytes": manifest.size,
    }


def not_usable(error: OSError, archive: str) -> HubError:
    path, reason = error.filename or archive, error.strerror or str(error)
    return HubError(say("{path} cannot be used: {reason}.", path=path, reason=reason))


@contextlib.contextmanager
def opened(archive: str) -> Iterator[BinaryIO]:
    """Yield the stream of a backup, which is standard input for ``-``. Raises HubError."""
    if archive == STREAM:
        yield sys.stdin.buffer
        return
    try:
        with open(archive, "rb") as stream:
            yield stream
    except OSError as error:
        raise not_usable(error, archive) from None


@contextlib.contextmanager
def byte_progress(title: Message, name: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many megabytes are done, on a terminal."""
    with Bar(lang()) as bar:

        def told(done: int, total: int) -> None:
            state = {"title": text(title), "note": "MB", "rate": None, "left": None}
            bar.show({**state, "done": done // _MEGABYTE, "total": total // _MEGABYTE})

        yield told


def _exists(path: Path) -> CallerError:
    return CallerError(
        say("{path} exists already. Choose another name, or add --force to replace it.", path=path)
    )


@contextlib.contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _file_output(path: Path, *, forced: bool) -> Callable[[], contextlib.AbstractContextManager[BinaryIO]]:
    """Return an output that appears at the path when it is complete and on the disk, and never in parts."""

    @contextlib.contextmanager
    def output() -> Iterator[BinaryIO]:
        part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
        try:
            with open(
                part, "xb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)
            ) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if os.path.lexists(path) and not forced:
                raise _exists(path)
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)

    return output


def _complete_restore(terminal: Terminal) -> None:
    """Complete a restore that was cut off, if no hub does that."""
    endpoint = terminal.endpoint()
    if not os.path.exists(os.path.join(endpoint.home, JOURNAL)):
        return
    held = lock.acquire(endpoint.lock)
    if held is not None:
        try:
            complete_restore(endpoint.home)
        finally:
            held.release()


_LOCK_LIMIT = 10.0  # seconds in which hubs that assistants start again are ended


def restore_archive(
    terminal: Terminal, archive: str, *, forced: bool, stopping: bool, file: Path | None
) -> None:
    """Restore a backup into the home, and print what is missing on this machine. Raises HubError.

    ``file``: where the servers file is put; None is its default place.
    """
    endpoint = terminal.endpoint()
    given = terminal.config or os.environ.get("TABANE_CONFIG")
    settings_file = Path(os.path.abspath(given)) if given else config_folder(os.environ) / "tabane.toml"
    with opened(archive) as stream:
        private_folder(endpoint.home)
        refuse_downgrade(endpoint.home)
        check_passphrase(terminal, Path(endpoint.home))
        with _locked(endpoint, stopping=stopping):
            complete_restore(endpoint.home)
            target = RestoreTarget(
                home=Path(os.path.realpath(endpoint.home)),
                settings_file=settings_file,
                environ=os.environ,
                build=this_build().name,
                home_format=FORMAT,
                servers_file=Path(os.path.abspath(file)) if file else None,
                forced=forced,
            )
            with byte_progress(say("Restoring a backup"), archive) as told:
                try:
                    done = restore_backup(stream, archive, target, told)
                except OSError as error:
                    raise not_usable(error, archive) from None
    secrets, problems = _missing(terminal, done)
    result: dict[str, Any] = {
        "status": "restored",
        "home": endpoint.home,
        "settings_file": str(done.settings_file),
        "servers_file": str(done.servers_file),
        "kept": dict(done.kept),
        "audit_log": str(done.audit) if done.audit else None,
        "missing_secrets": {name: list(users) for name, users in secrets.items()},
        "problems": [text(problem) for problem in problems],
        "backup": described(done.manifest),
    }
    if not terminal.show_json(result):
        _print_restored(terminal, endpoint, done, secrets, problems)


@contextmanager
def _locked(endpoint: Endpoint, *, stopping: bool) -> Iterator[None]:
    """Hold the lock of the home, so that no hub starts. Raises HubError if one runs."""
    held = _lock(endpoint, stopping=stopping)
    try:
        yield
    finally:
        held.release()


def _lock(endpoint: Endpoint, *, stopping: bool) -> HomeLock:

    deadline = time.monotonic() + _LOCK_LIMIT
    while (held := lock.acquire(endpoint.lock)) is None:
        if not stopping:
            raise HubError(
                say(
                    "A hub runs in {home}, so nothing was changed. Stop it with tabane stop, or add --stop.",
                    home=endpoint.home,
                )
            )
        if time.monotonic() > deadline:
            raise HubError(
                say(
                    "Assistants start the hub in {home} again. Close them, and try again. Nothing was "
                    "changed.",
                    home=endpoint.home,
                )
            )
        end_hub(endpoint, lang(), restart=False)
    return held


def _print_restored(
    terminal: Terminal,
    endpoint: Endpoint,
    done: RestoredBackup,
    secrets: dict[str, tuple[str, ...]],
    problems: list[Message],
) -> None:
    made = done.manifest.created
    terminal.say(say("The backup of {made} was restored to {home}.", made=made, home=endpoint.home))
    home = os.path.realpath(endpoint.home)
    former = (
        os.path.dirname(kept) if os.path.dirname(to) == home else kept for to, kept in done.kept.items()
    )
    for folder in dict.fromkeys(former):
        terminal.say(say("The former files are kept: {path}", path=folder))
    if done.audit is not None:
        terminal.say(
            say(
                "The audit log of the backup is in {path}, and a new log begins: the key of the log is not "
                "in the backup.",
                path=done.audit,
            )
        )
    for problem in problems:
        terminal.say(problem)
    if secrets:
        terminal.say(say("Secrets that are not set here, and how to set them:"))
        for name, users in secrets.items():
            terminal.say(f"  tabane secrets set {name}" + (f"    # {', '.join(users)}" if users else ""))
    terminal.say(say("Start the hub with: tabane start"))


def _missing(terminal: Terminal, done: RestoredBackup) -> tuple[dict[str, tuple[str, ...]], list[Message]]:
    """Return the secrets that nobody sets here, and other problems."""
    try:
        given = {"config": str(done.settings_file)} if done.settings_file.exists() else {}
        settings = load_settings(given, os.environ)
        keyring = keyring_lookup() if settings.keyring else None
        variables = load_variables(settings.home, os.environ, keyring)
        definitions = written_definitions(done.servers_file)
        secrets = missing_secrets(definitions, settings, variables, done.manifest.secrets)
        configuration = read_configuration(done.servers_file, variables)
        problems = [*setting_problems(settings), *server_problems(configuration, os.environ)]
    except TabaneError as error:  # restored as it was: the hub says the same
        return {}, [error.message]
    removed = [
        say("The setting {name} contained a secret and was left out. Set it again.", name=name)
        for name in done.manifest.settings_removed
    ]
    return secrets, [*removed, *problems]
