"""What a server lists, each definition once and under the key that tells it from the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec import Raw

from tabane.wire import json
from tabane.wire.json import InvalidJson

log = logging.getLogger(__name__)

LONGEST_KEY = 16_384
"""Characters of a name or URI; a definition with a longer one is left out."""


def by_key(
    server: str, what: str, definitions: Iterable[Raw], key_of: Callable[[bytes], str | None], most: int
) -> dict[str, Raw]:
    """The definitions by what ``key_of`` reads off each, in their order, ``most`` of them.

    One that is no definition, or repeats a key, is left out; how many were, and why the first, is logged.
    """
    found: dict[str, Raw] = {}
    faults: list[str] = []
    for definition in definitions:
        key = key_of(definition)
        fault = _fault(key, found, most)
        if fault:
            faults.append(fault)
        elif key is not None:
            found[key] = definition
    if faults:
        log.warning("%s: left out %d definitions of a %s: %s", server, len(faults), what, faults[0])
    return found


def text_member(definition: bytes, key: str) -> str | None:
    """A member of a definition that has to be a text; None where there is no usable one."""
    try:
        text = json.text(json.fields(definition).get(key))
    except InvalidJson:
        return None
    return text or None


def _fault(key: str | None, found: dict[str, Raw], most: int) -> str:
    if key is None:
        return "it has no name"
    if len(key) > LONGEST_KEY:
        return f"{key[:80]!r} … is too long"
    if key in found:
        return f"{key!r} comes twice"
    return f"only {most} are taken" if len(found) >= most else ""
