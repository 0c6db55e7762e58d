"""One Chroma for all tests of this folder in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import absent
from tests.harness.chroma_server import PYTHON, ChromaProcess, chroma_server, is_installed


@pytest.fixture(scope="package")
def chroma(python: str) -> Iterator[ChromaProcess]:
    with chroma_server() as server:
        yield server


@pytest.fixture(scope="session")
def python() -> str:
    """Return the interpreter that has Chroma's library."""
    if not is_installed():
        absent("Chroma (make chroma)")
    return PYTHON
