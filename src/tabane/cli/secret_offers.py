"""Secrets that commands keep outside the servers file: offered to the user, and reported by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tabane.cli.options import option
from tabane.cli.output import Terminal
from tabane.cli.servers_file import ServersFile
from tabane.messages import Message, say
from tabane.servers.configuration import written_definitions
from tabane.servers.kept_secrets import SecretMoves, SecretNaming, referred_names
from tabane.servers.secret_store import SecretStore
from tabane.servers.variables import escaped
from tabane.settings import Settings

plain_option = option(
    "--plain", is_flag=True, help=say("Write keys and passwords into the servers file as they are.")
)
"""Adds ``--plain``: what looks like a secret is not kept outside the servers file."""


def store_of(settings: Settings) -> SecretStore:
    return SecretStore(settings.home, keyring=settings.keyring)


def naming_of(
    place: ServersFile, definitions: Mapping[str, Mapping[str, Any]], leaving: Collection[str] = ()
) -> SecretNaming:
    """Return the names for secrets of these definitions. ``leaving`` are servers that they replace.

    Raises ConfigurationError.
    """
    store, settings = store_of(place.settings), place.settings
    others = {name: each for name, each in written_definitions(place.path).items() if name not in leaving}
    texts = (settings.oauth_client_secret or "", settings.model_key or "")
    referred = referred_names(others, texts) | referred_names(definitions)
    return SecretNaming(store.get, os.environ, referred)


def kept_values(store: SecretStore) -> dict[str, str]:
    """Return the secrets that are kept, by name. Raises ConfigurationError."""
    found = {name: store.get(name) for name in store.places()}
    return {name: value for name, value in found.items() if value is not None}


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return a text with these values instead of their variables; other variables stay."""
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", escaped(value))
    return text


def accepted(terminal: Terminal, moves: SecretMoves, settings: Settings, *, agreed: bool = False) -> bool:
    """Return whether secrets are kept outside the servers file. A user on a terminal is asked."""
    if not moves.moves:
        return False
    if agreed or not terminal.asks:
        return True
    found = ", ".join(f"{move.server}: {move.secret.key}" for move in moves.moves)
    terminal.note(say("These values look like keys or passwords: {found}.", found=found))
    return terminal.agreed(
        say("Keep them in {place} instead of the servers file?", place=place_name(_place(settings)))
    )


def report_kept(terminal: Terminal, settings: Settings, names: Iterable[str], *, plain: bool = True) -> None:
    """Say which secrets were kept, and how the servers file refers to them. ``plain``: also the other way."""
    listed = list(dict.fromkeys(names))
    if not listed:
        return
    terminal.note(
        say(
            "Kept in {place}: {names}. The servers file refers to {variables}.",
            place=place_name(_place(settings)),
            names=", ".join(listed),
            variables=", ".join(f"${{{name}}}" for name in listed),
        )
    )
    if plain and not terminal.asks:
        terminal.note(say("To write such values into the servers file, add --plain."))


def place_name(place: str | None) -> Message | str:
    """Return the place of a secret for people."""
    if place is None:
        return say("not set")
    return {"keyring": say("the system's keyring"), "environment": say("the environment")}.get(place, place)


def _place(settings: Settings) -> str:
    return "keyring" if settings.keyring else "secrets.env"
