"""Definitions that come from a file, and change whenever somebody changes the file.

``--definitions FILE`` is a JSON object with ``tools``, ``prompts``, ``resources``, ``skills`` and
``instructions``; what is missing is as without it. A tool of the file echoes its arguments. The server looks
at the file all the time, and announces what changed, unless ``--quiet-lists``.
"""

from __future__ import annotations

import json
import threading
import time

from tests.harness.servers.answers import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests.harness.servers.protocol import Server

LOOK = 0.02
ANNOUNCED = ("tools", "prompts", "resources")


class Redefinition:
    """The definitions of the file; none without one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._path: str | None = server.options.definitions
        if self._path is not None and not server.options.quiet_lists:
            threading.Thread(target=self._look, daemon=True).start()

    def get(self, member: str) -> Any:
        """What the file says now; None for nothing."""
        return self._read().get(member) if self._path is not None else None

    @property
    def capabilities(self) -> Json:
        return {kind: {"listChanged": True} for kind in ANNOUNCED if self.get(kind) is not None}

    def answer(self, method: str) -> Json | None:
        """The list that a request asks for; None if the file says nothing about it."""
        kind = method.removesuffix("/list")
        listed = self.get(kind) if method.endswith("/list") else None
        return None if listed is None else {kind: listed}

    def has_tool(self, name: str | None) -> bool:
        return any(tool["name"] == name for tool in self.get("tools") or ())

    def _read(self) -> Json:
        assert self._path is not None
        with open(self._path, encoding="utf-8") as file:
            found: Json = json.load(file)
        return found

    def _look(self) -> None:
        told = self._read()
        while True:
            time.sleep(LOOK)
            now = self._read()
            for kind in ANNOUNCED:
                if now.get(kind) != told.get(kind) and self._server.initialized is not None:
                    self._server.notify(f"notifications/{kind}/list_changed")
            told = now
