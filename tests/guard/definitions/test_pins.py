"""Pins of a server: an independent model of what waits, over any sequence of lists and decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.guard.definitions.definition import DefinitionKey, SeenDefinition
from tabane.guard.definitions.pins import (
    MOST_KNOWN,
    MOST_VERSIONS,
    SPARE,
    PinnedDefinition,
    PinState,
    ServerPins,
    begins,
    compared,
    decided,
)

NAMES = ("a", "b", "c")
LISTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), max_size=3)
STEPS = st.lists(st.one_of(LISTS, st.sampled_from(NAMES)), min_size=1, max_size=12)


def seen(name: str, version: int) -> SeenDefinition:
    return SeenDefinition(DefinitionKey("tool", name), version.to_bytes(32, "big"), Raw(b"{}"))


def listed(pins: ServerPins, listing: dict[str, int], now: float) -> None:
    definitions = [seen(*each) for each in listing.items()]
    compared(pins, definitions, now, first=begins(pins, "tool", len(definitions)))


@given(STEPS)
def test_what_waits_is_what_was_neither_listed_first_nor_accepted(steps: list[dict[str, int] | str]) -> None:
    pins, trusted, opened = ServerPins(), {}, set()
    current: dict[str, int] = {}
    begun = False
    for now, step in enumerate(steps):
        if isinstance(step, dict):
            current = step
            listed(pins, step, now)
            for name, version in step.items():
                if not begun:
                    trusted[name] = version
                elif trusted.get(name) != version:
                    opened.add((name, version))
            begun = begun or bool(step)
        elif step in current:
            version = current[step]
            key = DefinitionKey("tool", step)
            pin = pins.get(key, version.to_bytes(32, "big"))
            assert pin is not None
            decided(pins, [PinnedDefinition(key, pin)], PinState.ACCEPTED, {key: {pin.digest}})
            trusted[step] = version
            opened.discard((step, version))
    waiting = {
        (key.name, int.from_bytes(pin.digest, "big")) for key, pin in pins.all() if pin.state is PinState.OPEN
    }
    assert waiting == opened
    assert {
        key.name: int.from_bytes(pin.digest, "big") for key, pin in pins.all() if pin.is_trusted
    } == trusted


def test_a_definition_that_flaps_for_ever_is_bounded_and_never_trusted() -> None:
    pins = ServerPins()
    listed(pins, {"a": 0}, 0)
    for now in range(1, 1000):
        listed(pins, {"a": now}, now)
        pin = pins.get(DefinitionKey("tool", "a"), now.to_bytes(32, "big"))
        assert pin is not None
        assert pin.state is PinState.OPEN
    assert pins.count <= MOST_VERSIONS
    trusted = pins.trusted(DefinitionKey("tool", "a"))
    assert trusted is not None
    assert trusted.digest == bytes(32)


@pytest.mark.heavy("real servers as processes")
def test_a_server_that_renames_its_tools_for_ever_is_bounded() -> None:
    pins = ServerPins()
    listed(pins, {"a": 0}, 0)
    for now in range(1, 30):
        listed(pins, {f"{now}-{number}": 1 for number in range(1_500)}, now)
    assert pins.count <= MOST_KNOWN + SPARE
    assert sum(len(versions) for versions in pins.by_key.values()) == pins.count
