"""Attempts to escape from a cage: each succeeds without it, and fails in it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.harness.caged_world import SECRET, CagedWorld, Way, caged_world, mechanisms_of
from tests.harness.child_processes import linux

pytestmark = linux

ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Escape:
    """An attempt with its arguments. ``only`` are the mechanisms that stop it, if not all do."""

    attempt: str
    arguments: Callable[[CagedWorld], tuple[object, ...]]
    only: tuple[Way, ...] = ("bubblewrap", "landlock")
    profile: dict[str, Any] = field(default_factory=dict)
    root: bool = False
    """Whether only root could do it anyway."""


ESCAPES = {
    "write outside": Escape("write", lambda w: (w.outside / "new",)),
    "change a file outside": Escape("append", lambda w: (w.outside / "file",)),
    "truncate a file outside": Escape("truncate", lambda w: (w.outside / "file",)),
    "remove a file outside": Escape("remove", lambda w: (w.outside / "file",)),
    "change permissions outside": Escape("chmod", lambda w: (w.outside / "file",), only=("bubblewrap",)),
    "write through a symbolic link": Escape(
        "write_through_symlink", lambda w: (w.outside / "file", w.inside)
    ),
    "write through a hard link": Escape("write_through_hard_link", lambda w: (w.outside / "file", w.inside)),
    "write over an open folder": Escape(
        "write_through_open_folder", lambda w: (w.outside / "file", w.inside)
    ),
    "move a file in": Escape("rename", lambda w: (w.outside / "file", w.inside / "moved")),
    "move a file out": Escape("rename", lambda w: (w.inside / "own", w.outside / "moved")),
    "replace a file outside": Escape("rename", lambda w: (w.inside / "own", w.outside / "file")),
    "write from a grandchild that left": Escape("daemonize_and_write", lambda w: (w.outside / "new",)),
    "make a device": Escape("make_device", lambda w: (w.inside / "memory",), root=True),
    "change the servers file": Escape("append", lambda w: (w.root / "mcp-servers.json",)),
    "read the servers file": Escape("read", lambda w: (w.root / "mcp-servers.json",)),
    "read the key of the hub": Escape("read", lambda w: (w.home / "hub.key",)),
    "read a key of the user": Escape("read", lambda w: (w.user / ".ssh" / "id_ed25519",)),
    "connect to the hub's socket": Escape("connect_unix", lambda w: (w.home / "hub.sock",)),
    "connect to an abstract socket": Escape("connect_unix", lambda w: (w.abstract,)),
    "connect over TCP": Escape("connect_tcp", lambda w: (w.tcp,)),
    "ask a resolver over UDP": Escape("send_udp", lambda w: (w.udp,)),
    "open a raw socket": Escape("open_raw_socket", lambda w: (), root=True),
    "read the environment of another": Escape("read", lambda w: (f"/proc/{w.victim}/environ",)),
    "read the command line of another": Escape(
        "read", lambda w: (f"/proc/{w.victim}/cmdline",), only=("bubblewrap",)
    ),
    "read files over the folder of another": Escape(
        "read", lambda w: (f"/proc/{w.victim}/root{w.home}/hub.key",)
    ),
    "trace another": Escape("system_call", lambda w: ("ptrace", 16, w.victim, 0, 0)),
    "read memory of another": Escape("system_call", lambda w: ("process_vm_readv", w.victim, 0, 0, 0, 0, 0)),
    "signal another": Escape("kill", lambda w: (w.victim,)),
    "a new user namespace": Escape("system_call", lambda w: ("unshare", 0x1000_0000)),
    "mount": Escape("system_call", lambda w: ("mount", 0, 0, 0, 0, 0), root=True),
    "io_uring": Escape("system_call", lambda w: ("io_uring_setup", 0, 0)),
    "keys of the kernel": Escape("system_call", lambda w: ("keyctl", 99_999, 0, 0, 0, 0)),
    "bpf": Escape("system_call", lambda w: ("bpf", 99_999, 0, 0)),
    "become another user": Escape("run_set_user_id", lambda w: (w.outside / "id",), root=True),
    "give a file away": Escape("change_owner", lambda w: (w.inside / "own",), root=True),
    "use too much memory": Escape("allocate", lambda w: (400 << 20,), profile={"memory": "100M"}),
    "use too much time": Escape("burn", lambda w: (3,), profile={"cpu": 1}),
    "fork without end": Escape("fork", lambda w: (60,), profile={"processes": 20}),
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CagedWorld]:
    with caged_world(tmp_path) as made:
        yield made


def needed(way: Way) -> None:
    """Skip where the mechanism is missing, which in CI it is not."""
    if way == "bubblewrap" and not mechanisms_of(way).bubblewrap:
        pytest.skip("needs bubblewrap and user namespaces")
    if way == "landlock" and mechanisms_of(way).landlock < 6:
        pytest.skip("needs Landlock 6 (Linux 6.12)")


def profile_of(world: CagedWorld, escape: Escape) -> dict[str, Any]:
    return {"preset": "files", "write": [str(world.inside)], **escape.profile}


@pytest.mark.heavy("real processes, some of which use much time")
@pytest.mark.parametrize("name", ESCAPES)
def test_an_attempt_succeeds_without_a_cage(name: str, world: CagedWorld) -> None:
    escape = ESCAPES[name]
    if escape.root and not ROOT:
        pytest.skip("needs root")
    said = asyncio.run(world.attempt("uncaged", False, escape.attempt, *escape.arguments(world)))
    assert said.startswith("done")


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in ESCAPES for way in ESCAPES[name].only])
def test_the_same_attempt_fails_in_a_cage(name: str, way: Way, world: CagedWorld) -> None:
    needed(way)
    escape = ESCAPES[name]
    before = {path: path.read_bytes() for path in world.outside.iterdir()}
    said = asyncio.run(
        world.attempt(way, profile_of(world, escape), escape.attempt, *escape.arguments(world))
    )
    got_nothing = said in ("done b''", "done b'{}'")  # an empty file in place of the real one
    # bubblewrap reports a signal as 128 and its number.
    ends = "ended it was killed", "ended it ended with exit status 137", "ended it ended with exit status 152"
    assert said.startswith(("refused", *ends)) or got_nothing, said
    assert SECRET not in said
    assert {path: path.read_bytes() for path in world.outside.iterdir()} == before
    assert "mcpServers" in (world.root / "mcp-servers.json").read_text()


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
@pytest.mark.parametrize(
    ("attempt", "profile"),
    [
        (("write", "inside/new"), {}),
        (("append", "inside/own"), {}),
        (("read", "outside/file"), {}),
        (("read", "user/.ssh/id_ed25519"), {"read": ["/", "user/.ssh"]}),
        (("connect_tcp",), {"network": True}),
        (("send_udp",), {"network": True}),
        (("fork", "10"), {"processes": 60}),
        (("allocate", str(50 << 20)), {"memory": "400M"}),
        (("daemonize_and_write", "inside/new"), {}),
    ],
)
def test_what_the_profile_allows_works_in_the_cage(
    attempt: tuple[str, ...], profile: dict[str, Any], way: Way, world: CagedWorld
) -> None:
    needed(way)
    ports = {"connect_tcp": world.tcp, "send_udp": world.udp}
    name, *given = attempt
    arguments = [ports[name]] if name in ports else [str(world.root / a) if "/" in a else a for a in given]
    if "read" in profile:
        profile = {
            **profile,
            "read": [path if path == "/" else str(world.root / path) for path in profile["read"]],
        }
    full = {"preset": "files", "write": [str(world.inside)], **profile}
    assert asyncio.run(world.attempt(way, full, name, *arguments)).startswith("done")


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
def test_nothing_of_the_hub_is_open_in_a_cage(way: Way, world: CagedWorld) -> None:
    needed(way)
    said = asyncio.run(world.attempt(way, "files", "list_descriptors"))
    assert said == "done"


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
def test_limited_reads_hide_everything_that_is_not_listed(way: Way, world: CagedWorld) -> None:
    needed(way)
    profile = {"read": [str(world.inside)], "write": []}

    async def both() -> tuple[str, str]:
        inside = await world.attempt(way, profile, "read", world.inside / "own")
        # Relative, because a path that an argument names may be read.
        return inside, await world.attempt(way, profile, "read", "outside/file")

    inside, outside = asyncio.run(both())
    assert inside.startswith("done")
    assert outside.startswith("refused")


def test_the_set_user_id_program_of_the_attempts_is_one(world: CagedWorld) -> None:
    assert shutil.which(str(world.outside / "id"))
    assert not ROOT or os.stat(world.outside / "id").st_mode & 0o4000
