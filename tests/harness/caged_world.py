"""A small world around a cage: files of a user and of a hub, other processes, and servers to connect to."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tabane.errors import UpstreamUnavailable
from tabane.guard.cages.cage import CageMechanisms, find_mechanisms
from tabane.guard.cages.cages import Cages
from tabane.guard.cages.limits import GroupFiles
from tabane.hub.servers.configuration import PROXY
from tabane.servers.server import Server
from tabane.servers.server_keys import sandbox
from tabane.upstreams.processes.processes import ChildExit, ChildProcesses
from tests.harness.child_processes import everything

ESCAPEE = str(Path(__file__).parents[1] / "harness" / "servers" / "escapee.py")

Way = Literal["uncaged", "bubblewrap", "landlock"]

SECRET = "s3cr3t-of-another-process"


def mechanisms_of(way: Way) -> CageMechanisms:
    """Return what a cage is to be built with."""
    found = find_mechanisms(os.environ)
    return replace(found, bubblewrap="") if way == "landlock" else found


@dataclass(frozen=True)
class SharedObjects:
    """Objects of the user that have no file: System V's by their numbers, a queue, another terminal."""

    memory: int
    messages: int
    semaphores: int
    queue: str
    terminal: str


@dataclass(frozen=True)
class CagedWorld:
    """Paths, processes and ports that attempts are about. ``inside`` is the only folder it may change."""

    root: Path
    victim: int
    tcp: int
    udp: int
    abstract: str
    shared: SharedObjects

    @property
    def inside(self) -> Path:
        return self.root / "inside"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def home(self) -> Path:
        """Return the folder of the hub."""
        return self.root / "tabane"

    @property
    def user(self) -> Path:
        """Return the home folder of the user."""
        return self.root / "user"

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.user)}

    def cages(self, way: Way) -> Cages:
        return Cages(
            self.home, [self.root / "mcp-servers.json"], self.environment(), PROXY, mechanisms_of(way)
        )

    async def run(
        self,
        way: Way,
        profile: Any,
        *argv: str,
        cwd: Path | None = None,
        meanwhile: Callable[[], object] = bool,
    ) -> tuple[str, str, ChildExit]:
        """Run a command, in a cage unless uncaged; return what it wrote to both, and how it ended.

        ``cwd`` is what the servers file names; the root of the world if it names none. ``meanwhile`` is
        called when the cage is built, before the start.
        """
        processes = ChildProcesses()
        try:
            return await self._run(processes, way, profile, argv, cwd, meanwhile)
        finally:
            await processes.close()

    async def attempt(self, way: Way, profile: Any, *attempt: object, cwd: Path | None = None) -> str:
        """Run one attempt of the escapee; return what it says of it, or how it was ended."""
        said, complaint, ended = await self.run(
            way, profile, sys.executable, ESCAPEE, *map(str, attempt), cwd=cwd
        )
        return said.strip() or f"ended {ended} {complaint}"

    async def _run(
        self,
        processes: ChildProcesses,
        way: Way,
        profile: Any,
        argv: tuple[str, ...],
        cwd: Path | None,
        meanwhile: Callable[[], object],
    ) -> tuple[str, str, ChildExit]:
        place = str(cwd or self.root)
        server = Server(
            name="escapee", command=argv[0], args=argv[1:], sandbox=sandbox(profile), cwd=place,
            cwd_given=cwd is not None,
        )  # fmt: skip
        env: Mapping[str, str] = self.environment()
        orders: Mapping[str, Any] | None = None
        groups: tuple[GroupFiles, ...] = ()
        cages = self.cages(way)
        if way != "uncaged" and server.sandbox is not None:
            server = cages.dressed(server)
            assert server.sandbox is not None
            start = cages.build(server, server.sandbox, {**env, **server.env})
            argv, env, orders, groups = start.argv, start.env, start.orders, start.groups
        meanwhile()
        try:
            return await self._ended(processes, argv, env, place, orders)
        finally:
            cages.remove(groups)

    async def _ended(
        self,
        processes: ChildProcesses,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        place: str,
        orders: Mapping[str, Any] | None,
    ) -> tuple[str, str, ChildExit]:
        try:
            child = await processes.spawn(argv, env, place, orders)
        except UpstreamUnavailable as error:
            return "", str(error), ChildExit(127, 0)
        os.close(child.stdin_fd)
        said, complaint = await asyncio.gather(everything(child.stdout_fd), everything(child.stderr_fd))
        ended = await child.exited
        await child.gone
        os.close(child.stdout_fd)
        os.close(child.stderr_fd)
        return said.decode(), complaint.decode(), ended


