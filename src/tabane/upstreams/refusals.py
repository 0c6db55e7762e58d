"""Texts of why an instance is not running; pure."""

from __future__ import annotations

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say


def is_stopped(server: str) -> Message:
    """Return the text for a server that the user has stopped."""
    return say("{server!n} is stopped. Start it with: tabane servers start {server!c}", server=server)


def not_running(server: str, why: Message | None, seconds: float) -> UpstreamUnavailable:
    """Return the error for a server that is tried again in so many seconds."""
    why = why or say("it has not been started")
    if seconds < 0.5:
        return UpstreamUnavailable(say("{server!n} is not running: {why}", server=server, why=why))
    return UpstreamUnavailable(say(
        "{server!n} is not running: {why} (next try in {seconds:.0f} s; to try now: tabane "
        "servers restart {server!c})",
        server=server, why=why, seconds=seconds))  # fmt: skip


def no_lists(server: str, why: Message) -> Message:
    """Return the text for a server that runs without its lists."""
    return say("{server!n} runs, but does not list its tools: {why}", server=server, why=why)


def failed_start(server: str, why: Message) -> Message:
    """Return the text for a server that did not start."""
    return say(
        "{server!n} failed to start: {why}\nThen test it: tabane servers test {server!c}",
        server=server,
        why=why,
    )


def no_answer(seconds: float) -> Message:
    """Return why a start failed that took too long."""
    return say("it did not answer within {seconds:g} s", seconds=seconds)
