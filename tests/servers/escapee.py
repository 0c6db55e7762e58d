"""A program that tries to get out of its cage: one attempt, named by the first argument.

[sys.executable, ESCAPEE, ATTEMPT, ARGUMENT…]. It writes "done" and what it got, or "refused" and why. It is
no MCP server: what a process may do does not depend on what it speaks.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

CALLS = {
    "x86_64": {
        "ptrace": 101,
        "mount": 165,
        "unshare": 272,
        "bpf": 321,
        "keyctl": 250,
        "perf_event_open": 298,
        "io_uring_setup": 425,
        "userfaultfd": 323,
        "process_vm_readv": 310,
    },
    "aarch64": {
        "ptrace": 117,
        "mount": 40,
        "unshare": 97,
        "bpf": 280,
        "keyctl": 219,
        "perf_event_open": 241,
        "io_uring_setup": 425,
        "userfaultfd": 282,
        "process_vm_readv": 270,
    },
}[os.uname().machine]

libc = ctypes.CDLL(None, use_errno=True)


def write(path: str) -> str:
    with open(path, "w") as file:
        return str(file.write("escaped"))


def append(path: str) -> str:
    with open(path, "a") as file:
        return str(file.write("escaped"))


def read(path: str) -> str:
    with open(path, "rb") as file:
        return repr(file.read(4_096))


def write_through_symlink(target: str, inside: str) -> str:
    link = os.path.join(inside, "link")
    os.symlink(target, link)
    return append(link)


def write_through_hard_link(target: str, inside: str) -> str:
    link = os.path.join(inside, "hard")
    os.link(target, link)
    return append(link)


def write_through_open_folder(target: str, inside: str) -> str:
    """Walk out of a folder that is open, over ``..``."""
    folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
    path = os.path.relpath(target, inside)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND, dir_fd=folder)
    return str(os.write(fd, b"escaped"))


def rename(source: str, target: str) -> str:
    os.rename(source, target)
    return target


def truncate(path: str) -> str:
    os.truncate(path, 1)
    return path


def remove(path: str) -> str:
    os.remove(path)
    return path


def chmod(path: str) -> str:
    os.chmod(path, 0o777)
    return path


def make_device(path: str) -> str:
    os.mknod(path, 0o600 | 0o20000, os.makedev(1, 1))
    return path


def connect_unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + path[1:] if path.startswith("@") else path)
        return repr(client.recv(100))


def connect_tcp(port: str) -> str:
    with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as client:
        return repr(client.recv(100))


def send_udp(port: str) -> str:
    """Ask as a resolver is asked: in one datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(20)
        client.connect(("127.0.0.1", int(port)))
        client.send(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01")
        return repr(client.recv(100))


def open_raw_socket() -> str:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3):
        return "packets"


def kill(pid: str) -> str:
    os.kill(int(pid), signal.SIGUSR1)
    return pid


def system_call(name: str, *arguments: str) -> str:
    """Call the kernel. EINVAL, EFAULT and the like mean that the call itself was let through."""
    if libc.syscall(CALLS[name], *map(int, arguments)) < 0:
        number = ctypes.get_errno()
        if number in (1, 13, 38, 3):  # EPERM, EACCES, ENOSYS, ESRCH
            raise OSError(number, os.strerror(number))
        return os.strerror(number)
    return name


def run_set_user_id(program: str) -> str:
    user = subprocess.run([program, "-u"], capture_output=True, check=True, text=True).stdout.strip()
    if user == str(os.geteuid()):
        raise PermissionError("the program runs as the same user")
    return user


def change_owner(path: str) -> str:
    os.chown(path, 12345, 12345)
    return path


def fork(most: str) -> str:
    """Fork until that fails, or there are so many children."""
    children: list[int] = []
    try:
        for _ in range(int(most)):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    except OSError as error:
        raise OSError(error.errno, f"{len(children)} children") from None
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    return str(len(children))


def allocate(size: str) -> str:
    block = bytearray(int(size))
    block[:: resource.getpagesize()] = b"x" * len(range(0, len(block), resource.getpagesize()))
    return str(len(block))


def burn(seconds: str) -> str:
    while time.process_time() < float(seconds):
        pass
    return seconds


def daemonize_and_write(path: str) -> str:
    """Write from a grandchild that has left session and parent. It says over a pipe how that went."""
    says, say = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                write(path)
                os.write(say, b"written")
            except OSError as error:
                os.write(say, str(error).encode())
        os._exit(0)
    os.close(say)
    os.wait()
    said = os.read(says, 1_000).decode()
    if said != "written":
        raise PermissionError(said)
    return said


def list_descriptors() -> str:
    """Return what is open besides the three pipes."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
    return " ".join(path for path in found if not path.endswith("/fd"))


def main(attempt: str, *arguments: str) -> None:
    tried: Callable[..., str] = globals()[attempt]
    try:
        print("done", tried(*arguments), flush=True)
    except (OSError, MemoryError) as error:
        print("refused", type(error).__name__, error, flush=True)


main(*sys.argv[1:])
