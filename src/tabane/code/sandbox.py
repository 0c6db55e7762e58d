"""Stops of a script in the sandbox, at calls of tools and at its end, and snapshots of a paused script.

A snapshot holds a script that waits for a person: all of its state as signed bytes. These are a line with the
MAC, a line with the versions, and the state. The MAC covers the rest. Nothing of the hub is in them: tools
are paths, approvals are ids, and calls that were made are results in the state.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import DecodeError, Raw, Struct, ValidationError, msgpack

from tabane.operations import CallTarget


class ScriptFailed(Exception):
    """A script has failed: by an error of its own, at a limit, or because its process is gone.

    ``text`` is for whoever wrote the script, and ``printed`` what it had printed before.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Raised(NamedTuple):
    """An exception that a call raises in the script: its type, which Python has, and its text."""

    kind: str
    text: str


class Returned(NamedTuple):
    """The result of a call, as :func:`tabane.code.script_values.tool_value` reads it."""

    result: Raw
    wrapped: bool = False


Settled = Raised | Returned


class ToolCalled(NamedTuple):
    """The script calls a function of ``tools``: ``github.search_issues``.

    ``unfit`` says why its arguments cannot be given to a tool; then there are none here. ``awaited``: it
    waits for the result at once, and nothing else of it can run. ``place`` is that of the call in the
    source, as offsets in bytes.
    """

    id: int
    function: str
    given: Sequence[Any]
    named: Mapping[str, Any]
    unfit: str
    place: tuple[int, int]
    awaited: bool


class Waiting(NamedTuple):
    """The script cannot go on before one of these calls has ended."""

    ids: Sequence[int]


class Finished(NamedTuple):
    """The script has ended. ``value`` is that of its last expression; ``unfit`` says why it has none."""

    value: Raw
    unfit: str = ""


Stop = Waiting | Finished

Judge = Callable[[ToolCalled], Raised | None]
"""Judges each call that a script makes: an exception for the script, or None to accept the call.
Raises ScriptFailed to end the script."""

Modules = Mapping[str, Sequence[str]]
"""Names of functions by module; those of the module ``""`` are imported from ``tools`` itself."""

LIFE = 600.0
"""Seconds for which a snapshot can be used: as long as an approval is waited for."""

LARGEST = 8 << 20
"""Bytes of a snapshot."""

Sign = Callable[[bytes], bytes]
"""Returns the MAC of some bytes."""


class SnapshotRefused(Exception):
    """A snapshot that cannot be used. The text says why."""


class HeldCall(Struct, frozen=True):
    """A call that the script has begun but does not wait for yet. ``place`` is that in its source.

    ``arguments`` are JSON.
    """

    id: int
    path: str
    arguments: bytes
    place: tuple[int, int]


class AskedCall(Struct, frozen=True):
    """A call that was not sent, because a person has to approve it first. ``text`` says so."""

    id: int
    path: str
    arguments: bytes
    approval: str
    text: str


class PausedRun(Struct, frozen=True):
    """A run that stands still. ``state`` is that of the interpreter, ``left`` the seconds that it still has.

    ``accepted``, ``made`` and ``over`` count calls: begun, made, and ended.
    """

    state: bytes
    printed: str
    held: tuple[HeldCall, ...]
    asked: tuple[AskedCall, ...]
    accepted: int
    made: int
    over: int
    left: float


class ScriptSnapshot(Struct, frozen=True):
    """A script that waits for a person. ``began`` and ``expires`` are in seconds since 1970.

    ``read``: the tools from which it has read.
    """

    script: str
    holder: str
    code: str
    run: PausedRun
    began: float
    expires: float
    read: tuple[CallTarget, ...] = ()


_decoder = msgpack.Decoder(ScriptSnapshot)


def packed(snapshot: ScriptSnapshot, versions: str, sign: Sign) -> bytes:
    """Return a snapshot as signed bytes. Raises SnapshotRefused if it is too large."""
    body = versions.encode() + b"\n" + msgpack.encode(snapshot)
    if len(body) > LARGEST:
        raise SnapshotRefused(
            f"it keeps {len(body) >> 10} KiB of values, but at most {LARGEST >> 10} KiB can wait. Keep only "
            "what is needed after the call."
        )
    return sign(body).hex().encode() + b"\n" + body


def unpacked(text: bytes, versions: str, sign: Sign, holder: str, now: float) -> ScriptSnapshot:
    """Return the snapshot in some bytes. Raises SnapshotRefused if it is not to be trusted, or too old."""
    mac, _, body = text.partition(b"\n")
    if not hmac.compare_digest(mac, sign(body).hex().encode()):
        raise SnapshotRefused("its snapshot was changed")
    made_by, _, state = body.partition(b"\n")
    if made_by != versions.encode():
        raise SnapshotRefused("it was paused by another version of Tabane")
    try:
        snapshot = _decoder.decode(state)
    except (DecodeError, ValidationError):
        raise SnapshotRefused("its snapshot cannot be read") from None
    if snapshot.holder != holder:
        raise SnapshotRefused("it belongs to somebody else")
    if snapshot.expires <= now:
        raise SnapshotRefused("nobody has answered in time")
    return snapshot


def signed_by(key: bytes) -> Sign:
    """Return what signs snapshots with a key of the hub."""
    own = hmac.digest(key, b"scripts", "sha256")

    def sign(body: bytes) -> bytes:
        return hmac.digest(own, body, "sha256")

    return sign
