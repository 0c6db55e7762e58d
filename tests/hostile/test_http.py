"""Servers over HTTP that misbehave: other servers are not affected, and their own calls end."""

from __future__ import annotations

import pytest

from tests.hostile.entry import Entry
from tests.hostile.http_server import ENTRIES
from tests.hostile.town import Town, misbehave, over_http


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_others_are_served_while_a_server_misbehaves(town: Town, entry: Entry) -> None:
    with over_http(entry) as definition:
        misbehave(town, entry, definition)
