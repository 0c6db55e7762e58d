"""The token of a hub: a secret in a file that only its user can read."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.settings.files import read_private, write_private

BITS = 256
FEWEST = 16
"""Characters that a token written by hand has at least: a shorter one could be guessed."""

_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")
"""What a bearer token is made of (RFC 6750, 2.1)."""

_MOST = 4096


def token_file(home: Path) -> Path:
    return home / "token"


def load_token(home: Path) -> str:
    """Return the token of this home; it is created if there is none.

    Raises ConfigurationError if others can read the file, or its content is no token.
    """
    path = token_file(home)
    try:
        text = read_private(path, _MOST).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return _create_token(path)
    if len(text) < FEWEST or not _CHARACTERS.issuperset(text) or "=" in text.rstrip("="):
        raise ConfigurationError(
            say(
                "{path} contains no valid token. A token has at least {count} letters, digits or "
                "-._~+/ and no spaces. Delete the file: the next start of the hub creates a new "
                "one.",
                path=path,
                count=FEWEST,
            )
        )
    return text


def _create_token(path: Path) -> str:
    token = base64.urlsafe_b64encode(os.urandom(BITS // 8)).rstrip(b"=")
    try:
        write_private(path, token + b"\n")
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from None
    return token.decode()
