"""Handles of parked calls: the ``requestState`` that a client repeats, signed with a key of the hub; pure.

A handle is text: ``tbq.HUB.CALL.ROUND.EXPIRES.MAC``. HUB says which hub made it, so that the state of another
hub, or of a modern server, is not taken for a forged one. The MAC also covers what the handle is bound to:
the identity that called, the method, the name, and the arguments.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import NamedTuple

from tabane.wire.argument_digest import argument_digest
from tabane.wire.json import Members

KEY_BYTES = 32
MOST_ARGUMENTS = 64 << 10
"""Bytes of arguments that a handle is bound to. Larger ones would take too long to compare."""

LONGEST = 300
"""Characters of a handle."""

AGAIN = "again"
"""Stands for the call in a handle of a call that is not parked but made again."""

LOGIN = "login"
"""The same for a call that is made again after a login at its server."""

APPROVAL = "approval-"
"""Begins the same for a call that is made again after its approval, whose id follows."""

_PREFIX = "tbq"


class ForgedHandle(ValueError):
    """A handle claims to be of this hub, but was changed, or belongs to another call or identity."""


class CallBinding(NamedTuple):
    """What a handle is bound to."""

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
    ``content`` are the values of a form as JSON.
    """

    about: str
    action: str
    content: bytes

    @property
    def agreed(self) -> bool:
        return self.action == "accept"


class HandleSigner:
    """Signs handles and checks them. The key given is secret, and so is ``key``, which signs other things."""

    def __init__(self, key: bytes) -> None:
        self._key, self.key = key, hmac.digest(key, b"other signatures", "sha256")
        self.hub = hashlib.sha256(b"hub" + key).hexdigest()[:8]

    def sign(self, handle: CallHandle, binding: CallBinding) -> str:
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
        if len(text) > LONGEST or not hmac.compare_digest(mac.encode("utf-8", "replace"), mine):
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
    given = params.get("arguments")
    if given is None or len(given) > MOST_ARGUMENTS:
        return b""
    digest = argument_digest(bytes(given))
    return b"" if digest in _NOTHING else digest[:16]


_NOTHING = frozenset(argument_digest(text) for text in (b"{}", b"null"))
"""Digests of arguments that say the same as none."""
