"""Attempts to escape from a cage: each succeeds without it, and fails in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tabane.guard.cages.cage import CageUnavailable
from tabane.servers.server import Server
from tabane.servers.server_keys import sandbox
from tests.harness.caged_world import ESCAPEE, SECRET, CagedWorld, Way, caged_world, mechanisms_of
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
    "change permissions outside": Escape("chmod", lambda w: (w.outside / "file",)),
    "change permissions over a descriptor": Escape("chmod_open_file", lambda w: (w.outside / "file",)),
    "change times outside": Escape("set_time", lambda w: (w.outside / "file",)),
    "set an attribute outside": Escape("set_attribute", lambda w: (w.outside / "file",)),
    "set flags of a file outside": Escape("set_flags", lambda w: (w.outside / "file",)),
    "hold a file outside with a lease": Escape("take_lease", lambda w: (w.outside / "file",)),
    "write over its own folder in /proc": Escape("write", lambda w: (f"/proc/self/root{w.outside}/new",)),
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
    "limit another": Escape("limit", lambda w: (w.victim,)),
    "slow another down": Escape("slow_down", lambda w: (w.victim,)),
    "pin another to a processor": Escape("pin_to_processor", lambda w: (w.victim,)),
    "schedule another": Escape("reschedule", lambda w: (w.victim,)),
    "slow the disk of another down": Escape("system_call", lambda w: ("ioprio_set", 1, w.victim, 3 << 13)),
    "slow the disk of all of the user down": Escape(
        "system_call", lambda w: ("ioprio_set", 3, 0, 3 << 13), only=("landlock",)
    ),
    "move the memory of another": Escape("system_call", lambda w: ("migrate_pages", w.victim, 0, 0, 0)),
    "attach shared memory": Escape("attach_memory", lambda w: (w.shared.memory,)),
    "remove shared memory": Escape("remove_memory", lambda w: (w.shared.memory,)),
    "send a message to a queue of System V": Escape("send_message", lambda w: (w.shared.messages,)),
    "remove semaphores": Escape("remove_semaphores", lambda w: (w.shared.semaphores,)),
    "remove a message queue": Escape("remove_queue", lambda w: (w.shared.queue,)),
    "write to another terminal": Escape("open_for_writing", lambda w: (w.shared.terminal,)),
    "read from another terminal": Escape("open_for_reading", lambda w: (w.shared.terminal,)),
    "read the log of the kernel": Escape("open_for_reading", lambda w: ("/dev/kmsg",), root=True),
    "ask for the log of the kernel": Escape("system_call", lambda w: ("syslog", 10, 0, 0), root=True),
    "change a setting of the kernel": Escape(
        "open_for_writing", lambda w: ("/proc/sys/vm/swappiness",), root=True
    ),
    "change a device's setting": Escape("open_for_writing", lambda w: ("/sys/kernel/mm/ksm/run",), root=True),
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


@dataclass(frozen=True)
class Planted:
    """A link that a server plants, and what it attempts once it is restarted, below the world's root.

    ``first`` are the paths that it may change when it plants the link, ``then`` the members of its profile
    after that. ``folders`` are there before.
    """

    link: str
    target: str
    attempt: tuple[str, ...]
    then: dict[str, list[str]]
    cwd: str = ""
    first: tuple[str, ...] = ("inside",)
    folders: tuple[str, ...] = ()


KEY = "user/.ssh/id_ed25519"
READ_KEY = ("read", KEY)

PLANTED = {
    "its working directory": Planted(
        "inside/place", "user/.ssh", ("read", "inside/place/id_ed25519"), {"write": ["inside"]},
        cwd="inside/place", folders=("inside/place",),
    ),
    "only its working directory is in the profile": Planted(
        "inside/place", "user/.ssh", READ_KEY, {}, cwd="inside/place", folders=("inside/place",),
    ),
    "a writable folder in a writable one": Planted(
        "inside/sub", "user/.ssh", READ_KEY, {"write": ["inside", "inside/sub"]}, folders=("inside/sub",),
    ),
    "that folder alone, which another server can reach": Planted(
        "inside/sub", "user/.ssh", READ_KEY, {"write": ["inside/sub"]}, folders=("inside/sub",),
    ),
    "a folder that was never protected": Planted(
        "inside/sub", "outside", ("append", "outside/file"), {"write": ["inside/sub"]},
        folders=("inside/sub",),
    ),
    "above a folder that it may read": Planted(
        "inside/a", "user", READ_KEY, {"read": ["inside/a/.ssh"]}, folders=("inside/a/.ssh",),
    ),
    "a path among its arguments": Planted(
        "inside/sub", "user/.ssh", ("read", "inside/sub/id_ed25519"),
        {"write": ["inside"], "read": ["inside"]}, folders=("inside/sub",),
    ),
    "a writable file": Planted(
        "inside/own", KEY, READ_KEY, {"write": ["inside", "inside/own"]},
    ),
    "a path that did not exist": Planted(
        "inside/later", "outside", ("append", "outside/file"), {"write": ["inside", "inside/later"]},
    ),
    "its cache, which Tabane makes": Planted(
        "tabane/cages/escapee/cache", "user/.ssh", ("read", "tabane/cages/escapee/cache/id_ed25519"),
        {"write": ["inside"]},
    ),
    "its folder for temporary files": Planted(
        "tabane/cages/escapee/tmp", "outside", ("read", "tabane/cages/escapee/tmp/other"), {},
    ),
    "a folder in its cache": Planted(
        "tabane/cages/escapee/cache/uv", "outside", ("read", "tabane/cages/escapee/cache/uv/other"), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("known", [True, False], ids=["pinned", "never read before"])
@pytest.mark.parametrize("name", PLANTED)
def test_a_link_that_a_server_plants_leads_it_nowhere(
    name: str, known: bool, way: Way, world: CagedWorld
) -> None:
    needed(way)
    planted = PLANTED[name]
    if not known and planted.target == "outside" and planted.link.startswith("inside"):
        pytest.skip("what is no protected path may be listed over a link that was there")
    for folder in planted.folders:
        (world.root / folder).mkdir(parents=True)
    cwd = world.root / planted.cwd if planted.cwd else None
    profile = {key: [str(world.root / path) for path in paths] for key, paths in planted.then.items()}
    profiled = {"preset": "files", **profile}
    if known:
        server = Server(
            name="escapee", command="x", sandbox=sandbox(profiled), cwd=str(cwd), cwd_given=bool(cwd)
        )
        world.cages(way).pin(server)
    first = {"preset": "files", "write": [str(world.root / path) for path in planted.first]}
    said = asyncio.run(
        world.attempt(way, first, "plant", world.root / planted.link, world.root / planted.target)
    )
    assert said.startswith("done")
    before = sorted(world.outside.iterdir()), (world.outside / "file").read_text()
    attempt, path = planted.attempt
    try:
        said = asyncio.run(world.attempt(way, profiled, attempt, world.root / path, cwd=cwd))
    except CageUnavailable:
        said = "refused"
    assert said.startswith("refused"), said
    assert (sorted(world.outside.iterdir()), (world.outside / "file").read_text()) == before
    assert os.listdir(world.user / ".ssh") == ["id_ed25519"]


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("hidden", ["user/.config/gcloud", "user/.local/share/keyrings"])
def test_a_folder_with_something_hidden_cannot_be_moved_to_show_it(
    hidden: str, way: Way, world: CagedWorld
) -> None:
    needed(way)
    (world.root / hidden).mkdir(parents=True)
    (world.root / hidden / "token").write_text("of the user")
    above = (world.root / hidden).parent
    profile = {"preset": "files", "write": [str(world.user)]}
    asyncio.run(world.attempt(way, profile, "rename", above, world.user / "moved"))
    assert (world.root / hidden / "token").exists()
    said = asyncio.run(world.attempt(way, profile, "read", world.user / "moved" / "gcloud" / "token"))
    assert said.startswith("refused")


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
def test_a_link_that_the_person_put_there_works_and_one_put_later_can_be_accepted(
    way: Way, world: CagedWorld
) -> None:
    needed(way)
    link, other = world.root / "notes", world.root / "other"
    other.mkdir()
    link.symlink_to(world.inside)
    profile = {"preset": "files", "write": [str(link)]}
    assert asyncio.run(world.attempt(way, profile, "write", link / "new")).startswith("done")
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(CageUnavailable, match="--accept-links"):
        asyncio.run(world.attempt(way, profile, "write", link / "new"))
    world.cages(way).accept_links("escapee")
    assert asyncio.run(world.attempt(way, profile, "write", link / "new")).startswith("done")
    assert (other / "new").exists()


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("key", ["write", "read"])
def test_a_link_that_is_put_between_check_and_start_is_not_followed(
    key: str, way: Way, world: CagedWorld
) -> None:
    needed(way)
    folder = world.inside / "sub"
    folder.mkdir()

    def swap() -> None:
        folder.rmdir()
        folder.symlink_to(world.user / ".ssh")

    profile = {"preset": "files", key: [str(folder)]}
    said, _, _ = asyncio.run(
        world.run(way, profile, sys.executable, ESCAPEE, "read", str(folder / "id_ed25519"), meanwhile=swap)
    )
    assert not said.startswith("done")


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
