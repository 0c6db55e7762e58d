"""Token of a hub, and permissions over TCP: all with the token; the archive without, if a setting allows.

A port of this machine is open to all its users and programs, so a caller without the token is unknown. The
operations that it may call are marked ``public`` in their definition.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

from tabane.errors import ConfigurationError, Forbidden
from tabane.hub.context import HubContext
from tabane.messages import say
from tabane.operations import Access, CallTarget
from tabane.settings.files import read_private, write_private
from tabane.settings.limit_rules import LOOPBACK_TIER

BITS = 256
FEWEST = 16
"""Least number of characters of a token: a shorter one could be guessed."""

_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")
"""Characters of a bearer token (RFC 6750, 2.1)."""

_MOST = 4096


def token_file(home: Path) -> Path:
    """Return the path of the file with the hub's token."""
    return home / "token"


def load_token(home: Path) -> str:
    """Return the token of this home; it is created if there is none.

    Raises ConfigurationError if others can read the file, or its content is not a token.
    """
    path = token_file(home)
    try:
        text = read_private(path, _MOST).decode("ascii", "replace").strip()
    except FileNotFoundError:
        token = base64.urlsafe_b64encode(os.urandom(BITS // 8)).rstrip(b"=")
        try:
            write_private(path, token + b"\n")
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
            ) from None
        return token.decode()
    if len(text) < FEWEST or not _CHARACTERS.issuperset(text) or "=" in text.rstrip("="):
        raise ConfigurationError(
            say(
                "{path} contains no valid token. A token has at least {count} {count:letter|letters}, "
                "digits or -._~+/ and no spaces. Delete the file: the next start of the hub creates a new "
                "one.",
                path=path,
                count=FEWEST,
            )
        )
    return text


LOCAL, LOOPBACK = "local", "loopback"
"""Identities: this machine's user, who has shown the token; and any other caller that reaches the port."""

OF_THE_USER = frozenset({"stop_server"})
"""Served without the token to a process of the hub's own user, which could end the hub by a signal anyway."""


class LoopbackAccess(Access):
    """The access of a client over TCP without an identity: public operations, if a setting allows them.

    ``open_archive`` is that setting. ``uid`` returns the owner of the client's process; None if it is
    unknown. ``page``: a web page in a browser. The browser is the user's process,
    but the user did not choose the page's requests.
    """

    holder = LOOPBACK
    label = ""
    tier = LOOPBACK_TIER
    everything = False

    def __init__(
        self, context: HubContext, uid: Callable[[], int | None] | None = None, *, page: bool = False
    ) -> None:
        self._context, self._uid, self._page = context, uid, page

    @property
    def revision(self) -> int:
        return int(self._context.settings.open_archive)

    def allows(self, target: CallTarget) -> bool:
        """Return whether a caller may do this.

        Raises Forbidden, which says how to get access, if the token would help.
        """
        if target.public and self._context.settings.open_archive:
            return True
        of_the_user = target.name in OF_THE_USER and target.kind == "operation" and not self._page
        if of_the_user and self._uid is not None and self._uid() == os.getuid():
            return True
        raise Forbidden(
            say(
                "{method} needs the hub's token. Connect with Authorization: Bearer and the "
                "content of {path}.",
                method=target.name,
                path=token_file(self._context.home),
            )
        )

    def sees_server(self, server: str) -> bool:
        return False
