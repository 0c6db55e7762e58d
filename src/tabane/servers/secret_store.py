"""The secrets of a home: kept, listed and removed, in secrets.env or the system's keyring.

secrets.env is changed under the lock of its folder and replaced in one step. A keyring cannot be listed, so
the names that it holds for Tabane are in the file `keyring-names` beside it, without values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import say
from tabane.servers.editing import folder_lock
from tabane.servers.secrets_file import NAME, decoded_secrets, parse_secrets, with_secret, without_secret
from tabane.servers.variables import SERVICE, keyring_lookup
from tabane.settings.files import private_folder, read_private, write_private

SECRETS_FILE = "secrets.env"
KEYRING_NAMES = "keyring-names"
LONGEST = 64 * 1024
"""Characters of a value: enough for a private key."""

SecretPlace = Literal["secrets.env", "keyring"]


class SecretStore:
    """Keeps secrets in a home. ``keyring``: new ones go to the system's keyring. All of it blocks."""

    def __init__(self, home: Path, *, keyring: bool) -> None:
        self._home, self._keyring = home, keyring
        self._file, self._names = home / SECRETS_FILE, home / KEYRING_NAMES

    def places(self) -> dict[str, SecretPlace]:
        """Return where each secret is kept, by name. Raises ConfigurationError."""
        found: dict[str, SecretPlace] = dict.fromkeys(self._in_keyring(), "keyring") if self._keyring else {}
        return {**found, **dict.fromkeys(parse_secrets(self._text(), str(self._file)), "secrets.env")}

    def get(self, name: str) -> str | None:
        """Return the value that is kept; None if there is none. Raises ConfigurationError."""
        in_file = parse_secrets(self._text(), str(self._file)).get(name)
        return keyring_lookup()(name) if in_file is None and self._keyring else in_file

    def keep(self, name: str, value: str) -> SecretPlace:
        """Keep a value, and return where. Raises BadArguments and ConfigurationError."""
        check_name(name)
        if not value or "\0" in value or len(value) > LONGEST:
            raise BadArguments(
                say(
                    "A secret must have 1 to {limit} {limit:character|characters} and no null character.",
                    limit=LONGEST,
                ),
                "value",
            )
        private_folder(self._home)
        with self._locked():
            if not self._keyring:
                self._write(lambda text: with_secret(text, name, value, str(self._file)))
                return "secrets.env"
            self._ask_keyring("set_password", name, value)
            # The file would hide the newer value.
            self._write(lambda text: without_secret(text, name, str(self._file)))
            self._note({*self._in_keyring(), name})
            return "keyring"

    def forget(self, name: str) -> bool:
        """Remove a secret from where it is kept. Return whether there was one. Raises ConfigurationError."""
        place = self.places().get(name)
        if place is None:
            return False
        with self._locked():
            self._write(lambda text: without_secret(text, name, str(self._file)))
            if self._keyring and name in self._in_keyring():
                self._ask_keyring("delete_password", name)
                self._note({*self._in_keyring()} - {name})
        return True

    def _locked(self) -> Any:
        return folder_lock(self._file)

    def _text(self) -> str:
        try:
            return decoded_secrets(str(self._file), read_private(self._file))
        except FileNotFoundError:
            return ""

    def _write(self, edit: Callable[[str], str]) -> None:
        before = self._text()
        after = edit(before)
        if after != before:
            self._replace(self._file, after)

    def _replace(self, path: Path, text: str) -> None:
        try:
            write_private(path, text.encode())
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
            ) from None

    def _in_keyring(self) -> list[str]:
        with suppress(FileNotFoundError):
            text = decoded_secrets(str(self._names), read_private(self._names))
            return [name for name in text.split() if NAME.fullmatch(name)]
        return []

    def _note(self, names: set[str]) -> None:
        # Written also if nothing changed, so that a hub that follows the file reads the new value.
        self._replace(self._names, "".join(f"{name}\n" for name in sorted(names)))

    def _ask_keyring(self, what: str, *given: str) -> None:
        keyring_lookup()  # says how to install it
        keyring = import_module("keyring")
        try:
            getattr(keyring, what)(SERVICE, *given)
        except keyring.errors.KeyringError as error:
            raise ConfigurationError(
                say("The system's keyring cannot be changed: {detail}.", detail=error)
            ) from None


def check_name(name: str) -> None:
    """Raise BadArguments if a secret cannot have that name."""
    if not NAME.fullmatch(name) or len(name) > 200:
        raise BadArguments(
            say("{name} is not a name of a variable. Write it as in API_KEY.", name=os.fspath(name)), "name"
        )
