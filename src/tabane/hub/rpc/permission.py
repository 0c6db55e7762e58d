"""Permissions of callers over TCP: everything with the hub's token; the archive without, if a setting allows.

A port of this machine is open to every user of it and every program, so a caller without the token is
nobody in particular. What it may do is marked ``public`` where it is defined.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tabane.errors import Forbidden
from tabane.messages import say
from tabane.operations import Caller, OperationTable, Privilege

LOCAL, LOOPBACK = "local", "loopback"
"""Identities: this machine's user, who has shown the token; and whoever reaches the port."""

OF_THE_USER = frozenset({"stop_server"})
"""Served without the token to a process of the hub's own user: what such a process can do to it anyway."""


@dataclass(frozen=True)
class TokenlessCaller(Caller):
    """A client over TCP without the token. ``uid`` asks the kernel whose process it is; None: unknown.

    ``page``: a web page in a browser. The browser is the user's process, but the user did not choose the
    page's requests.
    """

    uid: Callable[[], int | None] = lambda: None
    page: bool = False


class TcpPermission:
    """The permission of callers over TCP. ``open_archive`` is whether public operations need no token."""

    def __init__(
        self, table: OperationTable, open_archive: Callable[[], bool], token: Callable[[], Path]
    ) -> None:
        self._table, self._open_archive, self._token = table, open_archive, token

    def allows(self, caller: Caller, privilege: Privilege, target: str) -> bool:
        """Return whether a caller may do this.

        Raises Forbidden, which says how to get access, if the token would help.
        """
        if caller.identity == LOCAL:
            return True
        if caller.identity != LOOPBACK:
            return False
        if self._is_open(privilege, target) or (target in OF_THE_USER and _is_the_user(caller)):
            return True
        raise Forbidden(
            say(
                "{method} needs the hub's token. Connect with Authorization: Bearer and the "
                "content of {path}.",
                method=target,
                path=self._token(),
            )
        )

    def _is_open(self, privilege: Privilege, target: str) -> bool:
        """Return whether nobody needs the token for it: a query, never a change."""
        operation = self._table.get(target)
        public = operation is not None and operation.public
        return public and privilege is Privilege.READ and self._open_archive()


def _is_the_user(caller: Caller) -> bool:
    return isinstance(caller, TokenlessCaller) and not caller.page and caller.uid() == os.getuid()
