"""The message to systemd that the hub serves (sd_notify(3), ``Type=notify``)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import MutableMapping


def report_ready(environ: MutableMapping[str, str]) -> None:
    """Send READY=1 to the socket in NOTIFY_SOCKET, if there is one, and remove the variable.

    No child process may report anything in the hub's name. A message that cannot be sent is not an error:
    the service manager reports a timeout.
    """
    address = environ.pop("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):  # the abstract namespace of Linux
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.setblocking(False)
        peer.sendto(b"READY=1", address)
