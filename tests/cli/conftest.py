"""A home for each test of the command line that does not make its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
