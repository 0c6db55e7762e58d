"""Tools whose marks for HTTP headers are invalid.

Source: the specification 2026-07-28, Streamable HTTP: a client on HTTP must exclude such tools from the list,
and should log why. Servers of the handshake era do not read these headers, so their tools stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Raw

from tabane.wire import json
from tabane.wire.mirrored_arguments import MARK, mirror_fault

LARGE = 256 << 10
"""Bytes of definitions with marks above which they are read in a thread."""

_SHOWN = 200
_mark = MARK.encode()


class RefusedTool(NamedTuple):
    """The name of a tool that was left out, and why; both cut, with printable characters only."""

    tool: str
    reason: str


async def without_invalid_marks(definitions: Sequence[Raw]) -> tuple[list[Raw], list[RefusedTool]]:
    """Return the definitions that a client may use over HTTP, and the tools that it may not."""
    marked = sum(len(each) for each in definitions if _mark in bytes(each))
    if marked > LARGE:
        return await asyncio.to_thread(_sorted_out, definitions)
    return _sorted_out(definitions)


def _sorted_out(definitions: Sequence[Raw]) -> tuple[list[Raw], list[RefusedTool]]:
    kept: list[Raw] = []
    refused: list[RefusedTool] = []
    for definition in definitions:
        fault = mirror_fault(bytes(definition))
        if fault is None:
            kept.append(definition)
        else:
            refused.append(RefusedTool(_shown(json.text(json.fields(definition).get("name"))), _shown(fault)))
    return kept, refused


def _shown(text: str | None) -> str:
    cut = (text or "")[:_SHOWN]
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cut)
