"""The local site that the reader's tests read: see tests/reader/site.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reader.site import Site, running


@pytest.fixture(scope="session")
def grounds() -> Iterator[Site]:
    """The site as it runs through the whole session; tests take ``site``."""
    with running() as site:
        yield site


@pytest.fixture
def site(grounds: Site) -> Site:
    """The site, empty, and asked nothing yet."""
    grounds.clear()
    return grounds
