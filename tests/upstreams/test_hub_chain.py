"""Marks of hubs, as two hubs exchange them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.upstreams.handshake import HUBS, MOST, MOST_CLIENTS, REMEMBERED, HubChain, hub_ids
from tabane.wire import json
from tabane.wire.json import Members


def _refuses(hub: HubChain, answer: Members) -> bool:
    return hub.fault("up", hub_ids(answer)) is not None


def test_a_hub_recognizes_itself_and_what_leads_to_it() -> None:
    first, second, third = HubChain(), HubChain(), HubChain()
    assert _refuses(first, first.arrived("s", first.mark(), stays=True))
    answered = second.arrived("s", first.mark(), stays=True)
    assert hub_ids(answered) == (second.own,)
    third.arrived("s", second.mark(), stays=True)
    assert hub_ids(third.mark()) == (third.own, second.own, first.own)
    assert _refuses(third, first.arrived("s", third.mark(), stays=True))
    assert not _refuses(first, answered)
    assert _refuses(second, answered)


def test_a_hub_among_the_servers_is_no_client() -> None:
    first, second = HubChain(), HubChain()
    first.behind = lambda: [second.own]
    assert _refuses(second, first.arrived("s", second.mark(), stays=False))
    assert first.arrived("s", {}, stays=False) == {}


def test_a_client_that_leaves_is_forgotten_and_one_without_a_session_after_a_while() -> None:
    now = [0.0]
    hub, other = HubChain(lambda: now[0]), HubChain()
    hub.arrived("s", other.mark(), stays=True)
    hub.left("s")
    assert hub_ids(hub.mark()) == (hub.own,)
    hub.arrived("s", other.mark(), stays=False)
    hub.left("s")
    assert hub_ids(hub.mark()) == (hub.own, other.own)
    now[0] = REMEMBERED
    assert hub_ids(hub.mark()) == (hub.own,)


def test_clients_and_ids_are_limited() -> None:
    hub = HubChain()
    for number in range(MOST_CLIENTS + 10):
        hub.arrived(f"s{number}", {HUBS: Raw(json.encode([f"hub{number}"]))}, stays=True)
    ids = hub_ids(hub.mark())
    assert len(ids) == MOST
    assert ids[0] == hub.own


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x), max_leaves=8)
)
def test_any_mark_is_read(value: Any) -> None:
    assert all(isinstance(each, str) for each in hub_ids({HUBS: Raw(json.encode(value))}))


@pytest.mark.parametrize("raw", [b"", b"[", b"\xff"], ids=["empty", "open", "bytes"])
def test_a_broken_mark_is_none(raw: bytes) -> None:
    assert hub_ids({HUBS: Raw(raw)}) == ()