_VICTIM = """
import ctypes, signal, struct
# Without capabilities, of which one who has fewer could do less to it.
ctypes.CDLL(None).syscall(%d, struct.pack("Ii", 0x20080522, 0), bytes(24))
signal.signal(signal.SIGUSR1, print)
print(flush=True)
while True:
    signal.pause()
""".replace("%d", {"x86_64": "126", "aarch64": "91"}[os.uname().machine])


@contextmanager
def caged_world(root: Path) -> Iterator[CagedWorld]:
    """Make the world in a folder; its processes and servers end with the block."""
    for folder in ("inside", "outside", "tabane", "user/.ssh"):
        (root / folder).mkdir(parents=True)
    for file in ("outside/file", "outside/other", "tabane/hub.key", "user/.ssh/id_ed25519", "inside/own"):
        (root / file).write_text("of the user")
    (root / "mcp-servers.json").write_text('{"mcpServers": {}}')
    program = shutil.copy(shutil.which("id") or "/usr/bin/id", root / "outside" / "id")
    if os.geteuid() == 0:
        os.chown(program, 65_534, 65_534)
        os.chmod(program, 0o4755)
    abstract = f"@tabane-{os.getpid()}-{root.name}"
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, f"--token={SECRET}"], env={"SECRET": SECRET}, stdout=subprocess.PIPE
    )
    assert victim.stdout is not None
    victim.stdout.readline()
    with (
        _listening(socket.AF_UNIX, str(root / "tabane" / "hub.sock")),
        _listening(socket.AF_UNIX, "\0" + abstract[1:]),
        _listening(socket.AF_INET, ("127.0.0.1", 0)) as tcp,
        _answering() as udp,
        _shared_objects() as shared,
    ):
        try:
            yield CagedWorld(root, victim.pid, tcp.getsockname()[1], udp.getsockname()[1], abstract, shared)
        finally:
            victim.kill()
            victim.wait()
            victim.stdout.close()


@contextmanager
def _shared_objects() -> Iterator[SharedObjects]:
    libc = ctypes.CDLL(None, use_errno=True)
    private, create = 0, 0o1600
    memory, messages = libc.shmget(private, 4_096, create), libc.msgget(private, create)
    semaphores, queue = libc.semget(private, 1, create), f"/tabane-{os.getpid()}"
    opened = libc.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    master, slave = os.openpty()
    try:
        yield SharedObjects(memory, messages, semaphores, queue, os.ttyname(slave))
    finally:
        os.close(master)
        os.close(slave)
        os.close(opened)
        libc.mq_unlink(queue.encode())
        libc.shmctl(memory, 0, None)
        libc.msgctl(messages, 0, None)
        libc.semctl(semaphores, 0, 0)


@contextmanager
def _listening(family: int, address: Any) -> Iterator[socket.socket]:
    """Greet everybody who connects."""
    with socket.socket(family) as server:
        server.bind(address)
        server.listen()
        thread = threading.Thread(target=_greet, args=(server,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _greet(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.sendall(b"welcome")


@contextmanager
def _answering() -> Iterator[socket.socket]:
    """Answer every datagram, until an empty one comes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_answer, args=(server,))
        thread.start()
        try:
            yield server
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", server.getsockname())
            thread.join()


def _answer(server: socket.socket) -> None:
    while True:
        data, peer = server.recvfrom(1_000)
        if not data:
            return
        server.sendto(b"answer", peer)
