"""`tabane backup`: one file with everything that a hub needs to continue on another machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tabane.build import this_build
from tabane.cli.options import json_option, option
from tabane.cli.output import Command, Terminal, examples, lang, text
from tabane.cli.progress import Bar
from tabane.cli.servers_file import ServersFile, file_option
from tabane.errors import CallerError, HubError
from tabane.messages import Message, say
from tabane.text.units import bytes_text

if TYPE_CHECKING:
    from tabane.hub.backup.manifest import BackupManifest

STREAM = "-"
"""The name of standard input or output."""

_MEGABYTE = 1_000_000


@click.command(
    "backup",
    cls=Command,
    help=say(
        "Write the hub's data, its settings and its servers file to FILE, a compressed tar archive. - is "
        "standard output. The hub may run: the backup has everything that the hub had acknowledged before. "
        "Secrets are left out, unless you add --with-secrets."
    ),
    epilog=examples(
        "tabane backup tabane.tar.gz",
        "tabane backup --with-secrets tabane.tar.gz",
        "tabane backup - | ssh other tabane restore -",
        "tabane backup --list tabane.tar.gz",
    ),
)
@click.argument("archive", metavar="FILE", type=click.Path())
@option(
    "--with-secrets",
    is_flag=True,
    help=say("Include secrets: secrets.env, the keyring's values, the hub's token and the audit log's key."),
)
@option("--force", "forced", is_flag=True, help=say("Replace FILE if it exists."))
@option("--list", "listed", is_flag=True, help=say("Show what the backup FILE contains."))
@file_option
@json_option
@click.pass_obj
def backup(
    terminal: Terminal, archive: str, with_secrets: bool, forced: bool, listed: bool, file: str | None
) -> None:
    if listed:
        _list(terminal, archive)
    else:
        _make(terminal, archive, file, with_secrets=with_secrets, forced=forced)


def _make(terminal: Terminal, archive: str, file: str | None, *, with_secrets: bool, forced: bool) -> None:
    from tabane.hub.backup.making import BackupSource, make_backup
    from tabane.hub.process.home_version import FORMAT

    if archive == STREAM:
        _refuse_terminal()
    else:
        _check_target(Path(archive), forced=forced)
    _complete_restore(terminal)
    place = ServersFile.found(terminal, file)
    source = BackupSource(
        home=place.settings.home,
        settings_file=_settings_file(terminal, place),
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
    _tell(terminal, archive, manifest)


def _tell(terminal: Terminal, archive: str, manifest: BackupManifest) -> None:
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
    terminal.show(result, lambda: terminal.say(message))


def _list(terminal: Terminal, archive: str) -> None:
    from tabane.hub.backup.restoring import read_manifest

    with opened(archive) as stream:
        manifest = read_manifest(stream, archive)
    terminal.show(
        {"path": os.path.abspath(archive), **described(manifest), "files": _rows(manifest)},
        lambda: _print(terminal, manifest),
    )


def _print(terminal: Terminal, manifest: BackupManifest) -> None:
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
        [say("file"), say("bytes")], [(member.path, f"{member.size:,}") for member in manifest.members]
    )


def _rows(manifest: BackupManifest) -> list[dict[str, Any]]:
    return [
        {"path": member.path, "bytes": member.size, "sha256": member.sha256, "schema": member.schema}
        for member in manifest.members
    ]


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


# -- the file --------------------------------------------------------------------------------------------


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


def _refuse_terminal() -> None:
    if sys.stdout.isatty():
        raise CallerError(
            say(
                "A backup is binary data, so it is not written to a terminal. Give a file, or pipe the "
                "output to a program."
            )
        )


def _check_target(path: Path, *, forced: bool) -> None:
    """Raise CallerError before any work is done if the file cannot be written."""
    if path.is_dir() or not path.parent.is_dir():
        raise CallerError(say("{path} is not the path of a file in an existing folder.", path=path))
    if os.path.lexists(path) and not forced:
        raise _exists(path)


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
        from tabane.hub.backup.restore_journal import sync_folder

        part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
        try:
            with open(part, "xb", opener=_private) as stream:
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


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


# -- the hub ---------------------------------------------------------------------------------------------


def _settings_file(terminal: Terminal, place: ServersFile) -> Path:
    """Return the settings file: that of the running hub if it was started with one."""
    from tabane.hub.local import lock

    holder = lock.read_holder(terminal.endpoint().lock) if place.hub else None
    flags = holder.flags if holder else ()
    given = next((flag.partition("=")[2] for flag in flags if flag.startswith("--config=")), None)
    return Path(given) if given and not terminal.config else place.settings.config


def _complete_restore(terminal: Terminal) -> None:
    """Complete a restore that was cut off, if no hub does that."""
    from tabane.hub.backup.restore_journal import JOURNAL, complete_restore
    from tabane.hub.local import lock

    endpoint = terminal.endpoint()
    if not os.path.exists(os.path.join(endpoint.home, JOURNAL)):
        return
    held = lock.acquire(endpoint.lock)
    if held is not None:
        try:
            complete_restore(endpoint.home)
        finally:
            held.release()
