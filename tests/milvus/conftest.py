"""One Milvus for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import absent
from tests.harness.milvus_server import MilvusServer, is_installed, milvus_server


@pytest.fixture(scope="session")
def milvus() -> Iterator[MilvusServer]:
    if not is_installed():
        absent("Milvus (make milvus)")
    with milvus_server() as server:
        yield server
