"""Whom the hub lets in at its own door; pure."""

from __future__ import annotations

import os
import struct
import sys
from typing import NamedTuple

from tabane.hub.local.handshake import Hello, HelloRefused, supersedes
from tabane.hub.local.localized import say


class HubIdentity(NamedTuple):
    """The hub as its welcome describes it.

    ``replaceable`` is whether a newer version may replace it; ``code`` is the folder of its code, and
    ``on_disk`` the name of the build that is there now. ``found`` is whether the home is still its own.
    """

    version: str
    home: str
    servers: str
    replaceable: bool
    code: str = ""
    on_disk: str = ""
    found: bool = True


def refusal(hello: Hello, house: HubIdentity) -> HelloRefused | None:
    """Why a client is not served by this hub; None where it is."""
    if not house.found:
        return HelloRefused("ending", say("The home of this hub was deleted, so the hub stops."))
    if hello.home and not _same(hello.home, house.home):
        text = say("This hub belongs to another home: {hub}, not {asked}.", hub=house.home, asked=hello.home)
        return HelloRefused("home", text)
    if hello.servers and not _same(hello.servers, house.servers):
        text = say(
            "The running hub uses the servers file {hub}, not {asked}. Use that file, stop the "
            "hub with tabane stop, or use another home for this file (TABANE_HOME).",
            hub=house.servers,
            asked=hello.servers,
        )
        return HelloRefused("servers", text)
    if hello.role != "replace":
        return None
    if not house.replaceable:
        return HelloRefused(
            "standalone", say("This hub runs inside an assistant's process and cannot be replaced.")
        )
    if not supersedes(hello, house, house.on_disk):
        return HelloRefused(
            "version",
            say(
                "The running hub is {version}. It can be replaced only by a newer version.",
                version=house.version,
            ),
        )
    return None


def uid_in(credentials: bytes, platform: str = sys.platform) -> int:
    """The user in what the kernel says of a peer: ``struct ucred`` on Linux, ``xucred`` on macOS."""
    if platform == "darwin":
        version, uid = struct.unpack_from("=II", credentials)
        if version != 0:
            raise ValueError("unknown version of xucred")
        return int(uid)
    _, uid, _ = struct.unpack("=iII", credentials)
    return int(uid)


def trusted(uid: int, own: int) -> bool:
    """Whether a process of that user may come in: only one of the hub's own user."""
    return uid == own


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
