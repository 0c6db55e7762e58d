"""Lines of an upstream read as messages, and answers that no client could read; pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import UNSET, Raw

from tabane.wire import json
from tabane.wire.era import META_SUBSCRIPTION
from tabane.wire.json import InvalidJson, JsonRpcFrame

_MOST_VERSIONS = 100


class ParsedLine(NamedTuple):
    """A line as a message; ``frame`` is None if it is not one, ``fault`` says why.

    ``repaired``: bytes that are not UTF-8 were replaced. ``pruned``: what was NaN or infinite was removed.
    """

    frame: JsonRpcFrame | None
    fault: str = ""
    repaired: bool = False
    pruned: bool = False


def read_line(line: bytes) -> ParsedLine:
    """Read a line as a message, repaired if that shows what it answers."""
    try:
        return ParsedLine(json.decode_frame(line))
    except InvalidJson as error:
        fault = str(error)
    try:
        if fault == json.CONSTANT:
            return ParsedLine(json.decode_frame(json.without_constants(line)), fault, pruned=True)
        if not fault.startswith("not UTF-8"):
            return ParsedLine(None, fault)
        return ParsedLine(json.decode_frame(json.repaired(line)), fault, True)
    except InvalidJson:
        return ParsedLine(None, fault)


_a_number = re.compile(rb"\"?([0-9]{1,18})(?:\.0{1,18})?\"?").fullmatch


def number_in(raw: Raw) -> int | None:
    """Return the number of a request that a server repeats, also as text or as 3.0; None if it is none."""
    found = _a_number(raw)
    return int(found[1]) if found else None


def number_of(frame: JsonRpcFrame) -> int | None:
    """Return the number of the request that a message answers; None if it has none of ours."""
    return None if frame.id is UNSET else number_in(frame.id)


def is_readable(frame: JsonRpcFrame) -> bool:
    """Return whether a client can read an answer: an object, or an error with code and message.

    A client drops any other answer, and waits forever.
    """
    if frame.result is not UNSET:
        return _begins(frame.result, b"{")
    assert frame.error is not UNSET
    try:
        members = json.fields(frame.error)
    except InvalidJson:
        return False
    code = bytes(members.get("code", b""))
    return code.lstrip(b"-").isdigit() and _begins(members.get("message", Raw(b"")), b'"')


def subscription_of(params: Raw) -> int | None:
    """Return the number of the request that a notification belongs to, as its ``_meta`` names it."""
    try:
        meta = json.fields(json.fields(params).get("_meta", b"{}"))
        return int(bytes(meta.get(META_SUBSCRIPTION, b"")))
    except (InvalidJson, ValueError):
        return None


def supported_versions(raw: Raw) -> list[str]:
    """Return the protocol versions that an error names as supported, at most 100; none if it names none."""
    try:
        data = json.member(json.fields(raw), "data")
    except InvalidJson:
        return []
    versions = data.get("supported") if isinstance(data, dict) else None
    if not isinstance(versions, list):
        return []
    return [version for version in versions[:_MOST_VERSIONS] if isinstance(version, str)]


def _begins(raw: Raw, with_: bytes) -> bool:
    return bytes(memoryview(raw)[:64]).lstrip().startswith(with_)


def error_of(raw: Raw) -> tuple[int, str]:
    """Return code and message of an error, as far as they can be read."""
    try:
        body = json.decode(raw)
    except InvalidJson:
        return 0, "unreadable error"
    if not isinstance(body, dict):
        return 0, str(body)
    code = body.get("code")
    return code if isinstance(code, int) else 0, str(body.get("message", ""))
