"""Answers that would be longer than a client takes in one message; pure."""

from __future__ import annotations

from typing import Any

from tabane.errors import AnswerTooLong
from tabane.messages import say
from tabane.wire import json, rpc

MOST_ANSWER = (1 << 20) - 1
"""Bytes of a message to a client over the network: by default, libraries take less than 1 MiB in one."""

LEFT_OUT = ("reasoning", "summary", "tags")
"""What a post can do without: a model wrote it, for search."""


def fitted(request_id: bytes, body: bytes, most: int, warning: str = "") -> bytes:
    """The answer without what its posts can do without, and with a word on that, as a line.

    ``body`` is the JSON text of the whole result, ``warning`` what else is said beside it. Raises
    AnswerTooLong where that is not enough.
    """
    value = json.decode(body)
    found = _leave_out(value)
    if found:
        names = [name for name in LEFT_OUT if name in found]
        line = rpc.shortened(request_id, json.encode(value), names, warning)
        if len(line) <= most:
            return line
    raise too_long(len(body), most)


def too_long(size: int, most: int) -> AnswerTooLong:
    """What is said where an answer of ``size`` bytes cannot be given."""
    return AnswerTooLong(
        say(
            "The answer has {size} bytes; one message has {limit} at most. Ask for less.",
            size=size,
            limit=most,
        )
    )


def _leave_out(value: Any) -> set[str]:
    """Take those members off every post within ``value``. Returns the names of what was there."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if "post_id" in one:
                found.update(name for name in LEFT_OUT if one.pop(name, None) is not None)
            waiting += one.values()
    return found
