"""Secrets of definitions that move into the store of secrets: their names, and the move as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct

from tabane.errors import ConfigurationError, TabaneError
from tabane.messages import say
from tabane.servers.plain_secrets import PlainSecret, plain_secrets, with_variables, words_of
from tabane.servers.secret_store import SecretStore
from tabane.servers.variables import PLAIN, names_in

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
        self,
        stored: Callable[[str], str | None],
        environ: Mapping[str, str],
        referred: Collection[str] = (),
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
        """Return the secrets by the names of their variables."""
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
