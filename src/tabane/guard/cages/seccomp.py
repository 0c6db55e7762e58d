"""A filter of system calls (seccomp), as a program for the kernel.

It refuses what would undo a cage: looking into other processes, mounting, new namespaces, keys of the
kernel, and the kinds of sockets that the other rules do not see. Everything here is pure.
Numbers: Linux, include/uapi/linux/seccomp.h, bpf_common.h, audit.h and the tables of system calls.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
"""Families of sockets."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x4000_0000
_NAMESPACES = 0x7E02_0000 | 0x80
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FILE_FLAGS = (0x4008_6602, 0x4004_6602, 0x401C_5820, 0x4008_7602, 0x4004_7602)
"""FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR and FS_IOC_SETVERSION, for which a file may be open for reading only."""
_SET_LEASE = 1_024
_PRIORITY_OF_USER, _DISK_PRIORITY_OF_USER = 2, 3


@dataclass(frozen=True, slots=True)
class ProcessorCalls:
    """A processor architecture: its number in the audit system, and its system calls by name."""

    arch: int
    calls: Mapping[str, int]


_NEW = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
    "setxattrat": 463,
    "removexattrat": 466,
    "fchmodat2": 452,
    "file_setattr": 469,
}

MACHINES: Mapping[str, ProcessorCalls] = {
    "x86_64": ProcessorCalls(
        0xC000_003E,
        {
            "ioctl": 16,
            "socket": 41,
            "clone": 56,
            "ptrace": 101,
            "personality": 135,
            "pivot_root": 155,
            "chroot": 161,
            "acct": 163,
            "settimeofday": 164,
            "mount": 165,
            "umount2": 166,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "sethostname": 170,
            "setdomainname": 171,
            "iopl": 172,
            "ioperm": 173,
            "init_module": 175,
            "delete_module": 176,
            "quotactl": 179,
            "clock_settime": 227,
            "kexec_load": 246,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "name_to_handle_at": 303,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "finit_module": 313,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
            "syslog": 103,
            "fcntl": 72,
            "chmod": 90,
            "fchmod": 91,
            "fchmodat": 268,
            "utime": 132,
            "utimes": 235,
            "futimesat": 261,
            "utimensat": 280,
            "chown": 92,
            "fchown": 93,
            "lchown": 94,
            "fchownat": 260,
            "setxattr": 188,
            "lsetxattr": 189,
            "fsetxattr": 190,
            "removexattr": 197,
            "lremovexattr": 198,
            "fremovexattr": 199,
            "prlimit64": 302,
            "setpriority": 141,
            "ioprio_set": 251,
            "migrate_pages": 256,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "sched_setaffinity": 203,
            "sched_setattr": 314,
            "move_pages": 279,
            "shmget": 29,
            "shmat": 30,
            "shmctl": 31,
            "semget": 64,
            "semop": 65,
            "semctl": 66,
            "semtimedop": 220,
            "msgget": 68,
            "msgsnd": 69,
            "msgrcv": 70,
            "msgctl": 71,
            "mq_open": 240,
            "mq_unlink": 241,
            **_NEW,
        },
    ),
    "aarch64": ProcessorCalls(
        0xC000_00B7,
        {
            "ioctl": 29,
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "chroot": 51,
            "quotactl": 60,
            "acct": 89,
            "personality": 92,
            "unshare": 97,
            "kexec_load": 104,
            "init_module": 105,
            "delete_module": 106,
            "clock_settime": 112,
            "ptrace": 117,
            "reboot": 142,
            "sethostname": 161,
            "setdomainname": 162,
            "settimeofday": 170,
            "socket": 198,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "clone": 220,
            "swapon": 224,
            "swapoff": 225,
            "perf_event_open": 241,
            "name_to_handle_at": 264,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "finit_module": 273,
            "bpf": 280,
            "userfaultfd": 282,
            "kexec_file_load": 294,
            "syslog": 116,
            "fcntl": 25,
            "fchmod": 52,
            "fchmodat": 53,
            "utimensat": 88,
            "fchownat": 54,
            "fchown": 55,
            "setxattr": 5,
            "lsetxattr": 6,
            "fsetxattr": 7,
            "removexattr": 14,
            "lremovexattr": 15,
            "fremovexattr": 16,
            "prlimit64": 261,
            "setpriority": 140,
            "ioprio_set": 30,
            "migrate_pages": 238,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "sched_setaffinity": 122,
            "sched_setattr": 274,
            "move_pages": 239,
            "shmget": 194,
            "shmat": 196,
            "shmctl": 195,
            "semget": 190,
            "semop": 193,
            "semctl": 191,
            "semtimedop": 192,
            "msgget": 186,
            "msgsnd": 189,
            "msgrcv": 188,
            "msgctl": 187,
            "mq_open": 180,
            "mq_unlink": 181,
            **_NEW,
        },
    ),
}

