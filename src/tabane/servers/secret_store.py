"""The secrets of a home: kept, listed and removed, in secrets.env or the system's keyring.

secrets.env is changed under the lock of its folder and replaced in one step. A keyring cannot be listed, so
the names that it holds for Tabane are in the file `keyring-names` beside it, without values. Secrets in plain
text in a definition move into the store as a whole, under names of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tabane.errors import BadArguments, ConfigurationError, TabaneError
from tabane.messages import say
from tabane.servers.editing import folder_lock
from tabane.servers.plain_secrets import PlainSecret, plain_secrets, with_variables, words_of
from tabane.servers.variables import (
    NAME,
    PLAIN,
    SERVICE,
    decoded_secrets,
    escaped,
    keyring_lookup,
    names_in,
    parse_secrets,
    with_secret,
    without_secret,
)
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

    def values(self) -> dict[str, str]:
        """Return all secrets that are kept, by name. Raises ConfigurationError."""
        found = {name: self.get(name) for name in self.places()}
        return {name: value for name, value in found.items() if value is not None}

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
        """Remove a secret from its place. Return whether there was one. Raises ConfigurationError."""
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


READER_KEYS = ("GITHUB_TOKEN", "NOTION_API_KEY", "STACKEXCHANGE_KEY", "QIITA_TOKEN")
"""Names under which the reader looks for its own keys."""

_OWN = re.compile(
    r"TABANE_.*|(?:HTTPS?|ALL|NO|FTP)_PROXY|NPM_.*|NODE_AUTH_TOKEN|NODE_OPTIONS|UV_.*|PIP_.*|NETRC",
    re.IGNORECASE,
)
"""Names that mean something to Tabane itself, or to the download of packages."""

_MOST_NUMBERS = 10_000


def is_reserved(name: str) -> bool:
    """Return whether a secret of that name would be used by more than the servers that name it."""
    return name in READER_KEYS or name in PLAIN or _OWN.fullmatch(name) is not None


class SecretNaming:
    """Chooses names for secrets, so that no other part gets one that is not meant for it.

    ``stored`` returns the secret of a name; ``environ`` is searched after the secrets. ``referred`` are the
    names of variables that others refer to: they must not get a value by chance.
    """

    def __init__(
        self, stored: Callable[[str], str | None], environ: Mapping[str, str], referred: Collection[str] = ()
    ) -> None:
        self._stored, self._environ, self._referred = stored, environ, referred
        self._chosen: dict[str, str | None] = {}

    def name_for(self, wanted: str, server: str, value: str | None) -> str:
        """Return ``wanted``, or that with a suffix: the server's name, then a number.

        A name with the same value is used again. A value of None stands for one that is not known yet.
        """
        for name in self._candidates(wanted, server):
            if self._fits(name, value):
                self._chosen[name] = value
                return name
        raise ConfigurationError(say("There are too many secrets with the name {name}.", name=wanted))

    def _candidates(self, wanted: str, server: str) -> Iterator[str]:
        yield wanted
        own = words_of(server)
        suffixed = f"{wanted}_{own}" if own else wanted
        if own:
            yield suffixed
        for number in range(2, _MOST_NUMBERS):
            yield f"{suffixed}_{number}"

    def _fits(self, name: str, value: str | None) -> bool:
        if name in self._chosen:
            return value is not None and self._chosen[name] == value
        stored = self._stored(name)
        if stored is not None:
            return stored == value
        there = self._environ.get(name)
        if there is not None:
            return there == value
        return name not in self._referred and not is_reserved(name)


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return a text with these values instead of their variables; other variables stay."""
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", escaped(value))
    return text


class SecretMove(Struct, frozen=True):
    """A secret of a server, and the name of the variable that replaces it."""

    server: str
    secret: PlainSecret
    name: str


class SecretMoves(Struct, frozen=True):
    """Definitions with variables instead of secrets, and the secrets that have to be kept for them."""

    definitions: Mapping[str, dict[str, Any]]
    moves: tuple[SecretMove, ...] = ()

    @property
    def values(self) -> dict[str, str]:
        """The secrets by the names of their variables."""
        return {move.name: move.secret.value for move in self.moves}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)


def moves_of(
    definitions: Mapping[str, Mapping[str, Any]], naming: SecretNaming, known: Iterable[str] = ()
) -> SecretMoves:
    """Return how the secrets in plain text leave these definitions. ``known`` are values that stay."""
    stay = frozenset(known)
    moved: dict[str, dict[str, Any]] = {}
    moves: list[SecretMove] = []
    for server, definition in definitions.items():
        found = [secret for secret in plain_secrets(server, definition) if secret.value not in stay]
        own = [
            SecretMove(server, secret, naming.name_for(secret.wanted, server, secret.value))
            for secret in found
        ]
        moved[server] = with_variables(definition, [(move.secret, move.name) for move in own])
        moves += own
    return SecretMoves(moved, tuple(moves))


def referred_names(definitions: Mapping[str, Any], others: Iterable[str] = ()) -> set[str]:
    """Return the names of the variables in definitions and in other texts, such as settings."""
    return {*names_in(dict(definitions)), *(name for text in others for name in names_in(text))}


@contextmanager
def keeping(store: SecretStore, values: Mapping[str, str]) -> Iterator[None]:
    """Keep secrets, and remove them again if the block fails. Those that are kept already are left alone.

    Raises BadArguments and ConfigurationError; then none is kept.
    """
    fresh: dict[str, str] = {}
    try:
        for name, value in values.items():
            before = store.get(name)
            if before is None:
                fresh[name] = value
                store.keep(name, value)
            elif before != value:
                raise ConfigurationError(
                    say("Another program has just set the secret {name}. Try again.", name=name)
                )
        yield
    except BaseException:
        for name, value in fresh.items():
            with suppress(TabaneError, OSError):
                if store.get(name) == value:
                    store.forget(name)
        raise
