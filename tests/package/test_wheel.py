"""Pages of the manual in a checkout and in a wheel: all pages of `docs`, and none for developers."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tabane.hub.sources.manual import pages
from tests.harness.patience import LONG

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BACKEND = ROOT / ".venv" / "build"
"""Packages that build ours, as `make env` installs them."""

_NAMES = "from tabane.hub.sources.manual import pages; print(*(name for name, _ in pages()), sep='\\n')"


def test_the_manual_of_a_checkout_has_no_page_for_developers() -> None:
    assert (DOCS / "development" / "performance.md").exists()
    assert [name for name, _ in pages()] == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.heavy("builds a wheel")
@pytest.mark.skipif(not BACKEND.is_dir(), reason="no build backend in .venv/build: make env")
def test_a_wheel_has_the_manual_without_pages_for_developers(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    run(built, PYTHONPATH=str(BACKEND), TABANE_COMPILED="0")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    packed = tmp_path / "installed" / "tabane" / "docs"
    assert {path.relative_to(packed) for path in packed.rglob("*") if path.is_file()} == {
        path.relative_to(DOCS)
        for path in DOCS.rglob("*")
        if path.is_file() and not path.is_relative_to(DOCS / "development")
    }
    # The pages that an installed hub reads are these.
    found = run([sys.executable, "-c", _NAMES], PYTHONPATH=str(tmp_path / "installed"))
    assert found.split() == sorted(page.name for page in packed.glob("*.md"))


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
