"""Files of a home: those that a backup contains, those that are secret, and those that are made again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from tabane.audit.entry import USAGE, audit_files
from tabane.guard.definitions.pins import PINS_FILE
from tabane.hub.local.known_hubs import FOLDER as HUBS
from tabane.hub.people.flows import TRAIL_FILE as TRAILS
from tabane.hub.people.flows import WRITTEN_FILE as WRITTEN
from tabane.hub.people.flows.flow_files import PAIR_FILE as PAIRS
from tabane.hub.servers.result_types import TYPE_FILE as TYPES
from tabane.hub.sources.archive import UPLOADS
from tabane.hub.stores.domain_stores import DERIVED, REPLICAS
from tabane.hub.stores.domain_stores import FOLDER as STORE
from tabane.net.own_authority import CA, CA_KEY, CERTIFICATE, KEY
from tabane.net.own_authority import FOLDER as TLS
from tabane.reader.cookies import FOLDER as COOKIES
from tabane.upstreams.logins.login_book import LOGINS_FILE

AUDIT, AUDIT_HEAD, AUDIT_KEY = "audit", "audit.head", "audit.key"
SECRETS, TOKEN = "secrets.env", "token"

SECRET_FILES = (
    TOKEN,
    AUDIT_KEY,
    LOGINS_FILE,
    *(f"{TLS}/{name}" for name in (CERTIFICATE, KEY, CA, CA_KEY)),
)
"""Files that are in a backup with secrets only, besides secrets.env. Both it and logins get the keyring's."""

_DATABASES = ("access.db", "catalogue.db", PINS_FILE, f"{AUDIT}/{USAGE}")
_FILES = (
    AUDIT_HEAD,  # before the log: a log that is longer than its head is whole, a shorter one is not
    "models.json",
    "reembed",
    "posts_history",
    PAIRS,
    WRITTEN,
    TYPES,
    f"{STORE}/documents.watched",
    f"{STORE}/posts.imported",
)
_MADE_AGAIN = frozenset(
    (
        *(
            "backups",
            "cages",
            "environment",
            "path",
            "hub.lock",
            "hub.sock",
            "keyring-names",
            "logs",
            "models",
        ),
        *(
            COOKIES,  # sessions of other sites: they are imported again
            HUBS,  # keys for hubs on other machines: `tabane install --url` writes them again
            TRAILS,
            REPLICAS,
            "registry-cache",
            "reserve",
            "script-worker",
            "setup",  # whole files of this machine's assistants, with their keys: `tabane setup` writes them
            "sites.db",  # pages are read again; what it says of documents is not true of older ones
            "tasks.db",
            "tools.db",
            UPLOADS,
            "approval-decisions.json",
            "approvals.json",  # of calls of this machine's assistants
            "version",
            "web-sessions.json",
        ),
    )
)
_COMPANIONS = ("-wal", "-shm", "-journal", ".lock", ".clean", ".broken", ".bak", ".part")

REPLACED = (
    PAIRS,
    WRITTEN,
    TYPES,
    *(STORE, AUDIT, AUDIT_HEAD, "models.json", "reembed", "posts_history", "tools.db", "web-sessions.json"),
    *(f"{name}.db{end}" for name in ("tasks", "sites") for end in ("", "-wal", "-shm")),
    *(
        name + end
        for name in ("access.db", "catalogue.db", PINS_FILE)
        for end in ("", "-wal", "-shm", "-journal")
    ),
)
"""Entries of a home that a restored one does not keep. Secrets are replaced only by secrets."""


def store_databases(home: Path) -> list[Path]:
    """Return the databases of records. That of a domain's vectors is beside each."""
    found = sorted((home / STORE).glob("*.db"))
    return [
        path
        for path in found
        if not path.name.endswith(".vectors.db") and path.name.removesuffix(".db") not in DERIVED
    ]


def other_databases(home: Path) -> list[Path]:
    """Return the databases of a home beside its stores, those that exist."""
    return [path for name in _DATABASES if (path := home / name).exists()]


def plain_files(home: Path) -> Iterator[Path]:
    """Yield the files that are copied as they are, in the order in which they have to be."""
    yield from (path for name in _FILES if (path := home / name).is_file())
    yield from (Path(file.path) for file in audit_files(str(home / AUDIT)))


def unknown_entries(home: Path) -> tuple[str, ...]:
    """Return the names in a home that are not Tabane's."""
    known = {*_MADE_AGAIN, *REPLACED, *SECRET_FILES, SECRETS, TLS}
    return tuple(sorted(name for name in os.listdir(home) if not _is_known(name, known)))


def has_content(home: Path) -> str | None:
    """Return a file that somebody would miss if it was gone; None if there is none."""
    stored = [path for path in store_databases(home) if path.stat().st_size]
    others = (home / name for name in ("access.db", SECRETS))
    return next((str(path) for path in (*stored, *others) if path.exists()), None)


def key_fingerprint(home: Path) -> str:
    """Return what identifies the key of the audit log without revealing it; empty if there is none."""
    try:
        key = (home / AUDIT_KEY).read_bytes().strip()
    except OSError:
        return ""
    return hashlib.sha256(b"tabane audit key\n" + key).hexdigest()[:32]


def _is_known(name: str, known: set[str]) -> bool:
    if name in known or name.startswith((".", "audit-", "before-restore-", "restore-")):
        return True
    return any(name.removesuffix(end) in known for end in _COMPANIONS if name.endswith(end))
