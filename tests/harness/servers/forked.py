"""A process that stands for a fork of another one: it hands its streams over and ends as the fork does.

    [sys.executable, "-I", "-S", FORKED, SOCKET, MODULE, ARGUMENT …]

The process at SOCKET forks one that runs MODULE: see tests/harness/sdk_forks.py. If this one is killed, so is
the fork. Only built-in modules are imported, which takes a few milliseconds.
"""

import _socket
import array
import marshal
import os
import sys


def main() -> None:
    address, *command = sys.argv[1:]
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    channel.connect(address)
    request = marshal.dumps((command, dict(os.environ), os.getcwd()))
    descriptors = array.array("i", (0, 1, 2)).tobytes()
    head = len(request).to_bytes(4, "big")
    channel.sendmsg([head], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    sent = 0
    while sent < len(request):
        sent += channel.send(request[sent:])
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    os._exit(int(channel.recv(16) or b"1") & 0xFF)


if __name__ == "__main__":
    main()
