"""An empty network for one process, whose only way out is a listening socket that a proxy outside serves.

The socket is created inside and handed to the proxy: a socket stays in the network where it was created, so
nothing has to run inside to forward what is said. This runs in the keeper's child between fork and exec.
"""

from __future__ import annotations

import _socket
import fcntl
import os

from tabane.guard.cages.landlock import system_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes

NEW_USER, NEW_NET = 0x1000_0000, 0x4000_0000
LOOPBACK = "127.0.0.1"

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_BACKLOG = 64
_KEPT = (b"TABANE_INSTANCE", b"LD_LIBRARY_PATH")
"""Variables that the proxy gets: its marker, by which it ends with the server, and the interpreter's own."""


def enter(library: ctypes.CDLL, proxy: list[bytes], port: int, env: dict[bytes, bytes]) -> None:
    """Move this process into an empty network, and start ``proxy`` outside. Raises OSError.

    The proxy gets the listening socket over its descriptor 0.
    """
    ours, theirs = _socket.socketpair()
    _start_proxy(proxy, theirs.fileno(), {name: env[name] for name in _KEPT if name in env})
    theirs.close()
    isolate(library)
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(_BACKLOG)
        rights = listener.fileno().to_bytes(4, "little")
        ours.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    finally:
        listener.close()
    ours.close()


def isolate(library: ctypes.CDLL) -> None:
    """Create a user namespace with the same user, and in it an empty network. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    if library.unshare(NEW_USER | NEW_NET) != 0:
        raise system_error()
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        request = b"lo".ljust(16, b"\0") + bytes(16)
        flags = int.from_bytes(fcntl.ioctl(probe.fileno(), _GET_FLAGS, request)[16:18], "little") | _UP
        fcntl.ioctl(probe.fileno(), _SET_FLAGS, request[:16] + flags.to_bytes(2, "little") + bytes(14))
    finally:
        probe.close()


def _start_proxy(command: list[bytes], channel: int, env: dict[bytes, bytes]) -> None:
    """Start the proxy as a child of the keeper: its parent, a process between, ends at once."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(channel, 0)
            os.dup2(null, 1)
            os.execve(command[0], command, env)
    finally:
        os._exit(0)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
