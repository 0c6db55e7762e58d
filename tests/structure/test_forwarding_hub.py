"""What a hub that only forwards may import before its first answer: each module costs every start."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.forwarding_hub import imported_modules

ALLOWED = Path(__file__).with_name("forwarding_hub.txt")
"""A line for each module of Tabane. ``python -m tests.structure.test_forwarding_hub`` writes it."""

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
"""Modules of others that it does not need."""


def of_tabane(modules: frozenset[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] == "tabane")


def test_a_hub_imports_nothing_else_before_its_first_answer(tmp_path: Path) -> None:
    found = imported_modules(tmp_path)
    new = set(of_tabane(found)) - set(ALLOWED.read_text().split())
    assert not new, (
        f"imported before the first answer: {sorted(new)}. Import them where they are first used. If each "
        f"start needs them, run: python -m {__spec__.name}"
    )
    assert sorted(HEAVY & found) == []


def write() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ALLOWED.write_text("".join(f"{name}\n" for name in of_tabane(imported_modules(Path(folder)))))
    print(f"{ALLOWED.name}: {len(ALLOWED.read_text().split())} modules", file=sys.stderr)


if __name__ == "__main__":
    write()
