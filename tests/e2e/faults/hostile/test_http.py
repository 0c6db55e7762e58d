"""Servers over HTTP that misbehave: other servers are not affected, and their own calls end."""

from __future__ import annotations

import pytest

from tests.e2e.faults.hostile.assistants import SharedHub, misbehave, over_http
from tests.harness.servers.hostile_entry import Entry
from tests.harness.servers.hostile_http import ENTRIES


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_others_are_served_while_a_server_misbehaves(shared_hub: SharedHub, entry: Entry) -> None:
    with over_http(entry) as definition:
        misbehave(shared_hub, entry, definition)
