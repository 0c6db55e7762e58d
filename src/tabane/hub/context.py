"""Context of a hub: its settings as they are now, environment, home and event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tabane.messages import Lang, language
from tabane.settings import Settings


class HubContext:
    """Settings, environment, home and event loop of a hub, in one object that its parts hold.

    ``settings`` is one frozen object, replaced as a whole when the settings file changes: read it when
    it is needed, and do not keep it. ``environment`` has the variables that servers and secrets are
    looked up in. ``home`` cannot change while a hub runs.
    """

    __slots__ = ("environment", "home", "loop", "settings")

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.settings, self.environment, self.loop = settings, environment, loop
        self.home: Path = settings.home

    @property
    def lang(self) -> Lang:
        """Language for clients that request none."""
        return language(self.settings.lang, self.environment.get("LANG"))

    def now(self) -> float:
        """Return the event loop's clock, in seconds."""
        return self.loop.time()
