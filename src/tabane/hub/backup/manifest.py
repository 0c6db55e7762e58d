"""Manifest of a backup: the first member of its archive, which lists all others with size and checksum."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from tabane.errors import CallerError
from tabane.hub.local.handshake import newer
from tabane.messages import say

NAME = "manifest.json"
FORMAT = 1
"""Version of the archive. A later version is not restored."""

HOME, SETTINGS, SERVERS = "home/", "config/tabane.toml", "config/mcp-servers.json"
"""Places in the archive: the folder of the home's files, the settings file, the servers file."""

LARGEST = 64 << 20
"""Bytes of a manifest."""

MOST_MEMBERS = 200_000

_HEX = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")


class BackupMember(Struct, frozen=True, omit_defaults=True):
    """One file of a backup. ``schema`` is the version of a database."""

    path: str
    size: int
    sha256: str
    schema: int | None = None


class BackupManifest(Struct, frozen=True):
    """The description of a backup's contents.

    ``created`` is in UTC (ISO 8601). ``tabane`` is the build that made it, ``home_format`` the format of its
    home. ``home``, ``settings_file`` and ``servers_file`` are paths on the machine of the backup.
    ``secrets`` are names of secrets that the hub had, without values; ``with_secrets`` says whether the
    archive holds the values. ``replaced`` are variables that are written in place of plain keys.
    ``audit_key`` is a fingerprint of the key of the audit log, empty without one. ``settings_removed`` are
    settings that held a secret. ``left_out`` are unknown files of the home.
    """

    format: int
    created: str
    tabane: str
    home_format: int
    system: str
    home: str
    settings_file: str
    servers_file: str
    with_secrets: bool
    members: tuple[BackupMember, ...]
    secrets: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    audit_key: str = ""
    settings_removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the bytes of all files when they are unpacked."""
        return sum(member.size for member in self.members)

    def has(self, path: str) -> bool:
        return any(member.path == path for member in self.members)


class _ManifestHead(Struct, frozen=True):
    """The members that every version of the manifest has."""

    format: int
    tabane: str = ""


def encoded(manifest: BackupManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decoded(data: bytes, file: str) -> BackupManifest:
    """Return the manifest. Raises CallerError if this version cannot read it or a path in it is not safe."""
    try:
        head = msgspec.json.decode(data, type=_ManifestHead)
        if head.format > FORMAT:
            raise _newer(file, head.tabane)
        manifest = msgspec.json.decode(data, type=BackupManifest)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise damaged(file, say("its list of contents cannot be read")) from None
    _check(manifest, file)
    return manifest


def check_version(manifest: BackupManifest, file: str, build: str, home_format: int) -> None:
    """Raise CallerError if a newer Tabane than this build made the backup."""
    if manifest.home_format > home_format or newer(manifest.tabane, build):
        raise _newer(file, manifest.tabane)


def damaged(file: str, detail: object) -> CallerError:
    return CallerError(
        say(
            "{file} is not a complete backup of Tabane: {detail}. Nothing was changed. Copy the file again, "
            "or use another backup.",
            file=file,
            detail=detail,
        )
    )


def _newer(file: str, theirs: str) -> CallerError:
    return CallerError(
        say(
            "{file} was made by Tabane {theirs}, which is newer than this one. Nothing was changed. Update "
            "Tabane here, and restore it again.",
            file=file,
            theirs=theirs,
        )
    )


def _check(manifest: BackupManifest, file: str) -> None:
    paths = [member.path for member in manifest.members]
    if len(set(paths)) < len(paths) or len(paths) > MOST_MEMBERS:
        raise damaged(file, say("its list of contents cannot be read"))
    for member in manifest.members:
        if not _safe(member.path):
            raise damaged(file, say("{path} is not a path of a backup", path=member.path[:200]))
        if member.size < 0 or not _HEX.fullmatch(member.sha256):
            raise damaged(file, say("its list of contents cannot be read"))


def _safe(path: str) -> bool:
    if path in (SETTINGS, SERVERS):
        return True
    parts = path.removeprefix(HOME).split("/")
    return path.startswith(HOME) and len(parts) <= 2 and all(_PART.fullmatch(part) for part in parts)
