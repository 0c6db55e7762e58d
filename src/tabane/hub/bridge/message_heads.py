"""Heads of messages: id, method and kind; pure.

A bridge forwards lines. It reads only as much of them as it needs to answer for a lost hub. Ids are
compared in one spelling (:func:`canonical`), because a peer may escape the same string in several ways.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

LARGE = 64 << 10
"""Bytes above which a client's line is not decoded as a whole, if its two ends are enough."""

_PLAIN = re.compile(
    rb'\{"jsonrpc": ?"2\.0", ?"id": ?(0|[1-9][0-9]{0,17}), ?"method": ?"([A-Za-z0-9_/]+)"[,}]'
).match
_ID_LAST = re.compile(rb'[,{]\s*"id"\s*:\s*(-?[0-9]{1,18}|"(?:[^"\\]|\\.){0,512}")\s*\}\s*$')
_METHOD_FIRST = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:\s*("(?:[^"\\]|\\.){0,512}")\s*,'
)
_ID_FIRST = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?[0-9]{1,18}|"(?:[^"\\]|\\.){0,512}")\s*,'
)
_ANSWER = b'{"jsonrpc":"2.0","id":'
_AFTER = len(_ANSWER)


class ClientMessageHead(NamedTuple):
    """``id`` is canonical, None in a notification; ``method`` is None in an answer."""

    id: bytes | None
    method: str | None


class HubMessageHead(NamedTuple):
    """A message of the hub with an id: an answer, which may be an error, or a request of its own."""

    id: bytes
    asks: bool
    failed: bool


def canonical(value: object) -> bytes:
    """Return an id in the one spelling that ids are compared in, which is JSON itself."""
    return json.dumps(value).encode()


def plain_request(line: bytes) -> re.Match[bytes] | None:
    """Return id and method of a request in the form that nearly all have; None for any other line."""
    plain = _PLAIN(line)
    return plain if plain is not None and line.endswith(b"}") else None


def plain_result(line: bytes) -> bytes | None:
    """Return the id of an answer with a result, if that is a number; None for any other line."""
    if not line.startswith(_ANSWER):
        return None
    end = line.find(b",", _AFTER)
    name = line[_AFTER:end]
    return name if name.isdigit() and line.startswith(b',"result":', end) else None


def of_client(line: bytes) -> list[ClientMessageHead]:
    """Return the messages in a client's line: one, or those of a batch; none if it is not JSON-RPC."""
    plain = plain_request(line)
    if plain is not None:
        return [ClientMessageHead(plain[1], plain[2].decode())]
    if len(line) > LARGE and line[:1] != b"[":
        ends = _of_ends(line)
        if ends:
            return [ends]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [_of_value(item) for item in (value if isinstance(value, list) else [value]) if _speaks(item)]


def of_client_head(head: bytes) -> bytes | None:
    """Return the id of a line of which only the beginning is left; None if it does not begin with one."""
    found = _ID_FIRST.match(head)
    return canonical(json.loads(found[1])) if found else None


def of_hub(line: bytes) -> list[HubMessageHead]:
    """Return the answers and requests in a line of the hub; empty for a notification.

    Answers of a hub begin with ``{"jsonrpc":"2.0","id":``, so the rest of them is not read; an array
    is the answer to a batch.
    """
    if line[:1] != b"[" and not line.startswith(_ANSWER):
        return []
    try:
        if line[:1] != b"[":
            return [_of_answer(line)]
        values = json.loads(line)
    except (ValueError, RecursionError):
        return []
    items = [item for item in values if _speaks(item) and "id" in item]
    return [HubMessageHead(canonical(item["id"]), "method" in item, "error" in item) for item in items]


def reason(line: bytes) -> str | None:
    """Return ``error.data.reason`` of an answer; None if it is not an error or has none."""
    try:
        found = json.loads(line)["error"]["data"]["reason"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _of_ends(line: bytes) -> ClientMessageHead | None:
    # A name before the last brace belongs to the outermost object, with anything in between; quotes
    # within a string are escaped, so neither pattern can match inside of one.
    method = _METHOD_FIRST.match(line)
    last = _ID_LAST.search(line, max(0, len(line) - 1024))
    if method and last:
        return ClientMessageHead(canonical(json.loads(last[1])), json.loads(method[1]))
    return None


def _of_answer(line: bytes) -> HubMessageHead:
    begin = _AFTER
    if line[begin : begin + 1] == b'"':
        end = _closing_quote(line, begin + 1) + 1
        name = canonical(json.loads(line[begin:end]))
    else:
        end = line.index(b",", begin)
        name = line[begin:end]
        if not name.isdigit():
            name = canonical(json.loads(name))
    return HubMessageHead(name, line.startswith(b',"method"', end), line.startswith(b',"error"', end))


def _closing_quote(line: bytes, at: int) -> int:
    while True:
        at = line.index(b'"', at)
        back = at
        while line[back - 1 : back] == b"\\":
            back -= 1
        if (at - back) % 2 == 0:
            return at
        at += 1


def _speaks(value: object) -> bool:
    return isinstance(value, dict)


def _of_value(message: dict[str, Any]) -> ClientMessageHead:
    method = message.get("method")
    return ClientMessageHead(
        canonical(message["id"]) if "id" in message else None,
        method if isinstance(method, str) else None,
    )
