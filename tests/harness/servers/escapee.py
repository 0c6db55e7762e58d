"""A program that tries to get out of its cage: one attempt, named by the first argument.

[sys.executable, ESCAPEE, ATTEMPT, ARGUMENT…]. It writes "done" and what it got, or "refused" and why. It is
no MCP server: what a process may do does not depend on what it speaks.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
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
        "ioprio_set": 251,
        "syslog": 103,
        "migrate_pages": 256,
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
        "ioprio_set": 30,
        "syslog": 116,
        "migrate_pages": 238,
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
    return _changed(path, os.stat(path).st_mode & 0o777 == 0o777)


def chmod_open_file(path: str) -> str:
    """Change permissions through a descriptor that may only read."""
    with open(path, "rb") as file:
        os.fchmod(file.fileno(), 0o777)
    return _changed(path, os.stat(path).st_mode & 0o777 == 0o777)


def set_time(path: str) -> str:
    os.utime(path, (1, 1))
    return _changed(path, os.stat(path).st_mtime == 1)


def set_attribute(path: str) -> str:
    os.setxattr(path, "user.escaped", b"1")
    return path


def set_flags(path: str) -> str:
    """Set the flag "no access times" (FS_IOC_SETFLAGS) through a descriptor that may only read."""
    with open(path, "rb") as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x80))
    return path


def take_lease(path: str) -> str:
    """Make everybody else who opens the file wait."""
    with open(path, "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    return path


def _changed(path: str, changed: bool) -> str:
    if not changed:
        raise PermissionError("the call had no effect")
    return path


def open_for_writing(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_NOCTTY))
    return path


def open_for_reading(path: str) -> str:
    os.close(os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    return path


def limit(pid: str) -> str:
    resource.prlimit(int(pid), resource.RLIMIT_NOFILE, (50, 50))
    return pid


def slow_down(pid: str) -> str:
    os.setpriority(os.PRIO_PROCESS, int(pid), 19)
    return pid


def pin_to_processor(pid: str) -> str:
    os.sched_setaffinity(int(pid), {0})
    return pid


def reschedule(pid: str) -> str:
    os.sched_setscheduler(int(pid), os.SCHED_BATCH, os.sched_param(0))
    return pid


def _checked(result: int) -> str:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return str(result)


def attach_memory(identity: str) -> str:
    libc.shmat.restype = ctypes.c_long
    return _checked(libc.shmat(int(identity), None, 0))


def remove_memory(identity: str) -> str:
    return _checked(libc.shmctl(int(identity), 0, None))


def send_message(identity: str) -> str:
    return _checked(libc.msgsnd(int(identity), struct.pack("l", 1) + b"escaped", 7, 0o4000))


def remove_semaphores(identity: str) -> str:
    return _checked(libc.semctl(int(identity), 0, 0))


def remove_queue(name: str) -> str:
    return _checked(libc.mq_unlink(name.encode()))


def plant(path: str, target: str) -> str:
    """Put a link in the place of what is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}-before")
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    os.symlink(target, path)
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
