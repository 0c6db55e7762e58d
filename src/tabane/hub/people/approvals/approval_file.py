"""The file of the approvals that outlive a hub: ``approvals.json`` in the home, mode 0600."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from tabane.errors import ConfigurationError, StoreError
from tabane.guard.approvals.approval import Approval
from tabane.messages import say
from tabane.settings.files import read_private, write_private

log = logging.getLogger(__name__)

NAME = "approvals.json"
LONGEST = 16 << 20
"""Bytes of the file: far more than as many approvals need as there can be."""


class ApprovalFile:
    """Reads and writes the file. Both block."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME

    def read(self) -> tuple[Approval, ...]:
        """Return the approvals of earlier hubs. None is valid if the file may have been changed by others."""
        try:
            return msgspec.json.decode(read_private(self._path, LONGEST), type=tuple[Approval, ...])
        except FileNotFoundError:
            return ()
        except (ConfigurationError, msgspec.DecodeError) as error:
            log.warning("the approvals of earlier hubs are not valid any more: %s", error)
            return ()

    def write(self, approvals: tuple[Approval, ...]) -> None:
        """Replace the approvals; they are on disk at the return. Raises StoreError."""
        try:
            write_private(self._path, msgspec.json.encode(approvals))
        except OSError as error:
            raise StoreError(
                say(
                    "{path} cannot be written ({reason}), so no call can be approved. Check the disk.",
                    path=self._path,
                    reason=error.strerror,
                )
            ) from None
