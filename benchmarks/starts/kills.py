"""Hubs killed during a first start: how many work afterwards. ``python -m benchmarks.starts.kills``.

Each hub starts a server with the real npx or uvx (``--launcher``) from a slow registry on the loopback
interface, and is killed with SIGKILL at a random moment. Then a new hub starts the server. The exit status is
1 if one of these starts fails.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from tests.harness.first_start import FirstStart, PackageRegistry
from tests.harness.npm_registry import NpmRegistry
from tests.harness.pypi_registry import PypiRegistry

LATEST = 2.2
"""Seconds after the start in which the hub is killed: a little more than the whole first start takes."""


def killed(folder: Path, registry: PackageRegistry, moment: float) -> tuple[bool, float]:
    """Kill a hub after that many seconds. Return whether the next start works, and its seconds."""
    first = FirstStart(folder, registry)
    first.tabane("start")
    hub = first.hub
    starting = first.begin("servers", "start", "it")
    time.sleep(moment)
    os.kill(hub, signal.SIGKILL)
    starting.wait(240)
    began = time.monotonic()
    try:
        first.tabane("start")
        works = "count" in first.tabane("servers", "test", "it").stdout
        return works, time.monotonic() - began
    finally:
        first.tabane("stop")


def main() -> None:
    """Print a line for each kill, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--launcher", choices=["npx", "uvx"], default="npx")
    options = parser.parse_args()
    moments, good = random.Random(options.seed), 0
    made = NpmRegistry if options.launcher == "npx" else PypiRegistry
    with made(delay=0.1, slowness=0.5) as registry:
        for number in range(options.kills):
            with tempfile.TemporaryDirectory(prefix="tabane-") as folder:
                moment = moments.uniform(0.05, LATEST)
                works, seconds = killed(Path(folder), registry, moment)
            good += works
            result = "works" if works else "broken"
            print(f"{number + 1}: killed at {moment:.2f} s, then {result} in {seconds:.1f} s")
    print(f"works, {good} of {options.kills}")
    if good < options.kills:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
