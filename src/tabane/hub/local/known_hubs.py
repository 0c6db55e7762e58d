"""Hubs on other machines that this home knows: the key of each, and the authority of its certificate.

`tabane install --url` writes them once, into ``hubs/HOST_PORT`` of the home. So neither an assistant's file,
nor an argument, nor a variable has the key: many assistants start servers without their own variables.
TABANE_TOKEN and TABANE_CA come first. Only the standard library is used: the bridge reads these files too.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

FOLDER = "hubs"
KEY, CA = "key", "ca.pem"

_MOST_TOKEN = 4096


class KnownHub(NamedTuple):
    """What a home has for a hub: None for what it lacks. ``authority`` is the path of a PEM file."""

    key: str | None
    authority: str | None


def known_hub(home: str, host: str, port: int, *, tls: bool) -> KnownHub:
    """Return what is kept for the hub at that address. A key is for TLS, or for a hub on this machine."""
    if not (tls or is_local(host)):
        return KnownHub(None, None)
    folder = folder_of(home, host, port)
    authority = os.path.join(folder, CA)
    return KnownHub(read_token(os.path.join(folder, KEY)), authority if os.path.exists(authority) else None)


def is_local(host: str) -> bool:
    """Return whether what is sent to that host stays on this machine."""
    return host in ("localhost", "::1") or host.startswith("127.")


def folder_of(home: str, host: str, port: int) -> str:
    """Return the folder for the hub at that address."""
    name = re.sub(r"[^a-z0-9._-]", "-", host.lower().rstrip("."))
    return os.path.join(home, FOLDER, f"{name}_{port}")


def read_token(path: str) -> str | None:
    """Return the contents of a file with a token or key; None unless only this user can read it."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
                return None
            token = file.read(_MOST_TOKEN).decode("ascii", "replace").strip()
    except OSError:
        return None
    return token if token and token.isascii() and token.isprintable() else None
