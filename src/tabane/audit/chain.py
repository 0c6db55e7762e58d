"""Chain of the audit log: its key, and the mac of each entry."""

from __future__ import annotations

import contextlib
import hashlib
import os

from tabane.errors import AuditError
from tabane.messages import say

KEY_BYTES = 32
_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class MacChain:
    """Computes HMAC-SHA256 (RFC 2104) with a key that is hashed only once."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(_BLOCK, b"\0")
        assert len(padded) == _BLOCK
        self._inner = hashlib.sha256(padded.translate(_INNER))
        self._outer = hashlib.sha256(padded.translate(_OUTER))

    def mac(self, previous: bytes, body: bytes) -> bytes:
        """Return the mac of an entry: of the mac before it and of its line before ``,"mac":``."""
        inner = self._inner.copy()
        inner.update(previous + body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()


def equal_macs(one: bytes, other: bytes) -> bool:
    from hmac import compare_digest  # not needed by a new log

    return compare_digest(one, other)


def read_key(path: str) -> bytes:
    """Return the key in a file. Raises AuditError if it is missing, unreadable or no key."""
    try:
        with open(path, "rb") as file:
            key = bytes.fromhex(file.read(4 * KEY_BYTES).decode("ascii").strip())
    except FileNotFoundError:
        raise AuditError(say("The key of the audit log is missing: {path}", path=path)) from None
    except OSError as error:
        raise AuditError(
            say("The key of the audit log cannot be read: {path} ({reason})", path=path, reason=str(error))
        ) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise AuditError(say("{path} does not contain a key of the audit log.", path=path))
    return key


def own_key(path: str) -> bytes:
    """Return the key of the hub, which is made at first use. Raises AuditError."""
    if not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):
            _make_key(path)
    return read_key(path)


def _make_key(path: str) -> None:
    """Write a new key, complete or not at all. Raises FileExistsError if there is one by now, AuditError."""
    temporary = f"{path}.{os.urandom(4).hex()}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, os.urandom(KEY_BYTES).hex().encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(temporary, path)
        sync_folder(os.path.dirname(path))
    except FileExistsError:
        raise
    except OSError as error:
        raise AuditError(
            say("The key of the audit log cannot be written: {path} ({reason})", path=path, reason=str(error))
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def sync_folder(path: str) -> None:
    """Write the names in a folder to disk. Raises OSError."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
