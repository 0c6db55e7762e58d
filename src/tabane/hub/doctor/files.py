"""Checks of Tabane's own files: permissions, disk, caches, documents, model, stores, and the audit log."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing as closed
from functools import partial
from pathlib import Path
from typing import Any

from tabane.audit.chain import ChainEnd, ChainHead, MacChain, find_end, read_key, stored_head
from tabane.audit.entry import AuditPaths, audit_files, audit_paths
from tabane.catalog.tools.listings import ListingsFile
from tabane.errors import AuditError
from tabane.hub.context import HubContext
from tabane.hub.doctor.installation import DoctorFinding, Fix, Installation, LiveHub, fault, note, ok, warning
from tabane.hub.local import lock
from tabane.hub.sources import embedding
from tabane.hub.sources.models.hub_models import HubModels
from tabane.hub.stores.domain_stores import FOLDER
from tabane.messages import Message, language, say
from tabane.search.embedding.embedder import VectorCache
from tabane.servers.variables import Variables

LITTLE, TOO_LITTLE = 500 << 20, 50 << 20
"""Free bytes on the disk of the home: below the first there is a warning, below the second a fault."""

MOST_FILES = 10_000
"""Files of the home that are looked at."""

_OTHERS_WRITE, _OTHERS = 0o022, 0o077
_DATABASES = ("catalogue.db", "tools.db")


def closing(path: Path, bits: int) -> Fix | None:
    """Return a fix that removes others' permissions; None if they have none, or another user owns it."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid() or not mode & bits:
        return None
    return lambda: os.chmod(path, mode & ~bits)