_SPECIAL = ("ioctl", "socket", "clone", "clone3", "personality", "fcntl")

_CHANGES = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat")
"""Calls that change permissions and times of every file of the user, also one that may only be read."""

_OWNERS = (
    *("chown", "fchown", "lchown", "fchownat", "file_setattr"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)
_OTHERS = (
    *("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"),
    *("migrate_pages", "move_pages"),
)
"""Calls whose first argument is a process; 0 is the one that calls."""

_OBJECTS = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
)
"""Calls about objects that all programs of a user share, without a file."""

FileChanges = Literal["refused", "ignored", "allowed"]
"""The answer to a change of permissions or times of a file."""

_ALONE = (*_CHANGES, *_OWNERS, *_OTHERS, *_OBJECTS, "setpriority", "ioprio_set")
"""Calls that are limited where no namespaces separate a server from the user's other programs."""


def families(network: bool, sockets: bool) -> tuple[int, ...]:
    """Return the families of sockets that a server may create. Pairs of Unix sockets are always allowed."""
    return (*((UNIX,) if sockets else ()), *((INET, INET6, NETLINK) if network else ()))


def program(
    machine: ProcessorCalls, allowed: Iterable[int], *, alone: bool = True, changes: FileChanges = "refused"
) -> bytes:
    """Return the filter, in which sockets of the ``allowed`` families may be created, and no others.

    ``alone``: no namespaces separate the process from the user's other programs and files. Then it cannot
    limit other processes, nor use shared objects of System V, and ``changes`` says what becomes of changes of
    permissions and times: programs that copy files expect no error there.

    A netlink socket may only be one about routes (protocol 0). Calls of another architecture than the
    machine's own are refused, because their numbers mean something else.
    """
    calls = machine.calls
    code = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, machine.arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NR)]
    code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE | _ENOSYS)]
    code += _on(calls["clone3"], [(_RETURN, 0, 0, _REFUSE | _ENOSYS)])
    code += _on(calls["clone"], [*_argument(0), (_ANY_BIT, 0, 1, _NAMESPACES), _no(_EPERM), _yes()])
    requests = (_TIOCSTI, _TIOCLINUX, *(_FILE_FLAGS if alone else ()))
    code += _on(calls["ioctl"], [*_argument(1), *_refusing(requests), _yes()])
    code += _on(calls["fcntl"], [*_argument(1), *_refusing((_SET_LEASE,)), _yes()])
    code += _on(calls["socket"], _sockets(sorted(set(allowed))))
    if alone:
        code += _limited(calls, changes)
    for name in sorted(calls.keys() - {*_SPECIAL, *_ALONE}):
        code += _on(calls[name], [_no(_EPERM)])
    return b"".join(struct.pack("=HBBI", *step) for step in [*code, _yes()])


Step = tuple[int, int, int, int]


def _limited(calls: Mapping[str, int], changes: FileChanges) -> list[Step]:
    """Return what limits the calls about other processes, shared objects and files of the user."""
    own = [(_EQUAL, 0, 1, 0), _yes(), _no(_EPERM)]

    def not_of(user: int) -> list[Step]:
        """Return what allows the calling process or group, and not all of a user's."""
        return [*_argument(0), (_EQUAL, 0, 1, user), _no(_EPERM), *_argument(1), *own]

    code: list[Step] = []
    for names, then in (
        (_CHANGES, {"refused": [_no(_EPERM)], "ignored": [_no(0)], "allowed": [_yes()]}[changes]),
        ((*_OWNERS, *_OBJECTS), [_no(_EPERM)]),
        (_OTHERS, [*_argument(0), *own]),
        (("setpriority",), not_of(_PRIORITY_OF_USER)),
        (("ioprio_set",), not_of(_DISK_PRIORITY_OF_USER)),
    ):
        for name in names:
            if name in calls:
                code += _on(calls[name], then)
    return code


def _sockets(allowed: list[int]) -> list[Step]:
    code = _argument(0)
    for family in allowed:
        route = [*_argument(2), (_EQUAL, 0, 1, 0), _yes(), _no(_EACCES)]
        code += _on(family, route if family == NETLINK else [_yes()])
    return [*code, _no(_EACCES)]


def _on(value: int, then: list[Step]) -> list[Step]:
    """Return steps that run ``then`` if the loaded value is this one; ``then`` has to return."""
    return [(_EQUAL, 0, len(then), value), *then]


def _refusing(values: Iterable[int]) -> list[Step]:
    return [step for value in values for step in _on(value, [_no(_EPERM)])]


def _argument(index: int) -> list[Step]:
    """Return the step that loads the lower half of an argument, which is first on these machines."""
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index)]


def _yes() -> Step:
    return (_RETURN, 0, 0, _ALLOW)


def _no(errno: int) -> Step:
    return (_RETURN, 0, 0, _REFUSE | errno)
