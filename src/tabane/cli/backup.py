"""`tabane backup`, `restore` and `migrate`: data of a hub in one file, put back, or in another engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tabane.build import this_build
from tabane.cli.drawing import Bar
from tabane.cli.hub_process import end_hub
from tabane.cli.options import json_option, keep, option
from tabane.cli.output import Command, Terminal, examples, lang, text
from tabane.cli.passphrase import check_passphrase
from tabane.cli.servers_file import ServersFile, file_option
from tabane.errors import CallerError, HubError, TabaneError
from tabane.hub.local import lock
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
    from tabane.hub.stores.migration import MigratedCollection

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


def _list(terminal: Terminal, archive: str) -> None:
    from tabane.hub.backup.restoring import read_manifest

    with opened(archive) as stream:
        manifest = read_manifest(stream, archive)
    if not terminal.show_json(
        {"path": os.path.abspath(archive), **described(manifest), "files": _rows(manifest)}
    ):
        _print_manifest(terminal, manifest)


def _print_manifest(terminal: Terminal, manifest: BackupManifest) -> None:
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

    holder = lock.read_holder(terminal.endpoint().lock) if place.hub else None
    flags = holder.flags if holder else ()
    given = next((flag.partition("=")[2] for flag in flags if flag.startswith("--config=")), None)
    return Path(given) if given and not terminal.config else place.settings.config


def _complete_restore(terminal: Terminal) -> None:
    """Complete a restore that was cut off, if no hub does that."""
    from tabane.hub.backup.restore_journal import JOURNAL, complete_restore

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


@click.command(
    "restore",
    cls=Command,
    help=say(
        "Restore the backup FILE into TABANE_HOME, the settings file and the servers file. - is standard "
        "input. The whole backup is verified first. No hub may run in that home. What is missing on this "
        "machine is listed: secrets, programs of servers, and folders."
    ),
    epilog=examples(
        "tabane restore tabane.tar.gz",
        "tabane restore --stop --force tabane.tar.gz",
        "tabane backup --list tabane.tar.gz",
    ),
)
@click.argument("archive", metavar="FILE", type=click.Path())
@option(
    "--force",
    "forced",
    is_flag=True,
    help=say("Replace an existing home. Its former content is kept beside it."),
)
@option("--stop", "stopping", is_flag=True, help=say("Stop the hub first if one runs in that home."))
@option(
    "--servers",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=say("Where to put the servers file."),
)
@option(
    "--config", metavar="FILE", type=click.Path(), expose_value=False, callback=keep("config"),
    help=say("The settings file."),
)  # fmt: skip
@json_option
@click.pass_obj
def restore(terminal: Terminal, archive: str, forced: bool, stopping: bool, file: Path | None) -> None:
    from tabane.hub.backup.restore_journal import complete_restore
    from tabane.hub.backup.restoring import RestoreTarget, restore_backup
    from tabane.hub.process.home_version import FORMAT, refuse_downgrade

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
    _tell_restored(terminal, endpoint, done)


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


def _tell_restored(terminal: Terminal, endpoint: Endpoint, done: RestoredBackup) -> None:
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


def _print_restored(
    terminal: Terminal,
    endpoint: Endpoint,
    done: RestoredBackup,
    secrets: dict[str, tuple[str, ...]],
    problems: list[Message],
) -> None:
    made = done.manifest.created
    terminal.say(say("The backup of {made} was restored to {home}.", made=made, home=endpoint.home))
    for folder in dict.fromkeys(_kept_places(endpoint, done)):
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


def _kept_places(endpoint: Endpoint, done: RestoredBackup) -> Iterator[str]:
    home = os.path.realpath(endpoint.home)
    for target, kept in done.kept.items():
        yield os.path.dirname(kept) if os.path.dirname(target) == home else kept


def _missing(terminal: Terminal, done: RestoredBackup) -> tuple[dict[str, tuple[str, ...]], list[Message]]:
    """Return the secrets that nobody sets here, and other problems."""
    from tabane.hub.backup.restoring import missing_secrets, server_problems, setting_problems

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


_EVERY = 10.0  # seconds between two lines of progress where no terminal is


@click.command(
    "migrate",
    cls=Command,
    help=say(
        "Copy all posts, documents and pages with their vectors from one engine to another, and verify the "
        "copy. A PLACE is the URL of a PostgreSQL database, or the folder of a hub (TABANE_HOME). No hub may "
        "use the two places meanwhile. The target must be empty. If the command is interrupted, run it "
        "again: it continues. The source is not changed."
    ),
    epilog=examples(
        "tabane migrate --from ~/.tabane --to 'postgresql://tabane:${PGPASSWORD}@db.example.com/tabane'",
        "tabane migrate --from 'postgresql://tabane:${PGPASSWORD}@db.example.com/tabane' --to ~/.tabane",
    ),
)
@option("--from", "source", metavar="PLACE", required=True, help=say("What is copied."))
@option("--to", "target", metavar="PLACE", required=True, help=say("Where it is copied to."))
@option(
    "--config", metavar="FILE", type=click.Path(), expose_value=False, callback=keep("config"),
    help=say("The settings file."),
)  # fmt: skip
@json_option
@click.pass_obj
def migrate(terminal: Terminal, source: str, target: str) -> None:
    from tabane.hub.sources.embedded_collections import OWN, SHAPES
    from tabane.hub.stores.migration import Migration, place_of

    settings = load_settings({"config": terminal.config}, os.environ)
    shapes = {
        domain: [shape for shape in several if shape.name not in OWN] for domain, several in SHAPES.items()
    }
    places = [place_of(address, settings, os.environ) for address in (source, target)]
    with _MigrationProgress(terminal) as lines:
        done = asyncio.run(Migration(places[0], places[1], shapes, lines.tell).run())
    result = {"status": "migrated", "from": places[0].name, "to": places[1].name}
    if not terminal.show_json({**result, "collections": [asdict(each) for each in done]}):
        _print_migrated(terminal, done, target, database="://" in target)


def _print_migrated(
    terminal: Terminal, done: list[MigratedCollection], target: str, *, database: bool
) -> None:
    terminal.table(
        [say("collection"), say("records"), say("vectors"), say("records a second"), say("compared")],
        [
            (
                each.name,
                f"{each.records:,}",
                f"{sum(each.vectors.values()):,}",
                f"{each.copied / each.copying:,.0f}" if each.copied else "–",
                f"{each.queries:,}",
            )
            for each in done
        ],
    )
    terminal.say(
        say(
            "Everything was copied. The compared counts and records are equal, and the compared queries "
            "agree."
        )
    )
    if database:
        terminal.say(say("To use the database, write this into tabane.toml:"))
        terminal.say(f'  engine = "{target}"')
    else:
        terminal.say(say("To use this folder, remove the setting engine from tabane.toml."))


class _MigrationProgress:
    """The progress of a migration: a bar on a terminal; else a line every few seconds."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._bar = terminal, Bar(lang())
        self._stage = ("", "")
        self._began, self._first, self._said = 0.0, 0, time.monotonic()

    def __enter__(self) -> _MigrationProgress:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def tell(self, title: Message, name: str, done: int, total: int) -> None:
        now, stage = time.monotonic(), (text(title), name)
        if stage != self._stage:
            self._stage, self._began, self._first = stage, now, done
        elapsed, made = now - self._began, done - self._first
        rate = made / elapsed if elapsed > 1 and made else None
        left = (total - done) / rate if rate and total >= done else None
        self._bar.show(
            {"title": stage[0], "note": name, "done": done, "total": total, "rate": rate, "left": left}
        )
        if not self._bar.wanted and now - self._said >= _EVERY:
            self._said = now
            message = say(
                "{stage}: {name}, {done} of {total}", stage=title, name=name, done=done, total=total
            )
            self._terminal.note(message)
