"""Snapshots of scripts that wait for a person: all of their state as bytes, signed; pure.

The bytes are a line with the MAC, a line with the versions, and the state. The MAC covers the rest. Nothing
of the hub is in them: tools are paths, approvals are ids, and calls that were made are results in the state.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from msgspec import DecodeError, Struct, ValidationError, msgpack

from tabane.operations import CallTarget

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
