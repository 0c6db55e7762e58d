"""Look-up of API keys and permissions: python -m benchmarks.access.keys"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Goal, goals, machine, publish, spread, table

from tabane.access.key_store import FILE, KeyStore, hash_of, id_in, new_secret
from tabane.access.keys import KeyRing
from tabane.access.permissions import rules_of
from tabane.operations.caller import CallTarget

KEYS, TOOLS, ROUNDS = 100_000, 5_000, 20_000
BUDGET = 20.0
"""Microseconds of one look-up."""


def main() -> None:
    publish("keys", asyncio.run(measured()), write="--write" in sys.argv)


async def measured() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        secrets = filled(Path(folder))
        ring = KeyRing(Path(folder), asyncio.get_running_loop())
        known, wrong = secrets[0], [new_secret() for _ in range(ROUNDS)]
        random.shuffle(secrets)
        looked_up = {
            "in use": times(lambda n: ring.find(known)),
            "not in memory": times(lambda n: ring.find(secrets[n])),
            "unknown": times(lambda n: ring.find(wrong[n])),
            "malformed": times(lambda n: ring.find("tbn_wrong")),
        }
        access = ring.find(known)
        assert access is not None
        tools = [CallTarget(f"server{n % 50}__tool_{n}", f"server{n % 50}") for n in range(TOOLS)]
        allowed = {"live key, remembered": times(lambda n: access.allows(tools[n % TOOLS]))}
        await ring.close()
    rules = rules_of([f"server{n}__*" for n in range(40)] + ["*"], [f"*__tool_{n}*9" for n in range(20)])
    first = times(lambda n: rules.allows(tools[n]), TOOLS)
    allowed |= {
        "60 patterns, first time": first,
        "60 patterns, remembered": times(lambda n: rules.allows(tools[n % TOOLS])),
    }
    worst = max(spread(each)[0] for each in looked_up.values())
    return [
        "## Keys and permissions",
        machine("python -m benchmarks.access.keys"),
        goals([Goal(f"look-up, {KEYS:,} keys, slowest median", worst, BUDGET, " µs", 1, limit_digits=0)]),
        table((f"look-up, {KEYS:,} keys, µs", "p50", "p95", "most"), rows(looked_up)),
        table((f"permission of one of {TOOLS:,} tools, µs", "p50", "p95", "most"), rows(allowed)),
    ]


def filled(home: Path) -> list[str]:
    """Return the secrets of as many keys, written in one transaction."""
    KeyStore(home / FILE, create=True).close()
    secrets = list({id_in(secret): secret for secret in (new_secret() for _ in range(KEYS))}.values())
    with sqlite3.connect(home / FILE) as database:
        database.executemany(
            "INSERT INTO api_key VALUES (?, ?, ?, '[\"*\"]', '[]', 0, '', 'authenticated', 1, NULL, ?, NULL)",
            ((id_in(secret), hash_of(secret), f"key-{n}", time.time()) for n, secret in enumerate(secrets)),
        )
    database.close()
    return secrets


def times(work: Callable[[int], object], rounds: int = ROUNDS) -> list[float]:
    """Return the microseconds of each call."""
    found = []
    for number in range(rounds):
        began = time.perf_counter_ns()
        work(number)
        found.append((time.perf_counter_ns() - began) / 1000)
    return found


def rows(several: dict[str, list[float]]) -> list[tuple[str, ...]]:
    return [(name, *(f"{value:.1f}" for value in spread(values))) for name, values in several.items()]


if __name__ == "__main__":
    main()
