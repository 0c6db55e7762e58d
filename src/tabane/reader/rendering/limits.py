"""What one rendered page may take."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times are seconds, sizes bytes.

    ``seconds`` is for everything, with the browser's start; ``settle`` for the page to load and become
    quiet, after which it is taken as it is. ``requests`` are those of the page that leave it; ``connections``
    and ``traffic`` are counted by the gate, as they come from the network. ``memory`` is what the browser's
    processes may hold of their own together (Linux), ``html`` the characters of the result, ``nodes`` the
    elements and texts of it. ``waiting``: pages that may wait for their turn.
    """

    seconds: float = 30.0
    settle: float = 12.0
    requests: int = 300
    connections: int = 150
    traffic: int = 30 * MB
    memory: int = 1_500 * MB
    html: int = 10 * MB
    nodes: int = 300_000
    dialogs: int = 20
    waiting: int = 4
