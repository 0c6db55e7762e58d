"""Formats of parked calls: the handle that a client repeats, and the file with which a call outlives the hub.

A handle (``requestState``) is text: ``tbq.HUB.CALL.ROUND.EXPIRES.MAC``. HUB says which hub made it, so that
the state of another hub, or of a modern server, is not taken for a forged one. The MAC also covers what the
handle is bound to: the identity that called, the method, the name, and the arguments.

A file has the id of the server's session, which is a secret: its mode is 0600.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import NamedTuple

import msgspec

from tabane.errors import StoreNewer
from tabane.settings.files import read_trusted, write_private
from tabane.upstreams.call import SessionPosition
from tabane.wire.json import Members, argument_digest

log = logging.getLogger(__name__)

KEY_BYTES = 32
MOST_ARGUMENTS = 64 << 10
"""Bytes of arguments that a handle is bound to. Larger ones would take too long to compare."""

LONGEST_HANDLE = 300
"""Characters of a handle."""

AGAIN = "again"
"""Stands for the call in a handle of a call that is not parked but made again."""

LOGIN = "login"
"""Stands for the call in a handle of a call that is made again after a login at its server."""

APPROVAL = "approval-"
"""Begins the handle of a call that is made again after its approval, whose id follows."""

_PREFIX = "tbq"


class ForgedHandle(ValueError):
    """A handle claims to be of this hub, but was changed, or belongs to another call or identity."""


class CallBinding(NamedTuple):
    """Caller and call that a handle is bound to."""

    holder: str
    method: bytes
    name: str
    digest: bytes


class CallHandle(NamedTuple):
    """The content of a handle. ``expires`` is in seconds since 1970."""

    call: str
    round: int
    expires: int


class RepeatedAnswer(NamedTuple):
    """The answer of a user to a question of the hub itself, with a request that is made again.

    ``about`` is :data:`LOGIN`, or :data:`APPROVAL` and an id. ``action`` is accept, decline or cancel;
    ``values`` are those of a form.
    """

    about: str
    action: str
    values: Members


class HandleSigner:
    """Signs handles and checks them. The key given is secret, and so is ``key``, which signs other things."""

    def __init__(self, key: bytes) -> None:
        self._key, self.key = key, hmac.digest(key, b"other signatures", "sha256")
        self.hub = hashlib.sha256(b"hub" + key).hexdigest()[:8]

    def sign(self, handle: CallHandle, binding: CallBinding) -> str:
        """Return a handle as text, with a MAC that binds it to its caller and call."""
        body = f"{_PREFIX}.{self.hub}.{handle.call}.{handle.round}.{handle.expires}"
        return f"{body}.{self._mac(body, binding)}"

    def check(self, text: str, binding: CallBinding) -> CallHandle | None:
        """Return the content of a handle; None if it is of somebody else. Raises ForgedHandle."""
        body, _, mac = text.rpartition(".")
        parts = body.split(".")
        if parts[:2] != [_PREFIX, self.hub]:
            if text.startswith(f"{_PREFIX}.{self.hub}"):
                raise ForgedHandle("it was changed")
            return None
        mine = self._mac(body, binding).encode()
        if len(text) > LONGEST_HANDLE or not hmac.compare_digest(mac.encode("utf-8", "replace"), mine):
            raise ForgedHandle("it was changed, or belongs to another call or client")
        _, _, call, number, expires = parts
        return CallHandle(call, int(number), int(expires))

    def _mac(self, body: str, binding: CallBinding) -> str:
        named = (body, binding.holder, binding.method.decode(), binding.name)
        parts = [*(part.encode("utf-8", "surrogatepass") for part in named), binding.digest]
        text = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return urlsafe_b64encode(hmac.digest(self._key, text, "sha256")[:18]).decode()


def digest_of(params: Members) -> bytes:
    """Return a digest of a call's arguments that does not depend on how their JSON is written."""
    arguments = params.get("arguments")
    if arguments is None or len(arguments) > MOST_ARGUMENTS:
        return b""
    digest = argument_digest(bytes(arguments))
    return b"" if digest in _NOTHING else digest[:16]


_NOTHING = frozenset(argument_digest(text) for text in (b"{}", b"null"))
"""Digests of arguments that equal no arguments."""


FOLDER = "parked-calls"
FORMAT = 1
"""Format of a file. Files of builds before 0.16 do not name theirs, which is this one."""

LONGEST = 1 << 20
"""Bytes of one file. A call with longer questions does not outlive the hub."""


class StoredQuestion(msgspec.Struct, frozen=True):
    """A question: its key for the client, the id of the server's request as JSON, and what it asks."""

    key: str
    request: str
    method: str
    params: msgspec.Raw


class StoredCall(msgspec.Struct, frozen=True):
    """A parked call. ``progress`` says whether its progress was asked for.

    ``format`` increases when earlier builds would misread a file.
    """

    id: str
    round: int
    count: int
    expires: float
    server: str
    fingerprint: str
    position: SessionPosition
    method: str
    progress: bool
    features: tuple[str, ...]
    questions: tuple[StoredQuestion, ...]
    format: int = FORMAT


class _FileHead(msgspec.Struct, frozen=True):
    """Members of the files of every format."""

    format: int = FORMAT


class ParkedFiles:
    """The files of a hub."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._tidied = False

    def has(self, name: str) -> bool:
        """Return whether a call of that name is kept."""
        return self._path(name).exists()

    def write(self, call: StoredCall) -> None:
        """Keep a call. If that fails, it ends with the hub."""
        text = msgspec.json.encode(call)
        if len(text) > LONGEST:
            return
        path = self._path(call.id)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._delete_old_files()
            write_private(path, text, synced=False)
        except OSError as error:
            log.warning("a parked call ends with the hub: %s cannot be written (%s)", path, error.strerror)

    def read(self, name: str) -> StoredCall | None:
        """Return a call, None if there is none. Blocks.

        Raises ConfigurationError if others can write it, and StoreNewer if a newer build wrote it.
        """
        path = self._path(name)
        try:
            text = read_trusted(path, LONGEST)
            head = msgspec.json.decode(text, type=_FileHead)
            if head.format > FORMAT:
                raise StoreNewer.of(path, head.format, FORMAT)
            return msgspec.json.decode(text, type=StoredCall)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def drop(self, name: str) -> None:
        """Delete a call, if it is kept."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _delete_old_files(self) -> None:
        """Delete what earlier hubs have left, once. Nothing is parked for an hour."""
        if self._tidied:
            return
        self._tidied = True
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - 3600:
                    path.unlink()
