"""One Milvus for all tests of this folder in a process: an idle one costs a tenth of a core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import absent
from tests.harness.milvus_server import MilvusServer, is_installed, milvus_server


@pytest.fixture(scope="package")
def milvus() -> Iterator[MilvusServer]:
    if not is_installed():
        absent("Milvus (make milvus)")
    with milvus_server() as server:
        yield server
