"""The models by which the hub compares tools, without a hub."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tabane.hub.context import HubContext
from tabane.hub.sources.models.hub_models import HubModels
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.settings import Settings


class _NoCache:
    """Keeps no vector."""

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        return


class ToolModels:
    """Opens the models by which a hub with these settings compares tools, for as long as it is entered."""

    def __init__(self, model: str = "auto") -> None:
        self._model = model

    async def __aenter__(self) -> ToolModels:
        self._folder = tempfile.TemporaryDirectory()
        home = Path(self._folder.name)
        settings = Settings(
            home=home, config=home / "tabane.toml", servers=home / "mcp-servers.json", model=self._model
        )

        async def kept() -> _NoCache:
            return _NoCache()

        self._models = HubModels(
            HubContext(settings, dict(os.environ), asyncio.get_running_loop()), kept, patience=60.0
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._models.close()
        self._folder.cleanup()

    async def chosen(self) -> Sequence[Embedder]:
        """Return the models. Raises SystemExit with the reason if there are none."""
        found = await self._models.for_tools()
        if isinstance(found, NoModel):
            raise SystemExit(found.reason.render("en"))
        return found

    async def named(self, names: Sequence[str]) -> list[Embedder]:
        """Return those of the models whose fingerprints contain one of the names. Raises SystemExit."""
        found = [
            model for name in names for model in await self.chosen() if name in _plain(model.fingerprint)
        ]
        if len(found) < len(names):
            known = ", ".join(model.fingerprint for model in await self.chosen())
            raise SystemExit(f"this machine compares tools with {known}")
        return found

    async def query(self, model: str, text: str) -> bytes:
        found = await self._models.query(model, text)
        if isinstance(found, NoModel):
            raise SystemExit(found.reason.render("en"))
        return found


def _plain(fingerprint: str) -> str:
    """Return the name of a model in a short form: use, use-minilm."""
    return fingerprint.lower().replace("universal-sentence-encoder", "use")
