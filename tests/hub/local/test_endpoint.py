"""The endpoint of a home's hub, computed without importing the settings."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import platformdirs
import pytest

from tabane.hub.local import lock
from tabane.hub.local.endpoint import Endpoint, UnsafeEndpoint, at_url, check_private, home_of
from tabane.settings import load_settings


@pytest.mark.parametrize(
    "variables",
    [
        {"TABANE_HOME": "/x/y/../z"},
        {"TABANE_HOME": "~/t"},
        {"TABANE_HOME": "relative"},
        {"TABANE_HOME": ""},
        {"XDG_DATA_HOME": "/data"},
        {"XDG_DATA_HOME": "not/absolute"},
        {},
    ],
)
def test_the_home_is_the_one_that_settings_find(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("TABANE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert home_of(os.environ) == str(load_settings({}, os.environ).home)
    if not variables.get("TABANE_HOME"):
        assert home_of(os.environ) == platformdirs.user_data_dir("tabane", appauthor=False)


def test_a_flag_names_the_home_before_the_variable(tmp_path: Path) -> None:
    assert home_of({"TABANE_HOME": "/a"}, str(tmp_path)) == str(tmp_path)


def test_a_socket_lies_in_the_home_where_it_fits(tmp_path: Path) -> None:
    endpoint = Endpoint(str(tmp_path), {})
    assert endpoint.prepare() == endpoint.reachable() == str(tmp_path / "hub.sock")


def long_home(tmp_path: Path) -> str:
    return str(tmp_path / ("長" * 40))


def test_a_socket_that_does_not_fit_lies_in_a_private_folder(tmp_path: Path) -> None:
    home = long_home(tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # pytest's own folders may be too long for it
        endpoint = Endpoint(home, {"XDG_RUNTIME_DIR": short})
        path = Path(endpoint.prepare())
        assert path.parent.parent == Path(short)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert endpoint.reachable() == str(path)
        assert Path(Endpoint(home + "x", {"XDG_RUNTIME_DIR": short}).socket).parent != path.parent


def test_a_client_with_another_environment_finds_the_socket_by_the_note_in_the_lock(tmp_path: Path) -> None:
    home = long_home(tmp_path)
    path = Endpoint(home, {"XDG_RUNTIME_DIR": str(tmp_path)}).prepare()
    held = lock.acquire(os.path.join(home, "hub.lock"))
    assert held is not None
    held.write(lock.LockHolder(1, "1", lock.HAND, socket=path))
    assert Endpoint(home, {}).reachable() == path
    held.release()


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_somebody_else_could_have_laid_there_is_not_used(tmp_path: Path, trap: str) -> None:
    endpoint = Endpoint(long_home(tmp_path), {"XDG_RUNTIME_DIR": str(tmp_path)})
    folder = Path(endpoint.elsewhere)
    if trap == "open":
        folder.mkdir()
        folder.chmod(0o777)
    elif trap == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "target")
    else:
        folder.touch()
    with pytest.raises(UnsafeEndpoint):
        endpoint.prepare()
    with pytest.raises(UnsafeEndpoint):
        endpoint.reachable()


@pytest.mark.skipif(os.getuid() != 0, reason="needs to give a folder away")
def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(UnsafeEndpoint):
        check_private(str(tmp_path))


@pytest.mark.parametrize("url", ["unix:/a/b", "unix:///a/b", "unix:/a/b/hub.sock"])
def test_a_hub_of_this_machine_has_an_address(url: str) -> None:
    assert at_url(url, {}).home == "/a/b"


@pytest.mark.parametrize("url", ["ws://127.0.0.1:8765", "http://x", "", "unix:", "/a/b"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        at_url(url, {})


def test_a_lock_is_one_holders_and_says_whose(tmp_path: Path) -> None:
    path = str(tmp_path / "hub.lock")
    assert not lock.held(path)
    assert lock.read_holder(path) is None
    first = lock.acquire(path)
    assert first is not None
    assert lock.held(path)
    assert lock.acquire(path) is None
    note = lock.LockHolder(7, "1.0", lock.HAND, ("--lang=ja",), 1.5, "/s", None)
    first.write(note)
    first.write(note._replace(flags=()))
    assert lock.read_holder(path) == note._replace(flags=())
    first.release()
    assert not lock.held(path)
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', "null"])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "hub.lock").write_text(text)
    assert lock.read_holder(str(tmp_path / "hub.lock")) is None


@pytest.mark.parametrize(
    ("ended", "continued"),
    [(None, True), ("restart", True), ("replace", True), ("stop", False), ("idle", False)],
)
def test_a_hub_is_continued_where_it_did_not_mean_to_end(ended: str | None, continued: bool) -> None:
    assert lock.LockHolder(1, "1", lock.HAND, ended=ended).to_be_continued is continued


def test_a_note_in_the_lock_file_can_be_read_at_any_moment_of_its_replacement(tmp_path: Path) -> None:
    path = str(tmp_path / "hub.lock")
    held = lock.acquire(path)
    assert held is not None
    short = lock.LockHolder(1, "1", lock.HAND)
    long = short._replace(flags=tuple(f"--flag-{number}" for number in range(99)))
    held.write(long)
    seen: list[lock.LockHolder | None] = []

    def looks(_frame: FrameType, _event: str, _argument: Any) -> Any:
        seen.append(lock.read_holder(path))
        return looks

    before = sys.gettrace()
    sys.settrace(looks)
    try:
        for note in (short, long, short):
            held.write(note)
    finally:
        sys.settrace(before)
        held.release()
    assert len(seen) > 9
    assert set(seen) == {short, long}
