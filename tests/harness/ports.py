"""Ports that nobody else gets while a test needs them."""

from __future__ import annotations

import socket
import sys
import weakref


def reserved_port(owner: object) -> int:
    """Return a port of this machine at which nothing listens, reserved for as long as ``owner`` exists.

    A socket stays bound to it without listening. On Linux, a server that allows the reuse of its address can
    listen there all the same, and nobody else is given the port. Elsewhere the port is only free now.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port: int = holder.getsockname()[1]
    if sys.platform == "linux":
        weakref.finalize(owner, holder.close)
    else:
        holder.close()
    return port
