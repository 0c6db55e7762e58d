"""Profiles that are learned from what a server was seen to use."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import UpstreamUnavailable
from tabane.guard.cages.learning import (
    SeenUse,
    find_tracer,
    propose,
    proposed_folders,
    question,
    read_trace,
    traced,
)

USER = """
import os, pathlib, socket, sys
root = pathlib.Path(sys.argv[1])
(root / "read").read_text()
(root / "made" / "sub").mkdir(parents=True)
(root / "made" / "sub" / "file").write_text("x")
os.chdir(root)
open("appended", "a").write("x")
os.rename("old", "new")
with open("read", "rb"): pass
try:
    open("/nonexistent/file", "w")
except OSError:
    pass
client = socket.socket()
client.connect_ex(("127.0.0.1", int(sys.argv[2])))
ask = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ask.connect(("127.0.0.1", int(sys.argv[3])))
ask.send(bytes.fromhex("1234 0100 0001 0000 0000 0000 03 617069 07 6578616d706c65 03 636f6d 00 0001 0001"))
"""


def tracer() -> str:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    return find_tracer({"PATH": "/usr/bin:/bin:/usr/local/bin"})


def test_a_trace_shows_what_a_program_changed_and_whom_it_reached(tmp_path: Path) -> None:
    root = tmp_path / "ルート"
    root.mkdir()
    for name in ("read", "old"):
        (root / name).write_text("x")
    trace = tmp_path / "trace"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM) as resolver:
        resolver.bind(("127.0.0.1", 0))
        ports = server.getsockname()[1], resolver.getsockname()[1]
        command = [sys.executable, "-c", USER, str(root), *map(str, ports)]
        subprocess.run(traced(tracer(), str(trace), command), check=True)
    with open(trace, encoding="utf-8", errors="surrogateescape") as lines:
        seen = read_trace(lines, str(tmp_path))
    changed = {path for path in seen.written if path.startswith(str(tmp_path))}
    assert changed == {
        str(root / name) for name in ("made", "made/sub", "made/sub/file", "appended", "old", "new")
    }
    assert "/nonexistent/file" not in seen.written
    assert ("127.0.0.1", ports[0]) in seen.connected
    assert seen.names == {"api.example.com"}


def test_a_program_that_changes_nothing_needs_nothing() -> None:
    found = propose(SeenUse(written={"/dev/null", "/proc/self/x", "/own/cache/y"}), "/own", "/home/u")
    assert (found.profile.preset, found.profile.writes, found.profile.network) == ("files", (), "off")


def test_names_that_were_asked_for_become_hosts() -> None:
    seen = SeenUse(connected={("93.184.216.34", 443), ("10.0.0.53", 53)}, names={"b.example", "a.example"})
    found = propose(seen, "/own", "/home/u")
    assert (found.profile.network, found.profile.hosts) == ("hosts", ("a.example", "b.example"))
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    "connected", [{("93.184.216.34", 5432)}, {("127.0.0.1", 8080)}, {("93.184.216.34", 443)}]
)
def test_connections_that_no_proxy_carries_need_the_network(connected: set[tuple[str, int]]) -> None:
    names = set() if ("93.184.216.34", 443) in connected else {"a.example"}
    found = propose(SeenUse(connected=connected, names=names), "/own", "/home/u")
    assert (found.profile.preset, found.profile.network) == ("network", "on")


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        (["/srv/data/a", "/srv/data/b/c"], ["/srv/data"]),
        (["/srv/data/1/x", "/srv/data/2/x", "/srv/data/3/x", "/srv/data/4/x"], ["/srv/data"]),
        (["/srv/data/1/x", "/srv/data/2/x"], ["/srv/data/1", "/srv/data/2"]),
        (["/home/u/.memory.json"], ["/home/u/.memory.json"]),
        ([f"/home/u/{name}/x" for name in "abcdef"], [f"/home/u/{name}" for name in "abcdef"]),
        (["/tmp/x"], ["/tmp/x"]),
    ],
)
def test_folders_are_few_and_small(paths: list[str], folders: list[str]) -> None:
    assert proposed_folders(paths, "/home/u") == folders


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(lambda p: "/" + "/".join(p))))
def test_everything_that_was_changed_is_allowed(paths: list[str]) -> None:
    folders = proposed_folders(paths, "/a/b")
    assert all(any(path == f or path.startswith(f + "/") for f in folders) for path in paths)
    assert not {"/", "/a", "/a/b"} & (set(folders) - set(paths))


@given(st.binary(max_size=80))
def test_no_datagram_breaks_the_reader(datagram: bytes) -> None:
    assert question(datagram) is None or isinstance(question(datagram), str)


@given(st.lists(st.text(max_size=80)))
def test_no_line_breaks_the_reader(lines: list[str]) -> None:
    read_trace([*lines, *(f"1 openat(AT_FDCWD</>, {line}" for line in lines)], "/")


def test_a_missing_tracer_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UpstreamUnavailable, match="install strace"):
        find_tracer({"PATH": str(tmp_path)})


def test_a_system_that_forbids_tracing_is_an_error_that_says_so(tmp_path: Path) -> None:
    fake = tmp_path / "strace"
    fake.write_text("#!/bin/sh\necho 'strace: ptrace: Operation not permitted' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(UpstreamUnavailable, match=r"does not allow a process to be traced .*not permitted"):
        find_tracer({"PATH": str(tmp_path)})
