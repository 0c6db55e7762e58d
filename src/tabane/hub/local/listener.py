"""Listener of the hub's Unix socket: checks the peer's user, then its hello."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tabane.hub.local import handshake
from tabane.hub.local.handshake import Hello, HelloRefused, InvalidHello, Welcome, say, supersedes
from tabane.hub.local.lock import OwnFile


class HubIdentity(NamedTuple):
    """The hub as its welcome describes it.

    ``replaceable`` is whether a newer version may replace it; ``code`` is the folder of its code, and
    ``on_disk`` the name of the build in it now. ``found`` is whether the home still belongs to the hub.
    """

    version: str
    home: str
    servers: str
    replaceable: bool
    code: str = ""
    on_disk: str = ""
    found: bool = True


def refusal(hello: Hello, house: HubIdentity) -> HelloRefused | None:
    """Return why this hub does not serve a client; None if it does. Pure."""
    if not house.found:
        return HelloRefused("ending", say("The home of this hub was deleted, so the hub stops."))
    if hello.home and not _same_file(hello.home, house.home):
        text = say("This hub belongs to another home: {hub}, not {asked}.", hub=house.home, asked=hello.home)
        return HelloRefused("home", text)
    if hello.servers and not _same_file(hello.servers, house.servers):
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
    """Return the user in the kernel's credentials of a peer: ``ucred`` on Linux, ``xucred`` on macOS."""
    if platform == "darwin":
        version, uid = struct.unpack_from("=II", credentials)
        if version != 0:
            raise ValueError("unknown version of xucred")
        return int(uid)
    _, uid, _ = struct.unpack("=iII", credentials)
    return int(uid)


def trusted(uid: int, own: int) -> bool:
    """Return whether processes of that user may connect: only those of the hub's own user."""
    return uid == own


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


log = logging.getLogger(__name__)

HELLO_LIMIT = 5.0
"""Seconds that a client may take to send its hello."""

MOST_GREETINGS = 64
"""Most connections that have not sent their hello yet."""

BACKLOG = 128

_BREATH = 0.5
_LOCAL_PEERCRED = 1
_XUCRED_SIZE = 76


class ClientReceiver(Protocol):
    """Takes the admitted clients, and owns their descriptors from then on."""

    def house(self) -> HubIdentity: ...
    def welcome(self) -> Welcome: ...

    def refuses(self, hello: Hello) -> HelloRefused | None:
        """Return why a client cannot have what it asks for; None if it can."""
        ...

    def full(self, hello: Hello) -> bool:
        """Return whether the limit of clients of that kind is reached."""
        ...

    def take(self, fd: int, hello: Hello) -> None: ...


class HubListener:
    """Accepts connections at ``path`` and hands each over after its hello."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        path: str,
        reception: ClientReceiver,
        peer_uid: Callable[[socket.socket], int] | None = None,
        hello_limit: float = HELLO_LIMIT,
    ) -> None:
        self._loop, self.path, self._reception = loop, path, reception
        self._peer_uid = peer_uid or uid_of
        self.hello_limit = hello_limit
        self._socket: socket.socket | None = None
        self._file: OwnFile | None = None
        self._greetings: set[_PendingHello] = set()

    def open(self) -> None:
        """Listen. Call it with the home's lock held: then an existing socket is stale.

        Raises OSError, also if something other than a socket is in the way.
        """
        # Delete the socket that the last hub left; raise if it is anything else.
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
            os.unlink(self.path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.setblocking(False)
        mask = os.umask(0o177)
        try:
            listening.bind(self.path)
        except OSError:
            listening.close()
            raise
        finally:
            os.umask(mask)
        listening.listen(BACKLOG)
        self._socket, self._file = listening, OwnFile(self.path)
        self._loop.add_reader(listening, self._accept)

    def reopen(self) -> None:
        """Listen again if the socket's file was deleted: clients find this hub by it. Raises OSError."""
        if self._socket is not None and not os.path.lexists(self.path):
            log.warning("%s was deleted; the hub listens there again", self.path)
            self._stop_listening()
            self.open()

    def close(self) -> None:
        """Take no more connections. Those handed over are not touched."""
        for greeting in list(self._greetings):
            greeting.close()
        self._stop_listening()

    def _stop_listening(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.unlink()
            self._socket.close()
            self._socket = None

    def _accept(self) -> None:
        if self._socket is None:
            return
        try:
            peer, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        except OSError as error:
            # Out of descriptors: asking again at once would find the same, a hundred thousand times a second.
            log.error("cannot accept a connection: %s", error.strerror)
            if self._socket is not None:
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_BREATH, self._resume)
            return
        peer.setblocking(False)
        self._admit(peer)

    def _admit(self, peer: socket.socket) -> None:
        try:
            uid = self._peer_uid(peer)
        except (OSError, ValueError) as error:
            log.error("the user of a connection is not known: %s", error)
            peer.close()
            return
        if not trusted(uid, os.getuid()):
            log.warning("a connection of another user (uid %d) was refused", uid)
            peer.close()
        elif len(self._greetings) >= MOST_GREETINGS:
            log.warning("more than %d connections without a hello; one is refused", MOST_GREETINGS)
            peer.close()
        else:
            self._greetings.add(_PendingHello(self._loop, peer, self))

    def _resume(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._accept)

    def over(self, greeting: _PendingHello) -> None:
        """Note that a greeting has ended, with success or not."""
        self._greetings.discard(greeting)

    def met(self, peer: socket.socket, hello: Hello) -> None:
        """Welcome the sender of a hello and hand it over, or refuse it."""
        reception = self._reception
        answer: Welcome | HelloRefused = (
            refusal(hello, reception.house()) or reception.refuses(hello) or reception.welcome()
        )
        if isinstance(answer, Welcome) and reception.full(hello):
            answer = HelloRefused("full", say("The hub has reached its maximum number of connections."))
        try:
            # A few hundred bytes into an empty buffer: taken whole, or the peer is gone.
            peer.send(handshake.encode(answer))
        except OSError:
            peer.close()
            return
        if isinstance(answer, HelloRefused):
            log.info("a client was refused: %s", answer.text("en"))
            peer.close()
        else:
            reception.take(peer.detach(), hello)


class _PendingHello:
    """A connection that has not sent its hello yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop, peer: socket.socket, listener: HubListener) -> None:
        self._loop, self._peer, self._listener = loop, peer, listener
        self._heard = b""
        self._timer = loop.call_later(listener.hello_limit, self.close)
        loop.add_reader(peer, self._readable)

    def close(self) -> None:
        self._end()
        self._peer.close()

    def _end(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._peer)
        self._listener.over(self)

    def _readable(self) -> None:
        try:
            chunk = self._peer.recv(handshake.MAX_HELLO)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        self._heard += chunk
        if self._heard.endswith(b"\n"):
            self._take_hello(self._heard)
        elif not chunk or len(self._heard) > handshake.MAX_HELLO:
            self.close()

    def _take_hello(self, line: bytes) -> None:
        try:
            hello = handshake.read_hello(line)
        except InvalidHello as error:
            log.warning("a connection did not begin with a hello: %s", error)
            self.close()
            return
        self._end()
        self._listener.met(self._peer, hello)


def uid_of(peer: socket.socket) -> int:
    """Return the user at the other end, from the kernel. Raises OSError or ValueError."""
    if sys.platform == "darwin":
        return uid_in(peer.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_SIZE))
    return uid_in(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
