"""Context of a hub: its settings as they are now, environment, home and event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.hub.replacement import CodeReplacement
from tabane.messages import Lang, language
from tabane.servers.variables import variables_of
from tabane.settings import Settings


def secret_of(settings: Settings, environment: Mapping[str, str], name: str) -> str | None:
    """Return a secret by its name; None if there is none, or it cannot be read."""
    with contextlib.suppress(ConfigurationError):
        return variables_of(settings, environment).get(name)
    return None


class HubContext:
    """Settings, environment, home and event loop of a hub, in one object that its parts hold.

    ``settings`` is one frozen object, replaced as a whole when the settings file changes: read it when
    it is needed, and do not keep it. ``environment`` has the variables that servers and secrets are
    looked up in. ``home`` cannot change while a hub runs. ``code`` follows the files of Tabane.
    """

    __slots__ = ("code", "environment", "home", "loop", "settings")

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.settings, self.environment, self.loop = settings, environment, loop
        self.home: Path = settings.home
        self.code = CodeReplacement(loop)

    @property
    def lang(self) -> Lang:
        """Language for clients that request none."""
        return language(self.settings.lang, self.environment.get("LANG"))

    @property
    def names_model(self) -> bool:
        """Whether the settings name an embedding model, so that it is an error if it cannot be had."""
        return self.settings.model not in ("auto", "none")

    def secret(self, name: str) -> str | None:
        """Return a secret by its name; None if there is none, or it cannot be read."""
        return secret_of(self.settings, self.environment, name)

    def now(self) -> float:
        """Return the event loop's clock, in seconds."""
        return self.loop.time()
