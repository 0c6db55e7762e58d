"""Settings of the audit log, and the places of its files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from tabane.settings import Settings


class AuditOptions(Struct, frozen=True):
    """The settings of the log, named as there without ``audit_``."""

    mode: Literal["on", "metadata", "off"] = "on"
    size: int = 64 << 20
    files: int = 16
    days: int = 90
    arguments: int = 4096
    redact: tuple[str, ...] = ()
    sync: Literal["1s", "strict"] = "1s"
    full: Literal["stop", "drop"] = "stop"

    @property
    def argument_limit(self) -> int:
        """Return the most bytes of arguments in an entry; 0 for none."""
        return self.arguments if self.mode == "on" else 0


def audit_options(settings: Settings) -> AuditOptions:
    return AuditOptions(
        settings.audit,
        settings.audit_size,
        settings.audit_files,
        settings.audit_days,
        settings.audit_arguments,
        settings.audit_redact,
        settings.audit_sync,
        settings.audit_full,
    )


class AuditPaths(NamedTuple):
    """The folder of the log, its key and its head."""

    folder: str
    key: str
    head: str


def audit_paths(home: str) -> AuditPaths:
    """Return the places in the home of a hub."""
    return AuditPaths(*(os.path.join(home, name) for name in ("audit", "audit.key", "audit.head")))
