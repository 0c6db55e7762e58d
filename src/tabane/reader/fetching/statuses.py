"""What a status that is no answer means, in a sentence. Pure."""

from __future__ import annotations

from tabane.errors import ReadError
from tabane.messages import Message, say


def refusal(status: int, host: str, wait: float | None) -> ReadError:
    """The ReadError for ``status``: cause ``rate`` where it is a matter of time, ``status`` elsewhere.

    ``wait`` is how long ``host`` asks to wait, where it does. A 403 is a matter of time where the headers
    say so, as APIs do whose limit is spent.
    """
    timely = status in (429, 503) or (status == 403 and wait is not None)
    return ReadError(
        _slow(status, host, wait) if timely else _other(status, host),
        "rate" if timely else "status",
        status=status,
        wait=wait,
    )


def _slow(status: int, host: str, wait: float | None) -> Message:
    if wait:
        return say(
            "{host} asks to wait for {seconds:.0f} s (HTTP {status}): try again then.",
            host=host,
            seconds=wait,
            status=status,
        )
    return say("{host} is too busy now (HTTP {status}): try again later.", host=host, status=status)


def _other(status: int, host: str) -> Message:
    if status in (401, 407):
        return say("{host} wants a login for this page (HTTP {status}).", host=host, status=status)
    if status == 403:
        return say(
            "{host} does not let programs read this page, or wants a login (HTTP {status}).",
            host=host,
            status=status,
        )
    if status in (404, 410):
        return say("there is nothing at this URL of {host} (HTTP {status}).", host=host, status=status)
    if status >= 500:
        return say(
            "{host} has a fault of its own (HTTP {status}): try again later.", host=host, status=status
        )
    return say("{host} does not answer this request (HTTP {status}).", host=host, status=status)
