"""What a forwarding hub and a bridge may load before their first answer: each line costs every start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.harness.bridge import INITIALIZE, answer, environment, fake_hub, request
from tests.harness.forwarding_hub import imported_modules
from tests.harness.patience import LONG
from tests.plugins.tiers import ROOT

ALLOWED = Path(__file__).with_name("forwarding_hub.txt")
"""A line for each module of Tabane. ``python -m tests.structure.test_forwarding_hub`` writes it."""
LINES = Path(__file__).with_name("loaded_lines.json")
"""Lines of source in the modules of Tabane that each process loads. The same command writes it."""
SLACK = 1.02

HEAVY = frozenset(
    {
        *(
            "aiohttp",
            "click",
            "email",
            "http",
            "importlib.metadata",
            "jinja2",
            "jsonschema",
            "multiprocessing",
        ),
        *("numpy", "oauthlib", "opentelemetry", "platformdirs", "shutil", "starlette", "tantivy", "tempfile"),
        *("tomllib", "unittest", "urllib.request", "uvicorn", "xml", "zoneinfo"),
    }
)
"""Modules of others that a hub does not need."""

BRIDGE = """
import json, sys
sys.argv = ["tabane", "mcp"]
from tabane.__main__ import main
try:
    main()
finally:
    sys.stderr.write(json.dumps(list(sys.modules)))
"""


def of_tabane(modules: Iterable[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] == "tabane")


def source_lines(modules: Iterable[str]) -> int:
    """Return how many lines the source of these modules of Tabane has."""
    places = [ROOT.joinpath("src", *name.split(".")) for name in of_tabane(modules)]
    files = [place / "__init__.py" if place.is_dir() else place.with_suffix(".py") for place in places]
    return sum(len(file.read_bytes().splitlines()) for file in files)


def bridge_modules(folder: Path) -> frozenset[str]:
    """Return the names of all modules of a bridge whose client has initialized and then ended."""
    home = folder / "home"
    with fake_hub(home) as hub:
        bridge = subprocess.Popen(
            [sys.executable, "-c", BRIDGE],
            env=environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert bridge.stdin
            assert bridge.stdout
            bridge.stdin.write(request(0, "initialize", **INITIALIZE) + b"\n")
            bridge.stdin.flush()
            connection = hub.accept()
            connection.next()
            connection.send(answer(0, {"protocolVersion": "2025-06-18"}))
            assert json.loads(bridge.stdout.readline())["id"] == 0
            _, modules = bridge.communicate(timeout=LONG)
        finally:
            bridge.kill()
            bridge.communicate()
    return frozenset(json.loads(modules))


def test_a_hub_imports_nothing_else_before_its_first_answer(tmp_path: Path) -> None:
    found = imported_modules(tmp_path)
    new = set(of_tabane(found)) - set(ALLOWED.read_text().split())
    assert not new, (
        f"imported before the first answer: {sorted(new)}. Import them where they are first used. If each "
        f"start needs them, run: python -m {__spec__.name}"
    )
    assert sorted(HEAVY & found) == []
    assert_within_bounds("hub", found)


def test_a_bridge_loads_no_more_lines(tmp_path: Path) -> None:
    found = bridge_modules(tmp_path)
    assert "tabane.hub.bridge.bridge" in found
    assert_within_bounds("bridge", found)


def assert_within_bounds(process: str, modules: Iterable[str]) -> None:
    lines, recorded = source_lines(modules), json.loads(LINES.read_text())[process]
    assert lines <= recorded * SLACK, (
        f"a {process} loads {lines:,} lines of source before its first answer; {recorded:,} are recorded. "
        f"Import later what it does not need by then. If each start needs it, run: python -m {__spec__.name}"
    )


def write() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        hub, bridge = imported_modules(Path(folder, "hub")), bridge_modules(Path(folder, "bridge"))
    ALLOWED.write_text("".join(f"{name}\n" for name in of_tabane(hub)))
    lines = {"bridge": source_lines(bridge), "hub": source_lines(hub)}
    LINES.write_text(json.dumps(lines, indent=1) + "\n")
    print(f"{ALLOWED.name}: {len(of_tabane(hub))} modules. {LINES.name}: {lines}", file=sys.stderr)


if __name__ == "__main__":
    write()
