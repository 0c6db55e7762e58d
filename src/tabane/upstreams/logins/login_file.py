"""The file of logins: `logins.json` in the home, mode 0600. With the keyring, it has only their names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import msgspec
from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.servers.variables import SERVICE, keyring_lookup
from tabane.settings.files import read_private, write_private
from tabane.upstreams.logins.kept_login import KeptLogin

LOGINS_FILE = "logins.json"
_IN_KEYRING = "login:"
"""Beginning of the names of logins in the keyring. No variable can have such a name."""


class _LoginDocument(Struct, frozen=True, omit_defaults=True):
    """``kept`` are the names whose logins are in the keyring."""

    version: int = 1
    logins: dict[str, KeptLogin] = {}
    kept: tuple[str, ...] = ()


class LoginFile:
    """Reads and writes all logins of a home; it blocks. ``keyring``: they are in the system's keyring."""

    def __init__(self, home: Path, *, keyring: bool) -> None:
        self._path, self._keyring = home / LOGINS_FILE, keyring

    def read(self) -> dict[str, KeptLogin]:
        """Return the logins by the names of their servers. Raises ConfigurationError."""
        document = self._document()
        found = dict(document.logins)
        for name in document.kept if self._keyring else ():
            text = keyring_lookup()(_IN_KEYRING + name)
            with suppress(msgspec.MsgspecError):
                if text:
                    found[name] = msgspec.json.decode(text, type=KeptLogin)
        return found

    def write(self, logins: Mapping[str, KeptLogin], changed: str) -> None:
        """Replace all logins, of which only that of ``changed`` differs. It is on disk at the return.

        Raises ConfigurationError.
        """
        if not self._keyring:
            self._replace(_LoginDocument(logins=dict(logins)))
            return
        before = self._document()
        for name in {changed, *before.logins}:  # those in the file are from before the keyring was used
            login = logins.get(name)
            if login is not None:
                self._ask_keyring("set_password", name, msgspec.json.encode(login).decode())
            elif name in before.kept:
                self._ask_keyring("delete_password", name)
        self._replace(_LoginDocument(kept=tuple(sorted(logins))))

    def _document(self) -> _LoginDocument:
        try:
            return msgspec.json.decode(read_private(self._path), type=_LoginDocument)
        except FileNotFoundError:
            return _LoginDocument()
        except msgspec.MsgspecError as error:
            raise ConfigurationError(say(
                "{path} is damaged: {reason}. Delete it, and log in again.",
                path=self._path, reason=str(error)[:200])) from None  # fmt: skip

    def _replace(self, document: _LoginDocument) -> None:
        try:
            write_private(self._path, msgspec.json.encode(document))
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=self._path, reason=error.strerror)
            ) from None

    def _ask_keyring(self, what: str, name: str, *given: str) -> None:
        keyring_lookup()  # says how to install it
        keyring = import_module("keyring")
        try:
            getattr(keyring, what)(SERVICE, _IN_KEYRING + name, *given)
        except keyring.errors.PasswordDeleteError:
            return
        except keyring.errors.KeyringError as error:
            raise ConfigurationError(
                say("The system's keyring cannot be changed: {detail}.", detail=error)
            ) from None


def file_of_backup(home: Path, *, keyring: bool) -> bytes | None:
    """Return the file as a backup with secrets contains it, those of the keyring included; None if empty."""
    logins = LoginFile(home, keyring=keyring).read()
    return msgspec.json.encode(_LoginDocument(logins=logins)) if logins else None
