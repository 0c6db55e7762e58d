"""Limits of scripts."""

from __future__ import annotations

from msgspec import Struct

MIB = 1 << 20


class ScriptLimits(Struct, frozen=True):
    """Limits of one script, and the number of scripts that run at the same time.

    ``seconds`` is the time that the interpreter computes, without the time in which tools work. ``memory`` is
    that of the values of a script, ``output`` the size of what it prints, and of its result; all in bytes.
    ``calls`` are those of tools, ``parallel`` how many of them run at the same time. ``recursion`` is the
    depth of calls of functions. ``workers`` are processes; further scripts wait up to ``patience`` seconds.
    """

    seconds: float = 10.0
    memory: int = 64 * MIB
    output: int = MIB
    calls: int = 500
    parallel: int = 16
    recursion: int = 400
    workers: int = 4
    patience: float = 30.0
