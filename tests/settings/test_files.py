"""Private files: written atomically for their owner only, and read only from trusted places."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tabane.errors import ConfigurationError
from tabane.settings.files import private_folder, read_private, read_trusted, write_private

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_written_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_private(target, b"one")
    assert (target.read_bytes(), mode(target)) == (b"one", 0o600)


def test_a_rewritten_file_is_replaced_whole_and_closed(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    target.chmod(0o644)
    with target.open("rb") as reader:
        write_private(target, b"new")
        assert reader.read() == b"old"
    assert (target.read_bytes(), mode(target)) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    link, target = tmp_path / "a", tmp_path / "dotfiles" / "a"
    link.symlink_to(target)
    write_private(link, b"one")
    assert link.is_symlink()
    assert target.read_bytes() == b"one"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "inside").write_bytes(b"")
    with pytest.raises(OSError):
        write_private(target, b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_private_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    home = tmp_path / "share" / "tabane"
    private_folder(home)
    private_folder(home)
    assert mode(home) == 0o700


def test_a_folder_in_which_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my home").mkdir(mode=0o770)
    with pytest.raises(ConfigurationError) as raised:
        private_folder(tmp_path / "my home")
    assert f"chmod 700 '{tmp_path / 'my home'}'" in str(raised.value)


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="home cannot be used as a folder"):
        private_folder(tmp_path / "home")


@pytest.mark.parametrize("loose", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_not_read(tmp_path: Path, loose: int) -> None:
    target = tmp_path / "servers.json"
    target.write_bytes(b"{}")
    target.chmod(loose)
    with pytest.raises(ConfigurationError, match=f"mode {loose:04o}.*chmod go-w {target}"):
        read_trusted(target)
    target.chmod(0o644)
    assert read_trusted(target) == b"{}"


@pytest.mark.parametrize("loose", [0o640, 0o604, 0o622])
def test_a_secret_file_that_others_may_read_is_not_read(tmp_path: Path, loose: int) -> None:
    target = tmp_path / "secrets.env"
    target.write_bytes(b"A=1")
    target.chmod(loose)
    with pytest.raises(ConfigurationError, match=f"mode {loose:04o}.*chmod 600 {target}"):
        read_private(target)
    target.chmod(0o600)
    assert read_private(target) == b"A=1"


@needs_root
def test_root_is_never_advised_to_take_over_what_belongs_to_another_user(tmp_path: Path) -> None:
    target, folder = tmp_path / "servers.json", tmp_path / "home"
    target.write_bytes(b"{}")
    target.chmod(0o600)
    folder.mkdir(mode=0o700)
    for path in (target, folder):
        os.chown(path, 12345, -1)
    with pytest.raises(ConfigurationError, match=f"You are root, but {target}") as refused:
        read_trusted(target)
    assert "chown" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="sudo -u '#12345' tabane"):
        private_folder(folder)


def test_a_pipe_in_place_of_a_file_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigurationError, match="is not a file"):
        read_trusted(tmp_path / "pipe")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a file|cannot be read"):
        read_trusted(tmp_path)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    write_private(tmp_path / "a", b"123456")
    assert read_trusted(tmp_path / "a", limit=6) == b"123456"
    with pytest.raises(ConfigurationError, match="6 bytes, more than the limit of 5"):
        read_trusted(tmp_path / "a", limit=5)


def test_a_missing_file_is_left_to_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trusted(tmp_path / "absent")
