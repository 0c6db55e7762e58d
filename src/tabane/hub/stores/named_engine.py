"""The database that the setting engine names, and the addresses of databases with their passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from tabane.errors import ConfigurationError
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.hub.stores.vector_index import opened_index
from tabane.messages import say
from tabane.servers.variables import variables_of
from tabane.settings import Settings

if TYPE_CHECKING:
    from tabane.engine.candidate_index import CandidateIndex

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def named_engine(settings: Settings, environment: Mapping[str, str]) -> PostgresEngine:
    """Return the database that the setting engine names, which must not be empty. It is not opened yet."""

    def index() -> CandidateIndex:
        address = filled_address(settings.vector_index, settings, environment, "vector_index")
        return opened_index(address)

    return PostgresEngine(
        lambda: filled_address(settings.engine, settings, environment),
        settings.vector_index_from or None,
        index if settings.vector_index else None,
    )


def filled_address(
    address: str, settings: Settings, environment: Mapping[str, str], setting: str = "engine"
) -> str:
    """Return the URL of a database with the values of its variables. Raises ConfigurationError."""
    variables = variables_of(settings, environment)
    whole = address.startswith("${")

    def filled(found: re.Match[str]) -> str:
        value = variables.get(found[1])
        if value is None:
            message = say(
                "{setting} needs the variable {name}, which is not set. Set it with: "
                "tabane secrets set {name}",
                setting=setting,
                name=found[1],
            )
            raise ConfigurationError(message)
        return value if whole else quote(value, safe="")

    return _VARIABLE.sub(filled, address)
