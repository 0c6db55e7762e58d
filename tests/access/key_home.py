"""A home with keys, and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from tabane.access.key_operations import KeyOperations
from tabane.access.keys import MOST_LIVE, KeyAccess, KeyRing
from tabane.access.profiles import Profiles, read_profiles
from tabane.access.table import CreateKey, UpdateKey
from tabane.operations import Caller, Face
from tests.access.targets import READ_ISSUE
from tests.harness.patience import run

NOW = 1_800_000_000.0
TIERS = ("default", "authenticated", "premium")
LOCAL_CALLER = Caller("local", Face.CLI, "1")

Test = Callable[..., Coroutine[Any, Any, None]]


def on_a_loop(test: Test) -> Callable[..., None]:
    """Run an async test on a loop of its own, with a time limit."""

    @wraps(test)
    def run_it(**fixtures: Any) -> None:
        run(lambda: test(**fixtures))

    return run_it


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class KeyHome:
    """The keys of one hub: their ring, their operations, and what a test needs of them."""

    def __init__(self, folder: Path, clock: Callable[[], float], most: int) -> None:
        settings = folder / "tabane.toml"
        self.profiles = Profiles(lambda: read_profiles(settings))
        self.ring = KeyRing(folder, asyncio.get_running_loop(), self.profiles.find, clock, most)
        self.operations = KeyOperations(self.ring, self.profiles, lambda: TIERS, lambda: [READ_ISSUE])

    async def create(self, name: str, **given: Any) -> dict[str, Any]:
        params = CreateKey(name, **({"allow": ["*"]} | given))
        return await self.operations.create(LOCAL_CALLER, params)

    async def update(self, key: str, **given: Any) -> dict[str, Any]:
        return await self.operations.update(LOCAL_CALLER, UpdateKey(key, **given))

    async def live(self, name: str, **given: Any) -> KeyAccess:
        """Create a key and return its access."""
        access = self.ring.find((await self.create(name, **given))["secret"])
        assert access is not None
        return access


@asynccontextmanager
async def key_home(
    folder: Path, clock: Callable[[], float] | None = None, most: int = MOST_LIVE
) -> AsyncIterator[KeyHome]:
    home = KeyHome(folder, clock or Clock(), most)
    try:
        yield home
    finally:
        await home.ring.close()