def permissions(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that only the user can access the home and everything in it."""
    home = installation.settings.home
    if not home.is_dir():
        yield ok(
            say("Tabane's home {path} does not exist yet. It is created when it is first needed", path=home)
        )
        return
    open_folders = [path for path in (home, home / "logs") if _lets(path, _OTHERS_WRITE)]
    for path in open_folders:
        yield fault(
            say("Other users can write to {path}, so the hub does not start", path=path),
            say("Make it private: chmod 700 {path}", path=path),
            closing(path, _OTHERS),
        )
    listed = home not in open_folders and _lets(home, _OTHERS)
    if listed:
        yield warning(
            say("Other users can list and open {path}", path=home),
            say("Make it private: chmod 700 {path}", path=home),
            closing(home, _OTHERS),
        )
    readable = [path for path in _files(home) if _lets(path, _OTHERS)]
    if readable:
        yield warning(
            say(
                "Other users can read {count} {count:file|files} of Tabane, such as {path}",
                count=len(readable),
                path=readable[0],
            ),
            say("Make them private: chmod -R go= {path}", path=home),
            lambda: _close_all(readable),
        )
    elif not open_folders and not listed:
        yield ok(say("Only you have access to Tabane's home {path}", path=home))


def disk(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the disk has room for logs and caches."""
    folder = installation.settings.home
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    yield room(found.f_bavail * found.f_frsize, installation.settings.home)


def room(free: int, home: Path) -> DoctorFinding:
    """Return the finding for a number of free bytes."""
    megabytes = free >> 20
    if free >= LITTLE:
        return ok(say("Free disk space: {free} GB", free=f"{free / 1e9:,.1f}"))
    found = fault if free < TOO_LITTLE else warning
    return found(
        say("Only {free} MB are free on the disk that holds {path}", free=megabytes, path=home),
        say("Free some disk space, or set TABANE_HOME to a folder on another disk."),
    )


def caches(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the caches are intact, and hold nothing of servers that were removed."""
    home, runs = installation.settings.home, installation.live is not None
    for path in (home / name for name in _DATABASES):
        if path.exists() and not _whole(path):
            again = say("Restart the hub to rebuild it: tabane restart")
            yield warning(
                say("{path} is damaged. Tabane asks the servers again for its contents.", path=path),
                again if runs else say("Move it aside: tabane doctor --fix"),
                None if runs else _unless_served(installation, _aside(path)),
            )
    stale = [] if installation.configuration is None else _stale(installation, home / _DATABASES[0])
    if stale:
        yield note(
            say(
                "The cache still has tools of servers that are no longer configured: {names}",
                names=", ".join(stale),
            ),
            say("Delete them: tabane doctor --fix"),
            lambda: _forget(home / _DATABASES[0], stale),
        )
    left = sorted([*home.glob("*.broken"), *(home / FOLDER).glob("*.broken")]) if home.is_dir() else []
    if left:
        yield note(
            say("A damaged cache was moved aside: {path}", path=left[0]),
            say("Delete it: tabane doctor --fix"),
            lambda: _delete(left),
        )


def _lets(path: Path, bits: int) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return not stat.S_ISLNK(status.st_mode) and bool(status.st_mode & bits)


def _files(home: Path) -> list[Path]:
    found: list[Path] = []
    for folder, _, names in os.walk(home):
        # secrets.env is read with the servers file, where it is a fault.
        paths = (Path(folder, name) for name in names if name != "secrets.env")
        found += [path for path in paths if not path.is_socket()]
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def _close_all(paths: Iterable[Path]) -> None:
    for path in paths:
        close = closing(path, _OTHERS)
        if close:
            close()


def _whole(path: Path) -> bool:
    try:
        with closed(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True, timeout=2)) as database:
            return bool(database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError:
        return True  # locked, or not to be opened: that says nothing about what is in it
    except sqlite3.DatabaseError:
        return False


def _stale(installation: Installation, path: Path) -> list[str]:
    if not path.exists() or not _whole(path) or installation.configuration is None:
        return []
    from tabane.servers.projects.project_servers import with_projects  # only if there is a cache

    every = with_projects(installation.configuration, installation.settings.home, Variables({}))
    known = {server.name for server in every.servers}
    try:
        with closed(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True, timeout=2)) as database:
            rows = database.execute("SELECT server FROM listing ORDER BY server").fetchall()
    except sqlite3.Error:
        return []
    return [name for (name,) in rows if name not in known]


def _forget(path: Path, servers: list[str]) -> None:
    with closed(ListingsFile(path)) as listings:
        listings.forget(servers)


def _unless_served(installation: Installation, fix: Fix) -> Fix:
    """Return a fix that does nothing if a hub has begun to use the home since the check."""

    def work() -> None:
        held = lock.acquire(installation.endpoint.lock)
        if held is not None:
            try:
                fix()
            finally:
                held.release()

    return work


def _aside(path: Path) -> Fix:
    return lambda: os.replace(path, path.with_suffix(".broken"))


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def roots(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the folders exist that assistants may put files from."""
    for root in installation.settings.documents_roots:
        path = Path(root).expanduser()
        if not path.is_dir():
            yield warning(
                say("{path}, a folder from which assistants may save files, is not a folder", path=path),
                say("Create the folder, or remove it from the setting documents_roots"),
            )


def watched(installation: Installation) -> Iterator[DoctorFinding]:
    """Check with the running hub that the documents of watched folders are up to date."""
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
    """Report the model, from the running hub, or else from the files. Nothing is downloaded."""
    told = installation.live.model if installation.live else _model_without_hub(installation)
    if told is None:
        return  # a hub of a version without models
    for missing in told.get("missing", ()):
        yield warning(Message(missing["problem"]))
    for former in told.get("former", ()):
        yield note(Message(former))
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
    """Check that only the hub's user can open the embedded texts."""

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        return


def _model_without_hub(installation: Installation) -> Mapping[str, Any]:
    async def kept() -> VectorCache:
        return _UnopenedVectors()

    async def look() -> Mapping[str, Any]:
        context = HubContext(installation.settings, installation.environ, asyncio.get_running_loop())
        models = HubModels(context, kept)
        locales = (installation.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
        try:
            return await models.report(language(installation.settings.lang, *locales))
        finally:
            await models.close()

    return asyncio.run(look())


def stores(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the state of each store, from the running hub, or else from the files."""
    rows = installation.live.stores if installation.live else _check_stores(installation, mend=False)
    for row in rows:
        yield _store_finding(installation, row)
        yield from (_index_finding(each) for each in row.get("indexes", ()) if each["state"] == "missing")
        if "vector_index" in row:
            yield _outside_finding(row["vector_index"])
        yield from map(_replica_finding, row.get("replicas", ()))


def _store_finding(installation: Installation, row: dict[str, Any]) -> DoctorFinding:
    if row["domain"] == "*":
        if row["state"] != "ok":
            return fault(say("{error}", error=row["error"]))
        return ok(
            say(
                "{path} answers ({server}, pgvector {pgvector})",
                path=row["path"],
                server=row["server"],
                pgvector=row["pgvector"],
            )
        )
    path = row["path"]
    if row["state"] == "unused":
        title = say("{path} is not used, because the setting engine names a database", path=path)
        hint = say("Import its contents again if you need them, or remove the setting engine.")
        return warning(title, hint)
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


def _index_finding(index: dict[str, Any]) -> DoctorFinding:
    title = say(
        "{domain} ({space}) has {count} {count:vector|vectors} and no approximate index, so searches by "
        "meaning are exact, but slow",
        domain=index["domain"],
        space=index["space"],
        count=index["vectors"],
    )
    hint = say("The hub starts its build with the next search or change. If that fails, the log says why.")
    return warning(title, hint)


def _replica_finding(row: Mapping[str, Any]) -> DoctorFinding:
    name = row["collection"]
    if row["state"] == "failed":
        hint = say("Searches go to the database, and cannot go on without it.")
        return warning(say("The local copy of {name} fails: {error}", name=name, error=row["error"]), hint)
    if row["state"] == "copying":
        return note(say("The local copy of {name} is being made. The database answers meanwhile", name=name))
    if row["state"] == "current":
        return ok(say("The local copy of {name} is up to date", name=name))
    if row["state"] == "away":
        return warning(say("Searches of {name} go on with the local copy. Writes fail", name=name))
    return warning(say("The local copy of {name} lacks the latest changes of the database", name=name))


def _outside_finding(index: dict[str, Any]) -> DoctorFinding:
    if index["state"] == "ready":
        return ok(say("{path} answers ({server})", path=index["path"], server=index["server"]))
    error = index.get("error") or say("{place}: the vector index has not answered yet", place=index["path"])
    hint = say("Searches go on in PostgreSQL, but are slow. Check that the index runs, and vector_index.")
    return warning(say("{error}", error=error), hint)


def _check_stores(installation: Installation, *, mend: bool) -> list[dict[str, Any]]:
    async def look() -> list[dict[str, Any]]:
        found = embedding.stores_of(installation.settings, installation.environ)
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


def audit_log(installation: Installation) -> Iterator[DoctorFinding]:
    """Check the permissions and the end of the log, and whether calls are recorded. Reads only its end."""
    paths = audit_paths(str(installation.settings.home))
    private = closing(Path(paths.folder), 0o077)
    if private is not None:
        yield warning(
            say("Other users can list and open {path}", path=paths.folder),
            say("Make it private: chmod 700 {path}", path=paths.folder),
            private,
        )
    if installation.live is not None:
        yield from _written(installation.live)
    if installation.settings.audit == "off":
        yield note(say("The audit log is off: calls are not recorded (setting audit)"))
    else:
        yield from _end(paths)


def _written(live: LiveHub) -> Iterator[DoctorFinding]:
    problem, lost = live.status.get("audit_problem"), live.status.get("audit_lost")
    if problem:
        yield fault(say("{problem}", problem=problem))
    if lost:
        yield warning(
            say(
                "{count} {count:call is|calls are} missing in the audit log since the hub started", count=lost
            ),
            say("Reasons are in the hub's log: tabane logs"),
        )


def _end(paths: AuditPaths) -> Iterator[DoctorFinding]:
    """Compare the last entries with the head, which is stored apart from them."""
    try:
        stored = stored_head(paths)  # before the files: a running hub may add entries in the meantime
        if stored is None and not audit_files(paths.folder):
            return
        end = find_end(paths.folder, stored, MacChain(read_key(paths.key)))
    except AuditError as error:
        yield fault(error.message)
        return
    except OSError as error:
        yield fault(
            say(
                "{path} cannot be read: {reason}",
                path=error.filename or paths.folder,
                reason=error.strerror or str(error),
            )
        )
        return
    yield _judged(paths, stored, end)


def _judged(paths: AuditPaths, stored: ChainHead | None, end: ChainEnd) -> DoctorFinding:
    verify = say("See what is wrong: tabane audit verify")
    if stored is None:
        return warning(
            say("The head of the audit log is missing, so missing entries cannot be detected"), verify
        )
    if end.head.seq < stored.seq:
        count = stored.seq - end.head.seq
        return warning(
            say("The last {count} {count:entry|entries} of the audit log are missing", count=count), verify
        )
    if not end.verified or (end.head.seq == stored.seq and end.head.mac != stored.mac):
        return warning(say("The last entries of the audit log were changed"), verify)
    return ok(
        say(
            "Audit log: {path}, {count} {count:entry|entries} so far",
            path=paths.folder,
            count=end.head.seq,
        )
    )
