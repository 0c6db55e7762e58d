"""Failures of HTTP connections to servers: what was not sent, and what may have been."""

from __future__ import annotations

import os
from typing import Any

from tabane.messages import Message


class HttpUnreachable(Exception):
    """No connection could be made, so nothing was sent. ``untrusted``: the certificate is not trusted."""

    def __init__(self, problem: Message, *, untrusted: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.untrusted = problem, untrusted


class HttpConnectionBroken(Exception):
    """The connection broke after the request was sent, or may have been."""

    def __init__(self, problem: Message) -> None:
        super().__init__(problem)
        self.problem = problem


def system_text(error: Any) -> str:
    """Return the system's text for an error, since the client's own text repeats the address."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0 and not hasattr(error, "reason"):
        return os.strerror(number)
    reason = getattr(error, "reason", None)
    return str(reason or getattr(error, "strerror", None) or error or type(error).__name__)
