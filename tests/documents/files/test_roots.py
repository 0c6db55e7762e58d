"""Files are read only below the allowed folders, even through links."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from tabane.documents.files.readable_files import ReadableRoots, read_beneath
from tabane.errors import BadArguments


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    top = tmp_path / "allowed"
    (top / "sub").mkdir(parents=True)
    (top / "a.md").write_text("inside")
    (top / "sub" / "b.md").write_text("deeper")
    (tmp_path / "outside.md").write_text("outside")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.md").write_text("elsewhere")
    return top


def refused(top: Path, path: object, most: int = 1000) -> str:
    with pytest.raises(BadArguments) as caught:
        ReadableRoots(lambda: [top], most_bytes=most).read(str(path))
    assert caught.value.parameter == "path"
    return caught.value.text()


def test_what_is_inside_is_read(allowed: Path) -> None:
    roots = ReadableRoots(lambda: [allowed])
    assert roots.read(str(allowed / "a.md")).data == b"inside"
    assert roots.read(str(allowed / "sub" / "b.md")).data == b"deeper"


def test_nothing_is_allowed_before_a_folder_is_named() -> None:
    with pytest.raises(BadArguments, match="documents_roots"):
        ReadableRoots(list).read("/etc/passwd")


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("../outside.md", "outside of the allowed folders"),
        ("/etc/passwd", "outside of the allowed folders"),
        ("/proc/self/environ", "outside of the allowed folders"),
        ("{top}/../outside.md", '".."'),
        ("{top}/sub/../../outside.md", '".."'),
        ("a.md", "give the full path"),
        ("{top}/a\0.md", "NUL"),
        ("{top}/nothing.md", "does not exist"),
        ("{top}/a.md/b", "does not exist"),
        ("{top}/sub", "is a folder"),
        ("{top}", "outside of the allowed folders"),
        ("{top}x/a.md", "outside of the allowed folders"),
    ],
)
def test_what_is_not_a_file_inside_is_refused_by_what_it_is(allowed: Path, path: str, word: str) -> None:
    path = path.replace("{top}", str(allowed))
    path = str(allowed.parent / "outside.md") if path == "../outside.md" else path
    assert word in refused(allowed, path)


def test_links_that_leave_are_refused_and_those_that_stay_are_followed(allowed: Path) -> None:
    (allowed / "out.md").symlink_to(allowed.parent / "outside.md")
    (allowed / "outdir").symlink_to(allowed.parent / "elsewhere")
    (allowed / "in.md").symlink_to("sub/b.md")
    (allowed / "loop").symlink_to("loop")
    for name in ("out.md", "outdir/c.md"):
        assert "symbolic link that leads out" in refused(allowed, allowed / name)
    assert refused(allowed, allowed / "loop")
    assert ReadableRoots(lambda: [allowed]).read(str(allowed / "in.md")).data == b"deeper"


def test_no_link_is_followed_that_comes_to_be_after_the_path_was_looked_at(allowed: Path) -> None:
    (allowed / "out.md").symlink_to(allowed.parent / "outside.md")
    (allowed / "outdir").symlink_to(allowed.parent / "elsewhere")
    for parts in (["out.md"], ["outdir", "c.md"]):
        with pytest.raises(BadArguments, match="symbolic link"):
            read_beneath(str(allowed), parts)


def test_an_allowed_folder_may_itself_be_a_link(allowed: Path) -> None:
    link = allowed.parent / "link"
    link.symlink_to(allowed)
    assert ReadableRoots(lambda: [link]).read(str(link / "a.md")).data == b"inside"


def test_pipes_sockets_and_devices_are_refused_and_never_waited_for(allowed: Path) -> None:
    os.mkfifo(allowed / "pipe")
    assert "is a pipe" in refused(allowed, allowed / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        with contextlib.chdir(allowed):  # the name of a socket is short
            listening.bind("sock")
        assert "is a socket" in refused(allowed, allowed / "sock")
    with pytest.raises(BadArguments, match="is a device"):
        ReadableRoots(lambda: [Path("/dev")]).read("/dev/zero")


def test_large_files_are_refused_with_their_size(allowed: Path) -> None:
    (allowed / "large").write_bytes(b"x" * 1001)
    assert "1001 bytes; the limit is 1000" in refused(allowed, allowed / "large")
    assert len(ReadableRoots(lambda: [allowed], most_bytes=1001).read(str(allowed / "large")).data) == 1001


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(allowed: Path) -> None:
    (allowed / "a.md").chmod(0)
    assert "permissions" in refused(allowed, allowed / "a.md")
