"""The index of vectors that the setting vector_index names."""

from __future__ import annotations

import pytest

from tabane.errors import ConfigurationError
from tabane.hub.stores.postgres_engine import opened_index


@pytest.mark.parametrize("place", ["chroma+http://host:8000", "chroma:/srv/chroma", "milvus://host:19530"])
def test_an_index_is_opened_without_connecting(place: str) -> None:
    index = opened_index(place)
    assert index.place == place
    index.close()


@pytest.mark.parametrize("address", ["chroma+ftp://host", "chroma:relative", "http://host"])
def test_an_unknown_index_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="vector_index must be empty"):
        opened_index(address)
