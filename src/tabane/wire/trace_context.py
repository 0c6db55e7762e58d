"""Trace context of the W3C: ``traceparent`` and ``tracestate``, in ``_meta`` (SEP-414) and in headers.

Both come from clients, so anything may be in them. What is not valid counts as absent.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tabane.wire import json
from tabane.wire.json import Members

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"

SAMPLED = 0x01
RANDOM = 0x02

MOST_STATE = 512
"""Characters of a ``tracestate``; a longer one is dropped as a whole."""

_MOST_ENTRIES = 32
_MOST_PARENT = 512

# Compiled on first use: most clients send no trace.
_PARENT = r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
_KEY = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_ENTRY = _KEY + r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


class TraceParent(NamedTuple):
    """The span that caused a request: ids in hexadecimal, and the known flags."""

    trace: str
    span: str
    flags: int

    @property
    def sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags:02x}"


def parse_traceparent(text: str | None) -> TraceParent | None:
    """Return the parent that a ``traceparent`` names; None if there is none or it is not valid.

    A later version than 00 is read as 00, as its specification requires.
    """
    found = re.fullmatch(_PARENT, text, re.ASCII) if text and len(text) <= _MOST_PARENT else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or trace == _NO_TRACE or span == _NO_SPAN or (rest and version == "00"):
        return None
    return TraceParent(trace, span, int(flags, 16) & (SAMPLED | RANDOM))


def valid_tracestate(text: str | None) -> str:
    """Return a ``tracestate`` without blanks between its entries; "" if it is not valid."""
    if not text or len(text) > MOST_STATE:
        return ""
    entries = [entry for each in text.split(",") if (entry := each.strip(" \t"))]
    keys = {entry.partition("=")[0] for entry in entries}
    if len(entries) > _MOST_ENTRIES or len(keys) < len(entries):
        return ""
    return ",".join(entries) if all(re.fullmatch(_ENTRY, entry, re.ASCII) for entry in entries) else ""


def trace_headers(meta: Members) -> dict[str, str]:
    """Return the headers of a request to a server at a URL: what ``_meta`` says, if that is valid."""
    parent = parse_traceparent(json.text(meta.get(TRACEPARENT)))
    if parent is None:
        return {}
    state = valid_tracestate(json.text(meta.get(TRACESTATE)))
    return {TRACEPARENT: str(parent), **({TRACESTATE: state} if state else {})}
